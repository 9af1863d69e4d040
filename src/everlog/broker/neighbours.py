"""The other nodes as a broker's own needs meet them: controllers and brokers.

A broker that is alone has none of them: its own controller decides.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from everlog.metadata.image import PartitionImage
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId
from everlog.model.topics import TopicPartition
from everlog.wire.message import Message

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

REQUEST_TIMEOUT_MS = 30_000
"""How long another broker may take to answer, as in Kafka."""


class Channel(Protocol):
    """Whichever controller is active."""

    def ask(
        self, request: Message, version: int, done: Callable[[Message | Refused], None], timeout_ms: int
    ) -> None:
        """Ask it, waiting while there is none; `done` gets the response, or Refused when the time is up."""
        ...


class Neighbour(Protocol):
    """Another broker."""

    def ask(self, request: Message, version: int, timeout_ms: int, done: Callable[[object], None]) -> None:
        """Ask it; `done` gets the response, or something that is none and says why there is none."""
        ...


def channel(broker: "Broker") -> Channel | None:
    """The way to the active controller; None for a broker whose own controller is the only one."""
    found: Channel | None = getattr(broker, "channel", None)
    return found


def neighbour(broker: "Broker", broker_id: int, lane: str) -> Neighbour | None:
    """A broker that may be asked; None if it is not there, or not alive. Answers come in order in a lane."""
    known = broker.image.brokers.get(BrokerId(broker_id))
    find: Callable[[BrokerId, str], Neighbour | None] | None = getattr(broker, "peer", None)
    if find is None or known is None or known.fenced:
        return None
    return find(known.id, lane)


def told_code(number: int) -> ErrorCode:
    """What another node answered, as a code; UNKNOWN_SERVER_ERROR for one that this version does not know."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def partition_image(broker: "Broker", partition: TopicPartition) -> PartitionImage | None:
    """What the cluster knows of a partition; None if there is none of that name."""
    topic = broker.image.topics.get(partition.topic)
    if topic is None or not 0 <= partition.partition < len(topic.partitions):
        return None
    return topic.partitions[partition.partition]

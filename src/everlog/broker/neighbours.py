"""The other nodes as the handlers of a broker meet them: controllers, brokers, and the replicas that follow.

A broker that is alone has none of them. It commits what it has written, leads all there is, and its own
controller decides.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from everlog.metadata.image import PartitionImage
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId, Offset
from everlog.model.topics import TopicPartition
from everlog.wire.message import Message

if TYPE_CHECKING:
    from everlog.broker.broker import Broker
    from everlog.broker.replicas import Replica

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


class Commitment(Protocol):
    """What followers have of the partitions that lead here."""

    def appended(self, replica: "Replica", size: int, wait_for_sync: bool = False) -> None:
        """Take in that a partition led here has so many bytes more, which may have to be synced."""
        ...

    def when_committed(self, replica: "Replica", end: Offset, done: Callable[[ErrorCode], None]) -> None:
        """Call `done` once the high watermark has reached `end`, or when the partition leads here no more."""
        ...


def channel(broker: "Broker") -> Channel | None:
    """The way to the active controller; None for a broker whose own controller is the only one."""
    found: Channel | None = getattr(broker, "channel", None)
    return found


def commitment(broker: "Broker") -> Commitment | None:
    """Who knows what is committed; None for a broker without followers, which commits what it has."""
    found: Commitment | None = getattr(broker, "replication", None)
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


def leads_here(broker: "Broker", replica: "Replica") -> bool:
    """Whether a replica leads: the cluster says so, and of this life of the broker, not of an earlier one."""
    known = partition_image(broker, replica.name)
    if known is None or known.leader != broker.node_id:
        return False
    return commitment(broker) is None or replica.leads


def check_led_here(broker: "Broker", replica: "Replica", epoch: int | None = None) -> PartitionImage:
    """Refuse what only the leader may do, where another broker leads or, with an epoch, another epoch is."""
    known = partition_image(broker, replica.name)
    if (
        known is None
        or not leads_here(broker, replica)
        or (epoch is not None and known.leader_epoch != epoch)
    ):
        raise Refused(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{replica.name} does not lead on broker {broker.node_id}"
        )
    return known

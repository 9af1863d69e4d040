"""Where a client should have asked: the leader of a partition that does not lead here (KIP-951)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from everlog.metadata.image import NO_LEADER, PartitionImage
from everlog.model.errors import ErrorCode
from everlog.model.ids import BrokerId, Uuid
from everlog.wire.hot.writing import NodeEndpoint

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


class Elsewhere(NamedTuple):
    """Why a partition is not served here, and its leader and leader epoch if that helps."""

    code: ErrorCode
    leader: tuple[int, int] | None = None


def elsewhere(broker: "Broker", topic: str | bytes, index: int) -> Elsewhere:
    """What to say of a partition that is not held here, or does not lead here."""
    known = broker.image.topics.get(topic) if isinstance(topic, str) else None
    if not isinstance(topic, str):
        known = broker.image.topics_by_id.get(Uuid(topic))
        if known is None:
            return Elsewhere(ErrorCode.UNKNOWN_TOPIC_ID)
    if known is None or not 0 <= index < len(known.partitions):
        return Elsewhere(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return Elsewhere(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_of(known.partitions[index]))


def leader_of(partition: PartitionImage) -> tuple[int, int]:
    """The leader of a partition and its epoch, as answers name them."""
    return partition.leader, partition.leader_epoch


def endpoints(broker: "Broker", listener_name: str, leaders: Iterable[int]) -> list[NodeEndpoint]:
    """Where a client of a listener reaches the leaders that an answer names, each once."""
    found: list[NodeEndpoint] = []
    for leader in sorted(set(leaders)):
        known = broker.image.brokers.get(BrokerId(leader)) if leader != NO_LEADER else None
        endpoint = None if known is None or known.fenced else known.endpoint(listener_name)
        if known is not None and endpoint is not None:
            found.append((leader, endpoint.host, endpoint.port, known.rack))
    return found

"""Other brokers as this one asks them, and what the cluster knows of the partitions it asks about."""

from typing import TYPE_CHECKING

from everlog.metadata.image import PartitionImage
from everlog.model.errors import ErrorCode
from everlog.model.ids import BrokerId
from everlog.model.topics import TopicPartition
from everlog.peers.peer import Peer

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

REQUEST_TIMEOUT_MS = 30_000
"""How long another broker may take to answer, as in Kafka."""


def neighbour(broker: "Broker", broker_id: int, lane: str) -> Peer | None:
    """A broker that may be asked; None if it is not there, or not alive. Answers come in order in a lane."""
    known = broker.image.brokers.get(BrokerId(broker_id))
    return None if known is None or known.fenced else broker.peer(known.id, lane)


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

"""A small cluster as a client sees it, and the answers its brokers would give."""

from collections.abc import Sequence

from everlog.client.core.metadata import Broker, ClusterView, Partition, Topic
from everlog.model.ids import NO_UUID, Uuid
from everlog.records.builder import NewRecord, build_batch
from everlog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

ORDERS_ID = Uuid(b"orders-topic-id!")


def a_view(
    *leaders: int, epoch: int = 0, topic_id: Uuid = ORDERS_ID, brokers: Sequence[int] = (1, 2)
) -> ClusterView:
    """A view of the topic `orders`, one partition for each leader given."""
    partitions = {
        index: Partition(index, leader, epoch, (1, 2), (1, 2)) for index, leader in enumerate(leaders)
    }
    return ClusterView(
        "a-cluster",
        1,
        {node: Broker(node, f"host-{node}", 9092) for node in brokers},
        {"orders": Topic("orders", topic_id, False, partitions)},
    )


def a_batch(base_offset: int, *values: str, producer_id: int = -1, transactional: bool = False) -> bytes:
    """A batch as a broker sends it."""
    records = [NewRecord(None, value.encode(), (), 1000 + index) for index, value in enumerate(values)]
    return bytes(
        build_batch(
            records,
            base_offset=base_offset,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            transactional=transactional,
        )
    )


def a_fetch_response(*partitions: PartitionData, topic_id: Uuid = ORDERS_ID) -> FetchResponse:
    """An answer about the topic `orders`; from version 13 on it has an id instead of a name."""
    by_name = topic_id == NO_UUID
    topic = FetchableTopicResponse(
        topic="orders" if by_name else "", topic_id=topic_id, partitions=list(partitions)
    )
    return FetchResponse(responses=[topic])

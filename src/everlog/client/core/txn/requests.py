"""The requests of a transaction that take some making, and their answers by partition."""

from collections.abc import Iterable, Mapping

from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata
from everlog.client.core.producer.identity import ProducerIdentity
from everlog.model.topics import TopicPartition
from everlog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from everlog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


def add_partitions_request(
    transactional_id: str, identity: ProducerIdentity, places: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Add partitions in version 1 of the protocol; the fields of a client end with version 3 of the API."""
    topics: dict[str, list[int]] = {}
    for place in places:
        topics.setdefault(place.topic, []).append(place.partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()
        ],
    )


def partition_codes(answer: AddPartitionsToTxnResponse) -> dict[TopicPartition, int]:
    """The code of each partition that was to be added."""
    return {
        TopicPartition(topic.name, part.partition_index): part.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    }


def offset_commit_request(
    transactional_id: str,
    identity: ProducerIdentity,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: GroupMetadata,
) -> TxnOffsetCommitRequest:
    """Commit offsets in the name of a member of a group; the group refuses one that it went on without."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for place, at in offsets.items():
        topics.setdefault(place.topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=place.partition,
                committed_offset=at.offset,
                committed_leader_epoch=at.leader_epoch,
                committed_metadata=at.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        generation_id_or_member_epoch=group.generation,
        member_id=group.member_id,
        group_instance_id=group.instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )

"""A group's committed offsets: asked for, written and deleted by an administrator or a member (C5, C7)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from everlog.client.core.admin.groups import group_refusal
from everlog.client.core.group.subscription import by_topic
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_EPOCH, LeaderEpoch, Offset
from everlog.model.topics import TopicPartition
from everlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from everlog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from everlog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

LAST_VERSION_BY_NAME = 9
"""Later versions of OffsetCommit and OffsetFetch name topics by id alone, so that offsets of a topic that has
been deleted could not be told by name."""

NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Committed:
    """The offset that a group will read next in a partition, and what was said with it."""

    offset: Offset
    leader_epoch: LeaderEpoch = NO_EPOCH
    metadata: str = ""


def fetch_offsets_request(
    group_id: str, places: Collection[TopicPartition] | None = None, *, require_stable: bool = False
) -> OffsetFetchRequest:
    """Ask for a group's offsets, all or those of some partitions.

    With `require_stable` those that an open transaction may still change are refused (KIP-447).
    """
    topics = None
    if places is not None:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(places).items()
        ]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)],
        require_stable=require_stable,
    )


def offset_fetch_codes(response: OffsetFetchResponse) -> list[int]:
    """All error codes in an answer."""
    return [
        code
        for group in response.groups
        for code in (
            group.error_code,
            *(partition.error_code for topic in group.topics for partition in topic.partitions),
        )
    ]


def read_committed_offsets(
    response: OffsetFetchResponse, group_id: str
) -> dict[TopicPartition, Committed | None]:
    """The offsets by partition, None where none is committed; Refused for any error."""
    found: dict[TopicPartition, Committed | None] = {}
    for group in response.groups:
        if group.group_id != group_id:
            continue
        if group.error_code != ErrorCode.NONE:
            raise group_refusal(group.error_code, None, group_id)
        for topic in group.topics:
            for entry in topic.partitions:
                place = TopicPartition(topic.name, entry.partition_index)
                if entry.error_code != ErrorCode.NONE:
                    raise group_refusal(entry.error_code, None, group_id, f", offset of {place}")
                found[place] = (
                    None
                    if entry.committed_offset == NO_OFFSET
                    else Committed(
                        Offset(entry.committed_offset),
                        LeaderEpoch(entry.committed_leader_epoch),
                        entry.metadata or "",
                    )
                )
    return found


def commit_offsets_request(
    group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
) -> OffsetCommitRequest:
    """Ask for offsets to be committed in nobody's name, for a group without members."""
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[_commit(index, offsets[TopicPartition(name, index)]) for index in indexes],
        )
        for name, indexes in by_topic(offsets).items()
    ]
    return OffsetCommitRequest(group_id=group_id, topics=topics)


def offset_commit_codes(response: OffsetCommitResponse) -> list[int]:
    """All error codes in an answer."""
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


def read_commits(response: OffsetCommitResponse, group_id: str) -> dict[TopicPartition, Refused | None]:
    """What became of each partition's commit; None if it was made."""
    return {
        TopicPartition(topic.name, entry.partition_index): _error(
            entry.error_code, group_id, TopicPartition(topic.name, entry.partition_index)
        )
        for topic in response.topics
        for entry in topic.partitions
    }


def delete_offsets_request(group_id: str, places: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    """Ask for offsets to be deleted (KIP-496)."""
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for name, indexes in by_topic(places).items()
        ],
    )


def offset_delete_codes(response: OffsetDeleteResponse) -> list[int]:
    """All error codes in an answer."""
    return [
        response.error_code,
        *(partition.error_code for topic in response.topics for partition in topic.partitions),
    ]


def read_deleted_offsets(
    response: OffsetDeleteResponse, group_id: str
) -> dict[TopicPartition, Refused | None]:
    """What became of each partition's offset, None if it is gone; Refused if the group as a whole was."""
    if response.error_code != ErrorCode.NONE:
        raise group_refusal(response.error_code, None, group_id)
    return {
        TopicPartition(topic.name, entry.partition_index): _error(
            entry.error_code, group_id, TopicPartition(topic.name, entry.partition_index)
        )
        for topic in response.topics
        for entry in topic.partitions
    }


def _error(code: int, group_id: str, place: TopicPartition) -> Refused | None:
    return None if code == ErrorCode.NONE else group_refusal(code, None, group_id, f", offset of {place}")


def _commit(index: int, entry: int | OffsetAndMetadata) -> OffsetCommitRequestPartition:
    wanted = OffsetAndMetadata(entry) if isinstance(entry, int) else entry
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=wanted.offset,
        committed_leader_epoch=wanted.leader_epoch,
        committed_metadata=wanted.metadata,
    )

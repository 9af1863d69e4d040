"""Committed offsets on the wire (C5, C7)."""

import pytest

from everlog.client.core.group.offsets import (
    Committed,
    commit_offsets_request,
    delete_offsets_request,
    fetch_offsets_request,
    offset_delete_codes,
    offset_fetch_codes,
    read_commits,
    read_committed_offsets,
    read_deleted_offsets,
)
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import LeaderEpoch, Offset
from everlog.model.topics import TopicPartition
from everlog.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from everlog.wire.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from everlog.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def fetched(*partitions: OffsetFetchResponsePartitions, error: int = 0) -> OffsetFetchResponse:
    topic = OffsetFetchResponseTopics(name="orders", partitions=list(partitions))
    return OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup(group_id="billing", topics=[topic], error_code=error)]
    )


def test_asking_for_all_offsets_names_no_topic_and_asking_for_none_is_something_else() -> None:
    assert fetch_offsets_request("billing").groups[0].topics is None
    assert fetch_offsets_request("billing", []).groups[0].topics == []


def test_an_offset_of_minus_one_is_none() -> None:
    answer = fetched(
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=7, committed_leader_epoch=2),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
    )

    assert read_committed_offsets(answer, "billing") == {
        ZERO: Committed(Offset(7), LeaderEpoch(2), ""),
        ONE: None,
    }


def test_the_codes_of_the_group_and_of_each_partition_are_told() -> None:
    answer = fetched(
        OffsetFetchResponsePartitions(error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT),
        error=ErrorCode.NOT_COORDINATOR,
    )

    assert offset_fetch_codes(answer) == [ErrorCode.NOT_COORDINATOR, ErrorCode.UNSTABLE_OFFSET_COMMIT]
    with pytest.raises(Refused, match="group 'billing': NOT_COORDINATOR"):
        read_committed_offsets(answer, "billing")


def test_a_commit_carries_the_offsets_by_topic_and_nobodys_name() -> None:
    other = TopicPartition("audit", 3)
    request = commit_offsets_request("billing", {ONE: 5, other: 9, ZERO: 4})

    assert (request.member_id, request.generation_id_or_member_epoch) == ("", -1)
    assert [
        (topic.name, [(entry.partition_index, entry.committed_offset) for entry in topic.partitions])
        for topic in request.topics
    ] == [("audit", [(3, 9)]), ("orders", [(0, 4), (1, 5)])]


def test_one_commit_that_fails_does_not_hide_the_others() -> None:
    topic = OffsetCommitResponseTopic(
        name="orders",
        partitions=[
            OffsetCommitResponsePartition(partition_index=0),
            OffsetCommitResponsePartition(partition_index=1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ],
    )

    results = read_commits(OffsetCommitResponse(topics=[topic]), "billing")

    assert results[ZERO] is None
    assert str(results[ONE]) == "group 'billing', offset of orders-1: UNKNOWN_TOPIC_OR_PARTITION"


def test_deleting_offsets_tells_of_each_partition_or_of_the_group() -> None:
    assert [topic.name for topic in delete_offsets_request("billing", [ONE, ZERO]).topics] == ["orders"]
    topic = OffsetDeleteResponseTopic(
        name="orders",
        partitions=[OffsetDeleteResponsePartition(error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)],
    )
    subscribed = OffsetDeleteResponse(topics=[topic])

    assert offset_delete_codes(subscribed) == [0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert "stop them first" in str(read_deleted_offsets(subscribed, "billing")[ZERO])
    with pytest.raises(Refused, match="no such group"):
        read_deleted_offsets(OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND), "billing")

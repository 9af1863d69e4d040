"""Commits and fetches of a consumer's own, in every version (C5)."""

import pytest

from everlog.client.core.group.member_offsets import (
    TopicIds,
    commit_problem,
    commit_request,
    fetch_request,
    read_fetched,
)
from everlog.client.core.group.types import GroupMetadata, OffsetAndMetadata
from everlog.client.core.metadata import ClusterView, Topic
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.codec import encode_request
from everlog.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from everlog.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

ID = Uuid(b"t" * 16)
PLACES = [TopicPartition("t", 0), TopicPartition("t", 1)]
VIEW = ClusterView(topics={"t": Topic("t", ID, False, {})})
KNOWN, UNKNOWN = TopicIds.of(PLACES, VIEW), TopicIds.of(PLACES, ClusterView())
ME = GroupMetadata("g", 3, "me", "one")


def test_names_are_used_up_to_version_9_where_an_id_is_not_known() -> None:
    assert KNOWN.at_most is None
    assert UNKNOWN.at_most == 9


@pytest.mark.parametrize("version", range(7, 11))
def test_a_commit_says_who_and_where(version: int) -> None:
    offsets = {PLACES[0]: OffsetAndMetadata(5, "note", 2)}

    request = commit_request(ME, offsets, KNOWN)

    assert (request.member_id, request.generation_id_or_member_epoch) == ("me", 3)
    assert request.group_instance_id == "one"
    entry = request.topics[0].partitions[0]
    assert (entry.committed_offset, entry.committed_metadata, entry.committed_leader_epoch) == (5, "note", 2)
    assert encode_request(request, version, 1, "c")


def test_a_refused_commit_names_the_partition_even_if_the_answer_has_an_id_only() -> None:
    failed = OffsetCommitResponsePartition(partition_index=1, error_code=ErrorCode.ILLEGAL_GENERATION)
    answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(topic_id=ID, partitions=[failed])])

    problem = commit_problem(answer, "g", KNOWN)

    assert problem is not None
    assert problem.code is ErrorCode.ILLEGAL_GENERATION
    assert "commit of t-1" in str(problem)
    assert commit_problem(OffsetCommitResponse(), "g", KNOWN) is None


@pytest.mark.parametrize("version", range(1, 11))
def test_a_fetch_fits_every_version(version: int) -> None:
    request = fetch_request("g", ME if version >= 9 else None, PLACES, KNOWN, version)

    assert encode_request(request, version, 1, "c")
    assert request.require_stable is (version >= 7)


def test_a_member_of_the_consumer_protocol_says_who_it_is() -> None:
    group = fetch_request("g", ME, PLACES, KNOWN, 10).groups[0]

    assert (group.member_id, group.member_epoch) == ("me", 3)


def test_offsets_are_read_from_answers_old_and_new() -> None:
    old = OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name="t",
                partitions=[
                    OffsetFetchResponsePartition(partition_index=0, committed_offset=5, metadata="note"),
                    OffsetFetchResponsePartition(partition_index=1, committed_offset=-1),
                ],
            )
        ]
    )
    new = OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                group_id="g",
                topics=[
                    OffsetFetchResponseTopics(
                        topic_id=ID,
                        partitions=[
                            OffsetFetchResponsePartitions(
                                partition_index=0, committed_offset=5, metadata="note"
                            ),
                            OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
                        ],
                    )
                ],
            )
        ]
    )

    expected = {PLACES[0]: OffsetAndMetadata(5, "note"), PLACES[1]: None}
    assert read_fetched(old, "g", KNOWN) == expected
    assert read_fetched(new, "g", KNOWN) == expected


@pytest.mark.parametrize("at", ["answer", "group", "partition"])
def test_an_error_anywhere_is_told(at: str) -> None:
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    entry = OffsetFetchResponsePartitions(error_code=code if at == "partition" else 0)
    topic = OffsetFetchResponseTopics(name="t", partitions=[entry])
    group = OffsetFetchResponseGroup(group_id="g", topics=[topic], error_code=code if at == "group" else 0)

    with pytest.raises(Refused) as refused:
        read_fetched(
            OffsetFetchResponse(groups=[group], error_code=code if at == "answer" else 0), "g", UNKNOWN
        )
    assert refused.value.code is code

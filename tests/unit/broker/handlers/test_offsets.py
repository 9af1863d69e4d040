"""OffsetCommit, OffsetFetch and OffsetDelete in all their versions, and over restarts (C5)."""

import pytest

from everlog.model.errors import ErrorCode
from everlog.model.ids import Uuid
from everlog.sim.chance import SimRandom
from everlog.sim.platter import Loss
from everlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from everlog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from everlog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.unit.broker.group_calls import (
    TOPIC_IDS,
    a_commit,
    commit,
    committed_offset,
    fetch_one,
    find_coordinator,
)
from tests.unit.broker.handlers.nodes import SimNode


def a_node(partitions: int = 2, **settings: str) -> tuple[SimNode, Uuid]:
    """A node with the topic `orders` and a coordinator."""
    node = SimNode(None, **settings)
    topic_id = node.create_topic("orders", partitions)
    find_coordinator(node)
    return node, topic_id


@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_of_every_version_is_kept_with_all_that_the_version_can_say(version: int) -> None:
    node, topic_id = a_node()
    request = a_commit("g", "orders", (0, 5), (1, 7), topic_id=topic_id, metadata="note", leader_epoch=3)

    assert commit(node, request, version) == [0, 0]

    found = fetch_one(node, "g", "orders", 1)
    assert (found.committed_offset, found.metadata) == (7, "note")
    assert found.committed_leader_epoch == (3 if version >= 6 else -1)


@pytest.mark.parametrize("version", range(1, 11))
def test_a_fetch_of_every_version_finds_the_commit_and_says_where_there_is_none(version: int) -> None:
    node, topic_id = a_node()
    commit(node, a_commit("g", "orders", (0, 5), metadata="note", leader_epoch=3))

    found = fetch_one(node, "g", "orders", 0, version=version, topic_id=topic_id)
    none = fetch_one(node, "g", "orders", 1, version=version, topic_id=topic_id)

    assert (found.committed_offset, found.metadata, found.error_code) == (5, "note", 0)
    assert found.committed_leader_epoch == (3 if version >= 5 else -1)
    assert (none.committed_offset, none.metadata, none.error_code) == (-1, "", 0)


def test_what_was_committed_is_there_after_a_kill() -> None:
    node, _ = a_node()
    for offset in (5, 6):
        commit(node, a_commit("g", "orders", (0, offset), metadata=f"at {offset}"))
    commit(node, a_commit("other", "orders", (1, 9)))

    node.start()
    node.connect("PLAINTEXT")
    node.pass_time(100)

    found = fetch_one(node, "g", "orders")
    assert (found.committed_offset, found.metadata) == (6, "at 6")
    assert committed_offset(node, "other", "orders", 1) == 9


@pytest.mark.parametrize("seed", range(3))
def test_with_a_flush_for_each_batch_a_commit_that_was_answered_survives_the_loss_of_all_that_was_not_synced(
    seed: int,
) -> None:
    node, _ = a_node(log_flush_interval_messages="1")
    assert commit(node, a_commit("g", "orders", (0, 5))) == [0]

    node.files = node.files.after_crash(SimRandom(f"crash {seed}"), Loss.ALL)
    node.start()
    node.connect("PLAINTEXT")
    node.pass_time(100)

    assert committed_offset(node, "g", "orders") == 5


def test_with_a_flush_for_each_batch_the_answer_waits_for_the_sync() -> None:
    node, _ = a_node(log_flush_interval_messages="1")

    node.request(a_commit("g", "orders", (0, 5)), 9)
    assert node.answers == []
    node.aside.run_all()

    assert len(node.answers) == 1


def test_partitions_and_topics_that_are_not_there_are_refused_and_the_others_are_not() -> None:
    node, _ = a_node()
    request = a_commit("g", "orders", (0, 5), (2, 5), (-1, 5))
    request.topics.extend(a_commit("g", "nothing", (0, 5)).topics)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(node, request) == [0, unknown, unknown, unknown]
    assert committed_offset(node, "g", "orders") == 5


def test_by_id_an_unknown_topic_is_told_from_an_unknown_partition() -> None:
    node, topic_id = a_node()
    request = a_commit("g", "", (5, 5), topic_id=topic_id)
    request.topics.extend(a_commit("g", "", (0, 5), topic_id=Uuid(b"x" * 16)).topics)

    codes = commit(node, request, TOPIC_IDS)

    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]
    found = fetch_one(node, "g", "", version=TOPIC_IDS, topic_id=Uuid(b"x" * 16))
    assert (found.error_code, found.committed_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


def test_a_commit_of_nothing_is_answered_with_nothing() -> None:
    node, _ = a_node()
    request = a_commit("g", "orders")
    request.topics = []

    assert commit(node, request) == []


def test_metadata_above_the_limit_is_refused_for_its_partition_alone() -> None:
    node, _ = a_node(offset_metadata_max_bytes="10")
    request = a_commit("g", "orders", (0, 5), metadata="x" * 11)
    request.topics.extend(a_commit("g", "orders", (1, 6), metadata="x" * 10).topics)

    assert commit(node, request) == [ErrorCode.OFFSET_METADATA_TOO_LARGE, 0]


def test_a_member_of_no_group_is_refused() -> None:
    node, _ = a_node()

    assert commit(node, a_commit("g", "orders", (0, 5), member=("m", 4)), 8) == [ErrorCode.ILLEGAL_GENERATION]
    assert commit(node, a_commit("g", "orders", (0, 5), member=("m", 4)), 9) == [ErrorCode.GROUP_ID_NOT_FOUND]


def test_a_commit_that_does_not_fit_into_a_batch_is_too_large() -> None:
    node, _ = a_node(200, offset_metadata_max_bytes="30000")
    request = a_commit("g", "orders", *((partition, 1) for partition in range(100)), metadata="x" * 20_000)

    assert set(commit(node, request)) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}


def test_where_the_disk_is_full_the_client_is_told_to_look_for_the_coordinator_again() -> None:
    node, _ = a_node()
    commit(node, a_commit("g", "orders", (0, 5)))
    node.files.quota_bytes = 0

    assert commit(node, a_commit("g", "orders", (0, 6))) == [ErrorCode.NOT_COORDINATOR]

    node.files.quota_bytes = None
    assert committed_offset(node, "g", "orders") == 5
    assert commit(node, a_commit("g", "orders", (0, 6))) == [0]


@pytest.mark.parametrize("version", [2, 5, 6, 7])
def test_all_topics_of_a_group_are_fetched_where_none_is_named(version: int) -> None:
    node, _ = a_node()
    commit(node, a_commit("g", "orders", (0, 5), (1, 6)))

    answer = node.ask(OffsetFetchRequest(group_id="g", topics=None), version, OffsetFetchResponse)

    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("orders", 2)]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_several_groups_are_fetched_at_once_each_with_what_it_has(version: int) -> None:
    node, topic_id = a_node()
    commit(node, a_commit("g", "orders", (0, 5)))
    commit(node, a_commit("h", "orders", (1, 6)))
    wanted = [OffsetFetchRequestTopics(name="orders", topic_id=topic_id, partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="h", topics=None),
            OffsetFetchRequestGroup(group_id="g", topics=wanted),
            OffsetFetchRequestGroup(group_id="nobody", topics=None),
        ]
    )

    answer = node.ask(request, version, OffsetFetchResponse)

    found = [
        (group.group_id, [(one.partition_index, one.committed_offset) for one in topic.partitions])
        for group in answer.groups
        for topic in group.topics
    ]
    assert found == [("h", [(1, 6)]), ("g", [(0, 5)])]
    assert [group.group_id for group in answer.groups] == ["h", "g", "nobody"]
    named = {(topic.name, topic.topic_id) for group in answer.groups for topic in group.topics}
    assert named == ({("", topic_id)} if version >= TOPIC_IDS else {("orders", Uuid(bytes(16)))})


def test_version_1_has_the_error_in_each_partition_and_later_ones_in_one_place() -> None:
    node = SimNode()
    node.create_topic("orders")
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
    request = OffsetFetchRequest(group_id="g", topics=topics)

    # Nobody has asked for a coordinator yet, so its topic is being made.
    client = node.client()
    client.ask(request, 1)
    client.ask(request, 5)
    first, second = client.take(OffsetFetchResponse), client.take(OffsetFetchResponse)
    node.aside.run_all()

    not_available = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert first.topics[0].partitions[0].error_code == not_available
    assert (second.error_code, second.topics) == (not_available, [])
    assert committed_offset(node, "g", "orders") == -1


def test_offsets_go_with_their_topic_and_its_successor_does_not_get_them() -> None:
    node, _ = a_node()
    commit(node, a_commit("g", "orders", (0, 5)))

    node.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5, DeleteTopicsResponse)
    node.create_topic("orders", 2)

    assert committed_offset(node, "g", "orders") == -1
    node.start()
    node.connect("PLAINTEXT")
    node.pass_time(100)
    assert committed_offset(node, "g", "orders") == -1


def test_a_deleted_offset_is_gone_and_stays_so() -> None:
    node, _ = a_node()
    commit(node, a_commit("g", "orders", (0, 5), (1, 6)))
    request = an_offset_delete("g", ("orders", 0), ("orders", 7), ("nothing", 0))

    answer = node.ask(request, 0, OffsetDeleteResponse)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    codes = [one.error_code for topic in answer.topics for one in topic.partitions]
    assert (answer.error_code, codes) == (0, [0, unknown, unknown])
    node.start()
    node.connect("PLAINTEXT")
    node.pass_time(100)
    assert (committed_offset(node, "g", "orders"), committed_offset(node, "g", "orders", 1)) == (-1, 6)


def test_deleting_offsets_of_no_group_is_refused_as_a_whole() -> None:
    node, _ = a_node()

    answer = node.ask(an_offset_delete("nobody", ("orders", 0)), 0, OffsetDeleteResponse)

    assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_the_empty_group_commits_and_fetches_as_it_always_could_and_deletes_nothing() -> None:
    node, _ = a_node()

    assert commit(node, a_commit("", "orders", (0, 5))) == [0]
    assert committed_offset(node, "", "orders") == 5
    refused = node.ask(an_offset_delete("", ("orders", 0)), 0, OffsetDeleteResponse)

    assert refused.error_code == ErrorCode.INVALID_GROUP_ID


def an_offset_delete(group: str, *places: tuple[str, int]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
            )
            for topic, partition in places
        ],
    )

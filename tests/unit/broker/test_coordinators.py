"""Coordinators on a broker: internal topics, loading in slices, and who coordinates what (C2, C5, P5)."""

import errno
from typing import cast

import pytest

from everlog.broker.loading import Loading
from everlog.coordinator.group.offsets import CommitOffsets, NewOffset
from everlog.coordinator.group.offsets_store import Place
from everlog.coordinator.machine import Machine, ProducerStamp
from everlog.coordinator.partitions import OFFSETS_TOPIC, TXN_TOPIC, partition_for
from everlog.log.partition import Origin
from everlog.metadata.image import topic_resource
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition
from everlog.records.batch import BatchView, batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec
from everlog.records.control import ControlType, Producer, build_marker
from everlog.records.reader import read_records
from everlog.sim.chance import SimRandom
from everlog.sim.faults import Fault, Kind
from everlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from everlog.wire.messages.fetch import FetchResponse
from everlog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from everlog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from everlog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.broker.group_calls import (
    a_commit,
    commit,
    committed_offset,
    fetch_one,
    find_coordinator,
)
from tests.unit.broker.handlers.nodes import SimNode
from tests.unit.broker.simulated import a_batch, a_fetch, produced, records_of


def a_node(**settings: str) -> SimNode:
    node = SimNode(None, **settings)
    node.create_topic("orders", 100)
    return node


def restarted(node: SimNode) -> SimNode:
    """The same disk after a kill, with everything loaded."""
    node.start()
    node.connect("PLAINTEXT")
    node.pass_time(1000)
    return node


# --- internal topics


def test_the_first_who_asks_for_a_coordinator_waits_until_its_topic_is_there() -> None:
    node = a_node()
    node.request(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    node.request(FindCoordinatorRequest(coordinator_keys=["h"]), 4)
    assert node.answers == []

    node.aside.run_all()

    assert len(node.answers) == 2
    assert len(node.broker.image.topics[OFFSETS_TOPIC].partitions) == 50
    assert TXN_TOPIC not in node.broker.image.topics


def test_the_topic_of_offsets_is_made_as_kafka_makes_it() -> None:
    node = a_node()
    find_coordinator(node)

    assert node.broker.image.config(topic_resource(OFFSETS_TOPIC)) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(100 << 20),
    }
    assert {len(one.replicas) for one in node.broker.image.topics[OFFSETS_TOPIC].partitions} == {1}


def test_the_topic_of_transactions_asks_for_no_more_replicas_than_it_has() -> None:
    node = a_node(transaction_state_log_num_partitions="7")
    find_coordinator(node, "txn", key_type=1)

    assert node.broker.image.config(topic_resource(TXN_TOPIC)) == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": str(100 << 20),
        "unclean.leader.election.enable": "false",
    }
    assert len(node.broker.image.topics[TXN_TOPIC].partitions) == 7


def test_a_segment_size_below_what_a_topic_may_have_keeps_no_coordinator_away() -> None:
    node = a_node(offsets_topic_segment_bytes="100")
    find_coordinator(node)

    assert node.broker.image.config(topic_resource(OFFSETS_TOPIC))["segment.bytes"] == str(1 << 20)


def test_a_client_that_did_not_ask_first_begins_the_topic_and_tries_again() -> None:
    node = a_node()

    assert commit(node, a_commit("g", "orders", (0, 5))) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert commit(node, a_commit("g", "orders", (0, 5))) == [0]


def test_a_topic_that_cannot_be_made_is_said_to_be_not_available_and_tried_again() -> None:
    node = a_node()
    node.files.faults = [Fault(Kind.APPEND, errno.ENOSPC, "__cluster_metadata")]
    request = FindCoordinatorRequest(coordinator_keys=["g"])

    (answer,) = node.ask(request, 4, FindCoordinatorResponse).coordinators
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    node.files.faults = []

    find_coordinator(node)


def test_clients_see_internal_topics_as_such_and_may_not_write_to_them() -> None:
    node = a_node()
    find_coordinator(node)

    answer = node.ask(MetadataRequest(topics=None), 9, MetadataResponse)
    refused = produced(node.client(), OFFSETS_TOPIC, a_batch(b"x"))

    assert [topic.name for topic in answer.topics if topic.is_internal] == [OFFSETS_TOPIC]
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_group_lies_in_the_partition_that_its_name_says() -> None:
    node = a_node()
    find_coordinator(node)
    commit(node, a_commit("some-group", "orders", (0, 5)))

    index = partition_for("some-group", 50)

    assert node.replica(OFFSETS_TOPIC, index).opened().end_offset == 1
    written = [one.name.partition for one in node.broker.replicas if one.log is not None and one.internal]
    assert written == [index]


def test_deleting_the_topic_closes_its_coordinators_and_the_next_is_made_anew() -> None:
    node = a_node()
    find_coordinator(node)
    commit(node, a_commit("g", "orders", (0, 5)))
    shard = node.broker.coordinators.group_shard("g")

    node.ask(DeleteTopicsRequest(topic_names=[OFFSETS_TOPIC], timeout_ms=1000), 5, DeleteTopicsResponse)

    with pytest.raises(Refused) as caught:
        shard.machine.check_active()
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
    find_coordinator(node)
    assert committed_offset(node, "g", "orders") == -1
    assert commit(node, a_commit("g", "orders", (0, 6))) == [0]


# --- loading


def test_commands_are_refused_until_the_log_is_read_and_then_served() -> None:
    node = a_node()
    node.create_topic("wide", 2500)
    find_coordinator(node)
    commit(node, a_commit("g", "wide", *((partition, partition) for partition in range(2500))))

    node.start()
    node.connect("PLAINTEXT")
    assert commit(node, a_commit("g", "orders", (0, 1))) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    node.pass_time(0)
    assert committed_offset(node, "g", "wide", 2499) == 2499


class Counting:
    """All of a machine that a loading asks for."""

    last_wins: frozenset[bytes] = frozenset()

    def __init__(self) -> None:
        self.seen: list[int] = []

    def replay(self, _key: bytes, _value: bytes, offset: int, _producer: object) -> None:
        self.seen.append(offset)


def test_a_log_is_read_a_little_at_a_time_and_every_record_once() -> None:
    node = a_node()
    find_coordinator(node)
    for at in range(50):
        commit(node, a_commit("g", "orders", *((partition, at) for partition in range(100))))
    counting = Counting()
    machine = cast(Machine, counting)  # It is asked for nothing else.
    loading = Loading(node.replica(OFFSETS_TOPIC, partition_for("g", 50)), machine, node.clock)

    slices: list[int] = []
    is_loaded = False
    while not is_loaded:
        before = len(counting.seen)
        is_loaded = loading.step()
        slices.append(len(counting.seen) - before)

    assert counting.seen == list(range(5000))
    assert max(slices) <= 2048


def test_a_slice_ends_when_its_time_is_up() -> None:
    node = a_node()
    find_coordinator(node)
    commit(node, a_commit("g", "orders", *((partition, 1) for partition in range(100))))
    commit(node, a_commit("g", "orders", *((partition, 2) for partition in range(100))))

    class Slow(Counting):
        def replay(self, _key: bytes, _value: bytes, offset: int, _producer: object) -> None:
            super().replay(_key, _value, offset, _producer)
            node.clock.advance(1)

    slow = Slow()
    machine = cast(Machine, slow)  # It is asked for nothing else.
    loading = Loading(node.replica(OFFSETS_TOPIC, partition_for("g", 50)), machine, node.clock)

    assert not loading.step()
    assert len(slow.seen) == 64


def test_of_commits_for_the_same_partition_only_the_last_is_looked_at() -> None:
    node = a_node()
    find_coordinator(node)
    for at in range(50):
        commit(node, a_commit("g", "orders", *((partition, at) for partition in range(3))))
    counting = Counting()
    counting.last_wins = node.broker.coordinators.group_shard("g").machine.last_wins
    machine = cast(Machine, counting)  # It is asked for nothing else.
    loading = Loading(node.replica(OFFSETS_TOPIC, partition_for("g", 50)), machine, node.clock)

    while not loading.step():
        pass

    assert counting.seen == [147, 148, 149]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_out_makes_no_difference(seed: int) -> None:
    node = a_node()
    find_coordinator(node)
    chance = SimRandom(f"history {seed}")
    shard = node.broker.coordinators.group_shard("g")
    index = partition_for("g", 50)
    ignore: list[object] = []
    for offset in range(120):
        partition, producer = chance.below(3), ProducerStamp(chance.below(3), 0)
        match chance.below(6):
            case 0 | 1 | 2:
                commit(node, a_commit("g", "orders", (partition, offset)))
            case 3:
                _commit_in_transaction(node, "g", partition, offset, producer)
            case 4:
                shard.offsets.delete("g", [("orders", partition)], ignore.append)
            case _:
                ends = chance.below(2) == 1
                append(node, index, a_marker(producer, commit=ends))
                shard.machine.end_transaction(producer, ends)

    again = restarted(node).broker.coordinators.group_shard("g").offsets.store

    assert again.of_group("g") == shard.offsets.store.of_group("g")
    places = [Place("g", "orders", partition) for partition in range(3)]
    assert [again.is_unstable(one) for one in places] == [
        shard.offsets.store.is_unstable(one) for one in places
    ]


def test_what_somebody_asks_for_is_read_first() -> None:
    node = a_node()
    find_coordinator(node)
    groups = [f"group-{number}" for number in range(30)]
    for group in groups:
        commit(node, a_commit(group, "orders", (0, 5)))
    node.start()
    coordinators = node.broker.coordinators
    coordinators.groups.reconcile()
    loaded = {index for index, _ in coordinators.groups.serving()}
    last = max(partition_for(group, 50) for group in groups)
    asked = next(group for group in groups if partition_for(group, 50) == last)
    assert last not in loaded

    with pytest.raises(Refused):
        coordinators.group_shard(asked)
    coordinators.groups.load_some()

    assert coordinators.group_shard(asked).offsets.knows(asked)


def append(node: SimNode, index: int, raw: bytearray) -> None:
    replica = node.replica(OFFSETS_TOPIC, index)
    batch = BatchView(memoryview(raw))
    replica.opened().append(batch, replica.leader_epoch, node.clock.wall(), Origin.COORDINATOR)


def test_compressed_batches_are_read_too() -> None:
    node = a_node()
    find_coordinator(node)
    commit(node, a_commit("g", "orders", (0, 5)))
    index = partition_for("g", 50)
    found = node.replica(OFFSETS_TOPIC, index).opened().read(Offset(0), 1 << 20, Offset(1))
    assert found is not None
    key, value = _only_record(found.read())
    # As another broker may have written them, or compaction: the last record of the key counts.
    for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY):
        later = value.replace((5).to_bytes(8, "big"), (10 + codec).to_bytes(8, "big"))
        append(node, index, build_batch([NewRecord(key, later, (), 1)], codec=codec))

        assert committed_offset(restarted(node), "g", "orders") == 10 + codec


def _only_record(raw: bytes) -> tuple[bytes, bytes]:
    (record,) = read_records(batch_at(raw))
    assert record.key is not None
    assert record.value is not None
    return record.key, record.value


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_the_topic_is_written_in_the_codec_that_is_set_and_read_back(codec: int) -> None:
    node = a_node(offsets_topic_compression_codec=str(codec), offsets_load_buffer_size="1")
    find_coordinator(node)
    for offset in (5, 6):
        commit(node, a_commit("g", "orders", (0, offset), metadata="note"))

    found = node.replica(OFFSETS_TOPIC, partition_for("g", 50)).opened().read(Offset(0), 1, Offset(1))
    assert found is not None
    assert batch_at(found.read()).codec == codec
    assert committed_offset(restarted(node), "g", "orders") == 6


def a_marker(producer: ProducerStamp, *, commit: bool) -> bytearray:
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    return build_marker(kind, Producer(*producer), coordinator_epoch=0, timestamp=1)


def test_transactions_are_read_as_they_were_written_open_committed_and_aborted() -> None:
    node = a_node()
    find_coordinator(node)
    commit(node, a_commit("g", "orders", (0, 1), (1, 1), (2, 1)))
    index = partition_for("g", 50)
    shard = node.broker.coordinators.group_shard("g")
    for producer_id, partition in ((1, 0), (2, 1), (3, 2)):
        _commit_in_transaction(node, "g", partition, 9, ProducerStamp(producer_id, 0))
    append(node, index, a_marker(ProducerStamp(1, 0), commit=True))
    append(node, index, a_marker(ProducerStamp(2, 0), commit=False))
    assert shard.offsets.store.knows("g")

    again = restarted(node)

    found = [fetch_one(again, "g", "orders", partition, stable=True) for partition in range(3)]
    assert [one.committed_offset for one in found] == [9, 1, -1]
    assert [one.error_code for one in found] == [0, 0, ErrorCode.UNSTABLE_OFFSET_COMMIT]
    assert committed_offset(again, "g", "orders", 2) == 1


def _commit_in_transaction(
    node: SimNode, group: str, partition: int, offset: int, producer: ProducerStamp
) -> None:
    topic = node.broker.image.topics["orders"]
    replies: list[object] = []
    command = CommitOffsets(
        group, (NewOffset("orders", topic.id, partition, offset, -1, ""),), producer=producer
    )
    node.broker.coordinators.group_shard(group).offsets.commit(command, replies.append)
    assert replies == [[ErrorCode.NONE]]


def test_a_marker_that_is_written_is_told_to_the_groups_of_its_partition() -> None:
    node = a_node()
    find_coordinator(node)
    producer = ProducerStamp(1, 0)
    _commit_in_transaction(node, "g", 0, 9, producer)
    assert committed_offset(node, "g", "orders") == -1

    partition = TopicPartition(OFFSETS_TOPIC, partition_for("g", 50))
    end = node.replica(*partition).opened().end_offset
    node.broker.coordinators.marker_committed(partition, producer, commit=True, offset=end)

    assert committed_offset(node, "g", "orders") == 9


def test_a_log_that_cannot_be_read_is_said_to_be_not_available_and_tried_again() -> None:
    node = a_node()
    find_coordinator(node)
    commit(node, a_commit("g", "orders", (0, 5)))
    other = next(name for name in ("h", "i", "j") if partition_for(name, 50) != partition_for("g", 50))
    commit(node, a_commit(other, "orders", (0, 6)))
    index = partition_for("g", 50)
    append(node, index, build_batch([NewRecord(b"\x00\x01", b"\x00\x01", (), 1)]))

    restarted(node)
    assert commit(node, a_commit("g", "orders", (0, 5))) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert committed_offset(node, other, "orders") == 6
    listed = node.ask(ListGroupsRequest(), 5, ListGroupsResponse)
    assert (listed.error_code, listed.groups) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
    node.replica(OFFSETS_TOPIC, index).opened().truncate_to(Offset(1))
    node.pass_time(30_000)

    assert committed_offset(node, "g", "orders") == 5


def test_a_restart_with_thousands_of_commits_gives_the_same_offsets() -> None:
    node = a_node()
    find_coordinator(node)
    for number in range(300):
        group = f"group-{number % 60}"
        commit(node, a_commit(group, "orders", *((partition, number) for partition in range(10))))

    restarted(node)

    expected = {f"group-{number % 60}": number for number in range(300)}
    assert {group: committed_offset(node, group, "orders", 9) for group in expected} == expected


def test_a_compacted_log_gives_the_same_offsets_as_the_whole_one() -> None:
    node = a_node(offsets_topic_num_partitions="1", log_cleaner_min_cleanable_ratio="0.01")
    find_coordinator(node)
    committing, aborting, leaving_open = (ProducerStamp(number, 0) for number in range(3))
    for at in range(60):
        commit(node, a_commit(f"g{at % 3}", "orders", (0, at), (1, at)))
    node.replica(OFFSETS_TOPIC).opened().roll()
    for group, producer in (("g0", committing), ("g1", aborting)):
        _commit_in_transaction(node, group, 0, 1000, producer)
        append(node, 0, a_marker(producer, commit=producer is committing))
        end = node.replica(OFFSETS_TOPIC).opened().end_offset
        node.broker.coordinators.marker_committed(
            TopicPartition(OFFSETS_TOPIC, 0), producer, producer is committing, end
        )
    for at in range(60, 120):
        commit(node, a_commit("g2", "orders", (0, at), (1, at)))
    node.replica(OFFSETS_TOPIC).opened().roll()
    _commit_in_transaction(node, "g2", 0, 2000, leaving_open)
    store = node.broker.coordinators.group_shard("g0").offsets.store
    before = {group: store.of_group(group) for group in ("g0", "g1", "g2")}
    size = node.replica(OFFSETS_TOPIC).opened().size

    for _ in range(20):
        node.pass_time(20_000)
        node.aside.run_all()
    assert node.replica(OFFSETS_TOPIC).opened().size < size / 2
    restarted(node)

    store = node.broker.coordinators.group_shard("g0").offsets.store
    assert {group: store.of_group(group) for group in before} == before
    assert (before["g0"]["orders"][0].offset, before["g1"]["orders"][0].offset) == (1000, 58)
    assert store.is_unstable(Place("g2", "orders", 0))


# --- what the partition says


def test_where_replicas_are_too_few_the_coordinator_is_not_available() -> None:
    node = a_node(min_insync_replicas="2")
    find_coordinator(node)

    assert commit(node, a_commit("g", "orders", (0, 5))) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert committed_offset(node, "g", "orders") == -1


def test_a_disk_without_room_takes_no_commit_and_has_the_old_one() -> None:
    node = a_node()
    find_coordinator(node)
    commit(node, a_commit("g", "orders", (0, 5)))
    node.files.quota_bytes = 1 << 20
    node.pass_time(1000)

    assert commit(node, a_commit("g", "orders", (0, 6))) == [ErrorCode.NOT_COORDINATOR]
    assert committed_offset(node, "g", "orders") == 5


def test_a_failed_sync_is_no_answer_of_success() -> None:
    node = a_node(log_flush_interval_messages="1")
    find_coordinator(node)
    commit(node, a_commit("g", "orders", (0, 5)))
    node.files.faults = [Fault(Kind.SYNC, errno.EIO, OFFSETS_TOPIC)]

    assert commit(node, a_commit("g", "orders", (0, 6))) == [ErrorCode.NOT_COORDINATOR]


def test_whoever_reads_a_coordinators_topic_is_woken_by_its_records() -> None:
    node = a_node()
    find_coordinator(node)
    commit(node, a_commit("polygenelubricants", "orders", (0, 5)))  # Its name falls into partition 0.
    reader = node.client()
    reader.ask(a_fetch(OFFSETS_TOPIC, 1, max_wait_ms=10_000), 12)
    assert reader.frames == []

    commit(node, a_commit("polygenelubricants", "orders", (0, 6)))

    (partition,) = reader.take(FetchResponse).responses[0].partitions
    assert [record.offset for record in records_of(partition)] == [1]


# --- leadership


def test_a_new_leader_epoch_reads_the_log_anew_under_that_epoch() -> None:
    node = a_node()
    find_coordinator(node)
    commit(node, a_commit("g", "orders", (0, 5)))
    before = node.broker.coordinators.group_shard("g").machine.coordinator_epoch

    restarted(node)

    after = node.broker.coordinators.group_shard("g").machine.coordinator_epoch
    assert before < after == node.replica(OFFSETS_TOPIC, partition_for("g", 50)).leader_epoch

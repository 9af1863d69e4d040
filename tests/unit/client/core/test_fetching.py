"""Which requests a consumer sends, and what answers do to its positions (C1, C6, C7)."""

from typing import Any

import pytest

from everlog.client.core.consumer.errors import DamagedBatch, OffsetOutOfRange
from everlog.client.core.consumer.fetching import ConsumerFetch, Fetching, Taken
from everlog.client.core.consumer.list_offsets import EARLIEST
from everlog.client.core.consumer.positions import NO_REPLICA, Positions, Stage
from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.metadata import ClusterView
from everlog.client.core.settings import read_settings
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition
from everlog.records.control import ControlType, Producer, build_marker
from everlog.wire.messages.fetch import (
    AbortedTransaction,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tests.unit.client.builders import ORDERS_ID, a_batch, a_fetch_response, a_view

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOON = 1000.0


class World:
    """Positions in partitions of `orders`, all led by broker 1 and read from offset 0."""

    def __init__(self, *places: TopicPartition, reset: str = "earliest", **options: Any) -> None:
        self.positions = Positions(reset, lambda: 0, has_group=False)
        self.settings = read_settings(ConsumerSettings, options)
        self.fetching = Fetching(self.positions, self.settings)
        self.view = a_view(1, 1)
        self.positions.add(places or [ZERO])
        for place in self.positions.places:
            self.positions.seek(place, 0)
        self.busy: set[int] = set()

    def ask(self, now: float = NOON) -> list[ConsumerFetch]:
        return self.fetching.plan(self.view, now, self.busy).requests

    def answer(self, fetch: ConsumerFetch, *partitions: PartitionData, now: float = NOON) -> Taken:
        response = a_fetch_response(*partitions)
        response.session_id = 7
        return self.take(fetch, response, now)

    def take(self, fetch: ConsumerFetch, response: FetchResponse, now: float = NOON) -> Taken:
        taken = self.fetching.take(fetch, response, self.view, now)
        self.view = taken.view
        return taken


def data(*batches: bytes, partition: int = 0, error: int = 0, **more: Any) -> PartitionData:
    records = memoryview(b"".join(batches))
    return PartitionData(
        partition_index=partition, records=records, high_watermark=99, error_code=error, **more
    )


def offsets(fetch: ConsumerFetch) -> dict[int, int]:
    return {
        entry.partition: entry.fetch_offset for topic in fetch.request.topics for entry in topic.partitions
    }


def test_an_answer_is_buffered_and_the_next_request_asks_behind_it() -> None:
    world = World()
    [fetch] = world.ask()
    world.answer(fetch, data(a_batch(0, "a", "b"), a_batch(2, "c")))

    state = world.positions.of(ZERO)
    assert (state.position, state.fetch_offset, state.high_watermark) == (0, 3, 99)
    assert offsets(world.ask()[0]) == {0: 3}


def test_a_batch_before_the_position_does_not_move_it_back() -> None:
    world = World()
    world.positions.seek(ZERO, 3)
    world.answer(world.ask()[0], data(a_batch(0, "a", "b")))
    state = world.positions.of(ZERO)
    assert (state.fetch_offset, len(state.buffered)) == (3, 0)


def test_a_broker_that_is_busy_is_not_asked_again() -> None:
    world = World()
    world.busy.add(1)
    assert world.ask() == []


def test_one_broker_is_asked_by_one_request_and_each_by_its_own() -> None:
    world = World(ZERO, ONE)
    world.view = a_view(1, 2)
    assert {fetch.node_id: offsets(fetch) for fetch in world.ask()} == {1: {0: 0}, 2: {1: 0}}


@pytest.mark.parametrize("change", ["seek", "remove", "reset"])
def test_what_comes_back_after_a_change_is_let_go(change: str) -> None:
    world = World()
    [fetch] = world.ask()
    state = world.positions.of(ZERO)
    match change:
        case "seek":
            world.positions.seek(ZERO, 0)
        case "remove":
            world.positions.remove([ZERO])
        case _:
            state.reset(EARLIEST)
    world.answer(fetch, data(a_batch(0, "a")))
    assert not state.buffered


def test_a_paused_partition_is_not_asked_for_and_keeps_what_came_meanwhile() -> None:
    world = World(ZERO, ONE)
    [fetch] = world.ask()
    world.positions.of(ZERO).paused = True
    world.answer(fetch, data(a_batch(0, "a")), data(a_batch(0, "b"), partition=1))

    [after] = world.ask()
    assert offsets(after) == {1: 1}
    assert after.request.forgotten_topics_data[0].partitions == [0]
    assert len(world.positions.of(ZERO).buffered) == 1


def test_a_full_partition_holds_its_broker_back_until_it_is_polled() -> None:
    world = World(ZERO, ONE, max_partition_fetch_bytes=80)
    [fetch] = world.ask()
    world.answer(fetch, data(a_batch(0, "a" * 100)))

    assert world.ask() == []
    world.positions.of(ZERO).unbuffer()
    assert len(world.ask()) == 1


def test_all_that_is_fetched_ahead_is_bounded() -> None:
    world = World(ZERO, ONE, prefetch_max_bytes=100)
    world.view = a_view(1, 2)
    first, second = world.ask()
    world.answer(first, data(a_batch(0, "a" * 100)))
    world.busy.add(second.node_id)
    assert world.ask() == []
    world.positions.of(ZERO).paused = True
    world.busy.clear()
    assert [fetch.node_id for fetch in world.ask()] == [2]


def test_offsets_out_of_range_reset_by_the_rule_or_stop_with_an_error() -> None:
    world = World()
    world.answer(world.ask()[0], data(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    state = world.positions.of(ZERO)
    assert (state.stage, state.reset_to) == (Stage.RESET, EARLIEST)

    world = World(reset="none")
    world.answer(world.ask()[0], data(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    problem = world.positions.problem()
    assert isinstance(problem, OffsetOutOfRange)
    assert problem.offsets == {ZERO: 0}
    assert world.positions.problem() is not None, "it is said until somebody seeks"
    assert world.ask(NOON + 10) == []


def test_out_of_range_waits_until_what_was_fetched_before_is_handed_out() -> None:
    world = World()
    world.answer(world.ask()[0], data(a_batch(0, "a")))
    world.answer(world.ask()[0], data(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    state = world.positions.of(ZERO)
    assert (state.stage, state.position) == (Stage.READING, 0)
    state.handed_out(1, 0)
    world.answer(world.ask(NOON + 10)[0], data(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert (state.stage, state.position) == (Stage.RESET, -1)


def test_a_leader_that_moved_asks_for_metadata_and_one_that_says_where_to_does_not() -> None:
    world = World()
    taken = world.answer(world.ask()[0], data(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert taken.stale == {"orders"}
    assert world.ask() == [], "it waits before it tries again"

    world = World()
    response = a_fetch_response(
        data(
            error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            current_leader=LeaderIdAndEpoch(leader_id=3, leader_epoch=5),
        )
    )
    response.node_endpoints = [NodeEndpoint(node_id=3, host="host-3", port=9093)]
    taken = world.take(world.ask()[0], response)
    assert taken.stale == set()
    assert world.view.brokers[3].address == "host-3:9093"
    assert [fetch.node_id for fetch in world.ask()] == [3]


def test_an_error_of_one_partition_leaves_its_neighbours_alone() -> None:
    world = World(ZERO, ONE)
    world.answer(
        world.ask()[0],
        data(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        data(a_batch(0, "a"), partition=1),
    )
    assert world.positions.of(ONE).fetch_offset == 1
    problem = world.positions.problem()
    assert isinstance(problem, Refused)
    assert problem.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert world.positions.problem() is None, "it is tried again after it was said"


def test_a_nearby_replica_is_read_until_it_fails_or_is_too_old() -> None:
    world = World(client_rack="west", metadata_max_age_ms=5000)
    [fetch] = world.ask()
    assert fetch.request.rack_id == "west"
    world.answer(fetch, data(preferred_read_replica=2))
    assert [each.node_id for each in world.ask()] == [2]
    assert [each.node_id for each in world.ask(NOON + 6)] == [1]

    world.answer(world.ask()[0], data(preferred_read_replica=2))
    [near] = world.ask()
    world.answer(near, data(error=ErrorCode.OFFSET_OUT_OF_RANGE))
    state = world.positions.of(ZERO)
    assert (state.stage, state.replica) == (Stage.READING, NO_REPLICA), "a follower may just be behind"
    assert [each.node_id for each in world.ask()] == [1]


def damaged(batch: bytes) -> bytes:
    """The batch with another last bit, which only its checksum tells."""
    return batch[:-1] + bytes([batch[-1] ^ 1])


def test_a_damaged_batch_is_told_after_those_before_it() -> None:
    world = World()
    world.answer(world.ask()[0], data(a_batch(0, "a")))
    world.answer(world.ask()[0], data(damaged(a_batch(1, "b"))))
    state = world.positions.of(ZERO)
    assert [world.fetching.take_chunk(state).next_offset for _ in range(2)] == [1, 1]
    assert "orders-0 at offset 1" in str(world.positions.problem())


def test_nothing_behind_a_damaged_batch_is_kept_or_taken_in() -> None:
    world = World()
    world.answer(world.ask()[0], data(a_batch(0, "a", "b"), damaged(a_batch(2, "c")), a_batch(3, "d")))
    world.answer(world.ask()[0], data(a_batch(4, "e")))
    [under_way] = world.ask()
    state = world.positions.of(ZERO)

    chunk = world.fetching.take_chunk(state)
    assert ([batch.base_offset for batch in chunk.batches], chunk.next_offset) == ([0], 2)
    assert (state.fetch_offset, len(state.buffered), state.buffered_bytes) == (2, 0, 0)
    world.answer(under_way, data(a_batch(5, "f")))
    assert not state.buffered, "it was asked for behind what is damaged"
    problem = world.positions.problem()
    assert isinstance(problem, DamagedBatch)
    assert (problem.place, problem.offset, problem.retriable) == (ZERO, 2, True)

    world.answer(world.ask()[0], data(a_batch(2, "c")))
    assert world.fetching.take_chunk(state).next_offset == 3, "it is read again, and may be whole then"


def test_an_offset_that_only_a_damaged_batch_claims_resets_nothing() -> None:
    world = World()
    bad = bytearray(a_batch(0, "a"))
    bad[23:27] = (10**6).to_bytes(4, "big")
    world.answer(world.ask()[0], data(bytes(bad)))
    [fetch] = world.ask()
    assert offsets(fetch) == {0: 10**6 + 1}
    world.answer(fetch, data(error=ErrorCode.OFFSET_OUT_OF_RANGE))

    state = world.positions.of(ZERO)
    assert (state.stage, state.position) == (Stage.READING, 0)
    assert world.fetching.take_chunk(state).batches == []
    assert "orders-0 at offset 0" in str(world.positions.problem())


def test_what_is_left_out_is_checked_at_once() -> None:
    marker = bytes(
        build_marker(ControlType.ABORT, Producer(9, 0), coordinator_epoch=0, timestamp=1, base_offset=1)
    )
    aborted = a_batch(0, "x", producer_id=9, transactional=True)
    for batches in ((damaged(aborted), marker), (aborted, damaged(marker))):
        world = World(isolation_level="read_committed")
        told = [AbortedTransaction(producer_id=9, first_offset=0)]
        world.answer(world.ask()[0], data(*batches, aborted_transactions=told))
        assert isinstance(world.positions.problem(), DamagedBatch)


def test_who_takes_much_at_a_time_asks_for_more_of_few_partitions() -> None:
    world = World(ZERO, ONE)
    assert {each.max_bytes for each in world.ask()[0].asked.values()} == {1 << 20}
    world.fetching.answer_bytes = 8 << 20
    [fetch] = world.ask()
    assert {each.max_bytes for each in fetch.asked.values()} == {4 << 20}
    world.answer(fetch, data(a_batch(0, "a" * (1 << 20))))
    [after] = world.ask()
    assert offsets(after) == {0: 1}, "a partition waits with less than an answer may bring"
    world.answer(after, data(a_batch(1, "a" * (3 << 20))))
    assert world.ask() == []

    world.positions.of(ZERO).drop_buffered()
    world.fetching.answer_bytes = 0
    assert {entry.partition_max_bytes for entry in world.ask()[0].request.topics[0].partitions} == {1 << 20}
    for chosen in (1000, 1 << 20):
        few = World(max_partition_fetch_bytes=chosen)
        few.fetching.answer_bytes = 8 << 20
        assert {each.max_bytes for each in few.ask()[0].asked.values()} == {chosen}, "as it was set"


def test_settings_of_fetches_are_those_of_requests() -> None:
    chosen: dict[str, Any] = {
        "fetch_min_bytes": 77,
        "fetch_max_wait_ms": 1234,
        "fetch_max_bytes": 5_000,
        "client_rack": "west",
        "isolation_level": "read_committed",
    }
    request, plain = World(**chosen).ask()[0].request, World().ask()[0].request

    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (77, 1234, 5_000)
    assert (request.rack_id, request.isolation_level) == ("west", 1)
    assert (plain.min_bytes, plain.max_wait_ms, plain.max_bytes) == (1, 500, 50 << 20)
    assert (plain.rack_id, plain.isolation_level) == ("", 0)


def test_checksums_are_not_looked_at_if_told_so() -> None:
    world = World(check_crcs=False)
    bad = bytearray(a_batch(0, "b"))
    bad[-1] ^= 1
    world.answer(world.ask()[0], data(bytes(bad)))
    assert world.positions.problem() is None


def test_aborted_records_are_left_out_and_positions_go_past_them() -> None:
    world = World(isolation_level="read_committed")
    [fetch] = world.ask()
    assert fetch.request.isolation_level == 1
    marker = bytes(
        build_marker(ControlType.ABORT, Producer(9, 0), coordinator_epoch=0, timestamp=1, base_offset=1)
    )
    world.answer(
        fetch,
        data(
            a_batch(0, "x", producer_id=9, transactional=True),
            marker,
            aborted_transactions=[AbortedTransaction(producer_id=9, first_offset=0)],
        ),
    )
    chunk = world.positions.of(ZERO).unbuffer()
    assert (chunk.batches, chunk.next_offset) == ([], 2)


def test_a_session_error_leads_to_a_full_request_at_once() -> None:
    world = World()
    world.answer(world.ask()[0])
    [fetch] = world.ask()
    assert fetch.request.session_epoch == 1
    taken = world.take(fetch, FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    assert taken.failure is None
    [full] = world.ask()
    assert (full.request.session_id, full.request.session_epoch) == (0, 0)
    assert offsets(full) == {0: 0}

    taken = world.take(full, FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    assert taken.failure is not None


def test_no_answer_at_all_leads_to_a_full_request_too() -> None:
    world = World()
    world.answer(world.ask()[0])
    [fetch] = world.ask()
    world.fetching.failed(fetch.node_id)
    [full] = world.ask()
    assert (full.request.session_id, full.request.session_epoch) == (7, 0)
    world.answer(full)
    assert [request.session_epoch for request in world.fetching.closing().values()] == [-1]


def test_partitions_that_brought_records_go_to_the_end_of_the_line() -> None:
    world = World(ZERO, ONE)
    [fetch] = world.ask()
    response = a_fetch_response(data(a_batch(0, "a")))
    world.take(fetch, response)  # No session: the next request names all.
    [again] = world.ask()
    assert [entry.partition for entry in again.request.topics[0].partitions] == [1, 0]


def test_a_partition_without_a_leader_asks_for_metadata() -> None:
    world = World()
    world.view = ClusterView()
    assert world.ask() == []
    assert world.fetching.plan(world.view, NOON, ()).leaderless == set()
    world.view = a_view(9)
    found = world.fetching.plan(world.view, NOON, ())
    assert (found.requests, found.leaderless) == ([], {"orders"})
    assert world.view.topic_id("orders") == ORDERS_ID


def test_what_comes_before_a_damaged_marker_is_handed_out_first() -> None:
    marker = bytes(
        build_marker(ControlType.ABORT, Producer(9, 0), coordinator_epoch=0, timestamp=1, base_offset=1)
    )
    for bad in (damaged(marker), marker[:8] + bytes(4) + marker[12:]):
        world = World()
        world.answer(world.ask()[0], data(a_batch(0, "a"), bad))
        state = world.positions.of(ZERO)
        assert world.positions.problem() is None
        assert [batch.base_offset for batch in world.fetching.take_chunk(state).batches] == [0]

        world.answer(world.ask()[0], data(bad))
        assert "orders-0 at offset 1" in str(world.positions.problem())


def test_an_answer_that_has_bytes_and_no_whole_batch_is_a_problem() -> None:
    whole = a_batch(0, "a")
    for cut_off in (whole[:-1], whole[:40]):
        world = World()
        world.answer(world.ask()[0], data(cut_off))
        assert "orders-0 at offset 0" in str(world.positions.problem())

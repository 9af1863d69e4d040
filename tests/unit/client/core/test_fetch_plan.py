"""Positions and what moves them (C1, C6, C7)."""

import pytest

from everlog.client.core.consumer.fetch_plan import Fetched, FetchLimits, FetchPlan
from everlog.client.core.consumer.offset_spec import OffsetRange
from everlog.model.errors import CorruptDataError, ErrorCode, Refused
from everlog.model.ids import NO_UUID, Offset
from everlog.model.topics import TopicPartition
from everlog.records.control import ControlType, Producer, build_marker
from everlog.wire.messages.fetch import AbortedTransaction, PartitionData
from tests.unit.client.builders import a_batch, a_fetch_response, a_view

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def a_plan(
    start: int = 0, end: int | None = None, *, read_committed: bool = False, partitions: int = 1
) -> FetchPlan:
    wanted = OffsetRange(Offset(start), None if end is None else Offset(end))
    ranges = {TopicPartition("orders", index): wanted for index in range(partitions)}
    return FetchPlan(ranges, FetchLimits(), read_committed=read_committed)


def data(*batches: bytes, partition: int = 0, error: int = 0) -> PartitionData:
    return PartitionData(
        partition_index=partition, records=memoryview(b"".join(batches)), high_watermark=99, error_code=error
    )


def take(plan: FetchPlan, *partitions: PartitionData) -> Fetched:
    view = a_view(1, 1)
    planned, _ = plan.requests(view)
    return plan.take(planned[0], a_fetch_response(*partitions), view)


def values(fetched: Fetched) -> list[str]:
    return [(record.value or b"").decode() for chunk in fetched.chunks for record in chunk.records()]


def test_a_position_moves_behind_the_last_batch_and_asks_from_there() -> None:
    plan = a_plan()

    assert values(take(plan, data(a_batch(0, "a", "b"), a_batch(2, "c")))) == ["a", "b", "c"]

    assert plan.positions[ZERO] == 3
    planned, _ = plan.requests(a_view(1))
    assert planned[0].request.topics[0].partitions[0].fetch_offset == 3


def test_records_before_the_asked_offset_are_dropped() -> None:
    assert values(take(a_plan(start=1), data(a_batch(0, "a", "b", "c")))) == ["b", "c"]


def test_records_from_the_end_of_the_range_on_are_dropped_and_the_range_is_finished() -> None:
    plan = a_plan(start=1, end=3)

    assert values(take(plan, data(a_batch(0, "a", "b", "c", "d"), a_batch(4, "e")))) == ["b", "c"]
    assert plan.finished


def test_an_empty_range_is_finished_before_it_begins() -> None:
    assert a_plan(start=5, end=5).finished
    assert a_plan(start=7, end=5).finished


def test_a_gap_that_compaction_left_at_the_end_of_a_range_finishes_it() -> None:
    plan = a_plan(end=5)

    assert values(take(plan, data(a_batch(0, "a"), a_batch(8, "z")))) == ["a"]
    assert plan.finished


def test_a_batch_that_is_cut_off_is_asked_for_again() -> None:
    plan = a_plan()

    assert values(take(plan, data(a_batch(0, "a"), a_batch(1, "b")[:-1]))) == ["a"]
    assert plan.positions[ZERO] == 1


def test_an_answer_without_records_moves_nothing() -> None:
    plan = a_plan()

    assert take(plan, data()).chunks == []
    assert plan.positions[ZERO] == 0


def test_a_batch_whose_checksum_is_wrong_is_not_handed_out() -> None:
    flipped = bytearray(a_batch(0, "a"))
    flipped[-1] ^= 1

    with pytest.raises(CorruptDataError, match=r"orders-0.*checksum"):
        take(a_plan(), data(bytes(flipped)))


def test_partitions_that_brought_records_wait_behind_the_others() -> None:
    plan = a_plan(partitions=2)
    take(plan, data(a_batch(0, "a"), partition=0))

    planned, _ = plan.requests(a_view(1, 1))

    assert [partition.partition for partition in planned[0].request.topics[0].partitions] == [1, 0]


def test_a_moved_leader_asks_for_new_metadata_and_hurts_no_neighbour() -> None:
    fetched = take(
        a_plan(partitions=2),
        data(error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        data(a_batch(0, "b"), partition=1),
    )

    assert fetched.stale
    assert values(fetched) == ["b"]


def test_an_offset_out_of_range_names_partition_and_offset() -> None:
    with pytest.raises(Refused, match="orders-0 at offset 5: OFFSET_OUT_OF_RANGE"):
        take(a_plan(start=5), data(error=ErrorCode.OFFSET_OUT_OF_RANGE))


def test_partitions_that_were_not_asked_for_change_nothing() -> None:
    plan = a_plan()

    assert take(plan, data(a_batch(0, "x"), partition=7)).chunks == []
    assert TopicPartition("orders", 7) not in plan.positions


def test_markers_are_never_handed_out() -> None:
    marker = bytes(
        build_marker(ControlType.COMMIT, Producer(5, 0), coordinator_epoch=0, timestamp=1, base_offset=1)
    )
    plan = a_plan()

    assert values(take(plan, data(a_batch(0, "a", producer_id=5, transactional=True), marker))) == ["a"]
    assert plan.positions[ZERO] == 2


def test_readers_of_committed_records_do_not_see_aborted_ones() -> None:
    abort = bytes(
        build_marker(ControlType.ABORT, Producer(5, 0), coordinator_epoch=0, timestamp=1, base_offset=2)
    )
    partition = data(
        a_batch(0, "aborted", producer_id=5, transactional=True),
        a_batch(1, "of another", producer_id=6, transactional=True),
        abort,
        a_batch(3, "of a later transaction", producer_id=5, transactional=True),
    )
    partition.aborted_transactions = [AbortedTransaction(producer_id=5, first_offset=0)]

    assert values(take(a_plan(read_committed=True), partition)) == ["of another", "of a later transaction"]


def test_partitions_are_asked_of_their_leaders_and_missing_ones_are_told() -> None:
    planned, leaderless = a_plan(partitions=2).requests(a_view(1, 2))
    assert [one.node_id for one in planned] == [1, 2]
    assert not leaderless

    planned, leaderless = a_plan(partitions=2).requests(a_view(1, 9))
    assert [one.node_id for one in planned] == [1]
    assert leaderless


def test_answers_by_name_are_read_as_well() -> None:
    plan, view = a_plan(), a_view(1, topic_id=NO_UUID)
    planned, _ = plan.requests(view)
    assert not planned[0].has_topic_ids

    fetched = plan.take(planned[0], a_fetch_response(data(a_batch(0, "a")), topic_id=NO_UUID), view)

    assert values(fetched) == ["a"]

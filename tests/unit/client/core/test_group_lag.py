"""Lag in records and in time: which record's age it is, and when there is none (C8)."""

import pytest

from everlog.client.core.admin.group_lag import (
    FirstTimestamps,
    PartitionLag,
    age_ms,
    unread_ranges,
)
from everlog.client.core.consumer.offset_spec import OffsetRange
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.model.errors import ErrorCode
from everlog.model.ids import NO_TIMESTAMP, Offset, Timestamp
from everlog.model.topics import TopicPartition
from everlog.records.control import ControlType, Producer, build_marker
from everlog.wire.messages.fetch import PartitionData
from tests.unit.client.builders import a_batch, a_fetch_response, a_view

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def span(start: int, end: int) -> OffsetRange:
    return OffsetRange(Offset(start), Offset(end))


def data(*batches: bytes, partition: int = 0, error: int = 0) -> PartitionData:
    return PartitionData(partition_index=partition, records=memoryview(b"".join(batches)), error_code=error)


def take(search: FirstTimestamps, *partitions: PartitionData) -> bool:
    view = a_view(1, 1)
    (planned,) = search.requests(view)
    return search.take(planned, a_fetch_response(*partitions), view)


@pytest.mark.parametrize(
    ("committed", "end", "lag"), [(3, 10, 7), (10, 10, 0), (12, 10, 0), (None, 10, None), (3, None, None)]
)
def test_lag_counts_offsets_up_to_the_end_and_is_never_negative(
    committed: int | None, end: int | None, lag: int | None
) -> None:
    entry = None if committed is None else OffsetAndMetadata(Offset(committed))
    at = None if end is None else Offset(end)

    assert PartitionLag(ZERO, entry, Offset(0), at, None, None).lag == lag


def test_the_age_is_that_of_the_first_unread_record_never_negative_and_none_without_a_timestamp() -> None:
    now = Timestamp(5000)

    assert age_ms(Timestamp(1500), now) == 3500
    assert age_ms(Timestamp(9000), now) == 0
    assert age_ms(None, now) == 0
    assert age_ms(NO_TIMESTAMP, now) is None


def test_what_is_unread_begins_at_the_committed_offset_or_where_retention_has_left_off() -> None:
    committed = {ZERO: OffsetAndMetadata(Offset(2)), ONE: OffsetAndMetadata(Offset(7))}
    ends = {ZERO: Offset(9), ONE: Offset(9)}

    assert unread_ranges(committed, {ZERO: Offset(5), ONE: Offset(5)}, ends) == {
        ZERO: span(5, 9),
        ONE: span(7, 9),
    }
    assert unread_ranges(committed, {}, ends) == {}


def test_the_record_at_the_committed_offset_is_taken_from_within_its_batch() -> None:
    search = FirstTimestamps({ZERO: span(2, 4)})

    take(search, data(a_batch(0, "a", "b", "c", "d")))

    assert (search.finished, search.found) == (True, {ZERO: 1002})


def test_a_partition_that_is_caught_up_is_not_asked() -> None:
    search = FirstTimestamps({ZERO: span(4, 4)})

    assert (search.finished, search.found) == (True, {ZERO: None})


def test_a_gap_that_compaction_left_is_passed_over_to_the_next_record() -> None:
    search = FirstTimestamps({ZERO: span(2, 20)})

    take(search, data(a_batch(10, "a")))

    assert search.found == {ZERO: 1000}


def test_markers_are_no_records_so_a_group_before_a_marker_alone_is_caught_up() -> None:
    marker = bytes(
        build_marker(ControlType.COMMIT, Producer(7, 0), coordinator_epoch=0, timestamp=500, base_offset=4)
    )
    search = FirstTimestamps({ZERO: span(4, 5)})

    take(search, data(marker))

    assert search.found == {ZERO: None}


def test_the_search_goes_on_behind_a_marker() -> None:
    marker = bytes(
        build_marker(ControlType.ABORT, Producer(7, 0), coordinator_epoch=0, timestamp=500, base_offset=4)
    )
    search = FirstTimestamps({ZERO: span(4, 6)})

    take(search, data(marker))
    assert not search.finished
    (planned,) = search.requests(a_view(1))
    assert planned.request.topics[0].partitions[0].fetch_offset == 5
    take(search, data(a_batch(5, "a")))

    assert search.found == {ZERO: 1000}


def test_a_partition_that_brought_nothing_is_asked_again() -> None:
    search = FirstTimestamps({ZERO: span(0, 1), ONE: span(0, 1)})

    take(search, data(a_batch(0, "a")), data(partition=1))

    assert (search.finished, search.topics) == (False, ["orders"])
    (planned,) = search.requests(a_view(1, 1))
    assert [entry.partition for entry in planned.request.topics[0].partitions] == [1]


def test_one_partition_that_fails_is_not_known_and_does_not_hide_the_others() -> None:
    search = FirstTimestamps({ZERO: span(0, 1), ONE: span(0, 1)})

    stale = take(search, data(error=ErrorCode.OFFSET_OUT_OF_RANGE), data(a_batch(0, "a"), partition=1))

    assert (stale, search.finished, search.found) == (False, True, {ONE: 1000})


def test_a_leader_that_has_moved_makes_the_view_stale() -> None:
    search = FirstTimestamps({ZERO: span(0, 1)})

    assert take(search, data(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert not search.finished

"""A log and its lane: nobody sees the log behind, and only a lane at its end takes anything (L1, P4)."""

import pytest

from everlog.broker.handlers.produce_run import lanes_are_built
from everlog.log.partition import PartitionLog
from everlog.model.ids import LeaderEpoch, Offset, Timestamp
from everlog.model.settings import broker_table as keys
from tests.unit.broker.simulated import SimulatedNode, a_batch
from tests.unit.broker.test_produce_run import Request, a_node, feed

pytestmark = pytest.mark.skipif(
    not lanes_are_built(), reason="the kernels are not built, or EVERLOG_PURE_PYTHON is set"
)


def a_log_behind_its_lane(batches: int = 3) -> tuple[SimulatedNode, PartitionLog]:
    """A log with one record that it knows of, and others that only its lane does."""
    node, ids = a_node()
    stream = b"".join(Request(a_batch(b"x")).frame(n, ids) for n in range(batches))
    assert feed(node, node.client(), stream, runs=True) == [len(stream)]
    log = node.broker.replicas.by_name["orders"][0].opened()
    assert log.lane is not None
    assert log.lane.pending == batches
    return node, log


def test_whoever_asks_for_the_end_sees_what_the_lane_has() -> None:
    _, log = a_log_behind_its_lane()

    assert log.end_offset == 4
    assert log.lane is not None
    assert log.lane.pending == 0


def test_size_and_segments_are_those_of_the_file() -> None:
    node, log = a_log_behind_its_lane()

    assert log.size == len(node.files.read("/data/orders-0/00000000000000000000.log"))
    node, log = a_log_behind_its_lane()
    assert log.segments[0].end_offset == 4


def test_a_sync_covers_what_the_lane_has() -> None:
    _, log = a_log_behind_its_lane()

    plan = log.sync_plan()

    assert plan is not None
    assert plan.end_offset == 4


def test_a_log_that_is_cut_takes_nothing_through_its_old_lane() -> None:
    node, log = a_log_behind_its_lane()

    log.truncate_to(Offset(2))

    assert log.end_offset == 2
    assert log.lane is None
    # The next request opens another, at the new end.
    client = node.client()
    feed(node, client, Request(a_batch(b"y")).frame(9, {}), runs=True)
    assert log.end_offset == 3


def test_a_quiet_minute_gives_back_the_lane_with_its_room() -> None:
    node, log = a_log_behind_its_lane()
    minute = node.broker.settings[keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS]

    node.pass_time(minute)  # The first look only notes where it ends.
    assert log.lane is not None
    node.pass_time(minute)

    assert log.lane is None
    assert log.end_offset == 4


@pytest.mark.parametrize("change", ["roll", "retire", "reconfigure", "begin_epoch", "expire_producers"])
def test_a_change_of_the_log_takes_in_the_lane_first_and_stops_it(change: str) -> None:
    _, log = a_log_behind_its_lane()

    match change:
        case "roll":
            log.roll()
        case "retire":
            log.retire()
        case "reconfigure":
            log.reconfigure(log.settings)
        case "begin_epoch":
            log.begin_epoch(LeaderEpoch(log.epochs.latest + 1))
        case _:
            log.expire_producers(Timestamp(0))

    assert log.lane is None or not log.lane.open
    assert log.end_offset == 4


def test_producers_in_turn_stay_in_the_lane() -> None:
    node, ids = a_node()
    client = node.client()
    first = b"".join(Request(a_batch(b"a", producer=(p, 0, 0))).frame(p, ids) for p in (7, 8))
    feed(node, client, first, runs=True)

    more = b"".join(
        Request(a_batch(b"b", producer=(p, 0, n))).frame(n, ids) for n in (1, 2, 3, 4) for p in (7, 8)
    )
    assert feed(node, client, more, runs=True) == [len(more)]

    log = node.broker.replicas.by_name["orders"][0].opened()
    assert [(state.producer_id, state.last_sequence) for state in log.producers] == [(7, 4), (8, 4)]
    assert [len(state.window) for state in log.producers] == [5, 5]


def test_more_batches_than_a_lane_remembers_are_taken_in_between() -> None:
    node, ids = a_node()
    stream = b"".join(Request(a_batch(b"x")).frame(n, ids) for n in range(300))

    feed(node, node.client(), stream, runs=True)

    assert node.broker.replicas.by_name["orders"][0].opened().end_offset == 301


def test_the_lane_that_was_opened_first_is_given_up_where_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("everlog.broker.handlers.produce_run._MOST_LANES", 1)
    node, ids = a_node()
    for partition in (0, 1):
        feed(node, node.client(), Request(a_batch(b"x"), partition=partition).frame(1, ids), runs=True)

    logs = [node.broker.replicas.by_name["orders"][n].opened() for n in (0, 1)]

    assert [log.lane is not None for log in logs] == [False, True]
    assert [log.end_offset for log in logs] == [2, 2]


def test_a_full_index_ends_the_segment_whoever_looks_at_the_log_between() -> None:
    node, ids = a_node(segment_index_bytes="120", index_interval_bytes="0")
    client = node.client()
    log = node.broker.replicas.by_name["orders"][0].opened()
    most = 120 // 12 - 1

    for n in range(5 * most):
        feed(node, client, Request(a_batch(b"x")).frame(n, ids), runs=True)
        assert log.end_offset == n + 2

    entries = [len(segment.indexes.offsets) for segment in log.segments]
    assert max(entries) <= most, entries


def test_a_log_that_is_synced_while_its_lane_is_open_gives_it_back_once_it_is_quiet() -> None:
    node, log = a_log_behind_its_lane()
    minute = node.broker.settings[keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS]
    log.roll()
    client = node.client()
    for n in range(2):  # The first batch of a segment goes the long way.
        feed(node, client, Request(a_batch(b"x")).frame(n, {}), runs=True)
    assert log.lane is not None

    for _ in range(3):
        node.pass_time(minute)
        node.aside.run_all()

    assert log.recovery_point == log.end_offset == 6
    assert log.lane is None


def test_a_log_that_was_deleted_is_not_kept_for_the_lane_that_it_had() -> None:
    node, log = a_log_behind_its_lane()
    other = node.broker.replicas.by_name["orders"][1].opened()
    feed(node, node.client(), Request(a_batch(b"x"), partition=1).frame(9, {}), runs=True)
    assert list(node.broker.lanes) == [log, other]

    log.retire()
    node.pass_time(node.broker.settings[keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS])

    assert list(node.broker.lanes) == [other]

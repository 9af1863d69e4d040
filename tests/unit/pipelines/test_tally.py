from typing import Any

from everlog.pipelines.declared import flow_change
from everlog.pipelines.events import (
    BatchDone,
    Event,
    FlowChanged,
    PassEnded,
    PhaseBegan,
    RunEnded,
    event_line,
    read_event,
)
from everlog.pipelines.query_events import batch_of
from everlog.pipelines.tally import RunTally


def a_batch(flow: str = "orders", rows: int = 100, lag: int | None = 7, out: int | None = None) -> BatchDone:
    return BatchDone(flow, 0, rows, out, 500, rows * 2.0, lag)


def a_tally(*events: Event) -> RunTally:
    tally = RunTally()
    for event in events:
        tally.take(event)
    return tally


def test_rows_add_up_and_lag_is_the_last_one() -> None:
    tally = a_tally(
        FlowChanged("orders", "RUNNING"),
        a_batch(lag=50),
        a_batch(rows=300, lag=5, out=3),
        a_batch("b", lag=None),
    )

    orders = tally.flows["orders"]
    assert (orders.batches, orders.rows_in, orders.rows_out, orders.lag) == (2, 400, 3, 5)
    assert orders.rate == 400.0
    assert tally.flows["b"].lag is None
    assert tally.lag == 5


def test_a_batch_without_rows_keeps_the_rate_of_the_one_before() -> None:
    assert a_tally(a_batch(), a_batch(rows=0)).flows["orders"].rows_per_second == 200.0


def test_passes_and_runs_are_counted() -> None:
    running, done = FlowChanged("orders", "RUNNING"), FlowChanged("orders", "COMPLETED")

    tally = a_tally(running, done, PassEnded(1), running, running, done, PassEnded(2, "away"))

    assert (tally.passes, tally.failed_passes, tally.flows["orders"].runs) == (2, 1, 2)
    assert tally.running() == []


def test_events_travel_as_lines() -> None:
    events: list[Event] = [
        PhaseBegan("x"),
        a_batch(),
        PassEnded(3, "a", "b"),
        RunEnded("no\nline", None, True),
    ]

    for event in events:
        assert "\n" not in event_line(event)
        assert read_event(event_line(event)) == event


def test_sparks_sentences_become_states() -> None:
    assert flow_change("Flow spark_catalog.default.orders is RUNNING.") == FlowChanged("orders", "RUNNING")
    assert flow_change("Flow large has COMPLETED.") == FlowChanged("large", "COMPLETED")
    assert flow_change("Flow 'spark_catalog.x.t' has FAILED: [A] b") == FlowChanged(
        "spark_catalog.x.t", "FAILED"
    )
    assert flow_change("Run is COMPLETED.") is None


def test_a_querys_report_becomes_a_batch_with_its_lag() -> None:
    progress = {
        "id": "02f0",
        "name": "spark_catalog.default.orders",
        "batchId": 4,
        "batchDuration": 1244,
        "numInputRows": 3,
        "processedRowsPerSecond": 2.4,
        "durationMs": {"addBatch": 812, "triggerExecution": 1244},
        "sources": [
            {
                "endOffset": {"orders": {"0": 10, "1": 4}},
                "latestOffset": {"orders": {"0": 15, "1": 4, "2": 3}},
            },
            {"endOffset": {"logOffset": 0}, "latestOffset": None},
        ],
        "sink": {"description": "x", "numOutputRows": -1},
    }

    assert batch_of(progress) == BatchDone("orders", 4, 3, None, 1244, 2.4, 8)


def test_a_report_that_nothing_was_to_do_is_no_batch() -> None:
    report: dict[str, Any] = {
        "id": "1",
        "batchId": 4,
        "numInputRows": 0,
        "durationMs": {"latestOffset": 1},
        "sources": [],
    }

    assert batch_of(report) is None

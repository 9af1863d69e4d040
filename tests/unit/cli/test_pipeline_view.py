from pathlib import Path

import pytest

from everlog.cli.pipeline_view import RunView, run_report
from everlog.pipelines.events import BatchDone, Event, FlowChanged, PassEnded, PhaseBegan, RunEnded
from everlog.pipelines.project import Project
from everlog.pipelines.run_record import RunRecord
from everlog.pipelines.runner import Job
from everlog.pipelines.tally import RunTally

PROJECT = Project(Path("/shop"), Path("/shop/spark-pipeline.yml"), "shop", "file:///shop/storage", ())
JOB = Job("/shop/spark-pipeline.yml", "local[2]", {}, {}, [], [])


def a_run(*events: Event) -> RunTally:
    tally = RunTally()
    for event in events:
        tally.take(event)
    return tally


def a_record(state: str, tally: RunTally, problem: str | None = None) -> RunRecord:
    return RunRecord(state, "local[2]", "h:1", 1_000, 32_000, tally.passes, problem, tally.shape())


ORDERS = (FlowChanged("orders", "RUNNING"), BatchDone("orders", 0, 52_000, None, 2_000, 26_000.0, 3_100))


def test_the_line_has_rows_rate_and_lag_of_each_flow_and_those_that_wait() -> None:
    tally = a_run(PhaseBegan("running"), *ORDERS, FlowChanged("revenue", "QUEUED"))
    view = RunView(tally, quiet=False, terminal=True)

    assert view.line(view.began + 12.5) == "12s  running  orders 52,000 rows 26,000/s lag 3,100  (revenue)"


def test_without_a_terminal_a_new_phase_is_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    view = RunView(RunTally(), quiet=False, terminal=False)

    for event in (PhaseBegan("starting Spark"), FlowChanged("a", "QUEUED"), PhaseBegan("running")):
        view.take(event)

    assert [line.partition("  ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "starting Spark",
        "running  (a)",
    ]


def test_with_json_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    with RunView(RunTally(), quiet=True, terminal=True) as view:
        view.take(PhaseBegan("starting Spark"))
        view.note("stopping")

    assert capsys.readouterr().err == ""


def test_the_summary_has_the_flows_and_one_sentence() -> None:
    tally = a_run(*ORDERS, FlowChanged("orders", "COMPLETED"), PassEnded(1), RunEnded())

    report = run_report(PROJECT, JOB, a_record("completed", tally), tally, None, verbose=False)

    lines = [line for block in report.blocks for line in block.lines()]
    assert lines[1].split() == ["orders", "completed", "1", "52,000", "-", "26,000", "3,100"]
    assert lines[-1] == "pipeline shop completed in 31s, 52,000 rows read, lag 3,100"
    assert not report.errors


def test_a_failure_is_one_line_with_the_place_of_the_log_and_a_stack_only_if_asked_for() -> None:
    tally = a_run(RunEnded("flow orders: there is no topic 'x'", "Traceback …"))
    record = a_record("failed", tally, "flow orders: there is no topic 'x'")

    short = run_report(PROJECT, JOB, record, tally, Path("/shop/spark.log"), verbose=False)
    long = run_report(PROJECT, JOB, record, tally, None, verbose=True)

    assert list(short.errors) == [
        "flow orders: there is no topic 'x' (Spark's log: /shop/spark.log; --verbose shows it)"
    ]
    assert list(long.errors) == ["Traceback …", "flow orders: there is no topic 'x'"]

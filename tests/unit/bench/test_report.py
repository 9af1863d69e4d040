"""What the table and the chart say of given samples."""

from pathlib import Path
from xml.dom.minidom import parseString

import pytest
from bench import report
from bench.chart import svg_chart
from bench.machine import Machine
from bench.metrics import Better, Goal, Metric, Verdict
from bench.samples import Results, Sample

RATE = "produce.64KiB.1p.4c.mb_s"
COST = "produce.64KiB.1p.4c.cpu_gb"
START = "start.first_ack_s"


def some_results(figures: dict[str, tuple[list[float], list[float]]], foreign_cores: float = 0.1) -> Results:
    machine = Machine(cpu="A CPU <fast>", cores=2, memory_gb=8.0, kernel="6", python="3.11")
    results = Results(machine, "2026-01-31", "python -m bench", {"Everlog": "1", "Apache Kafka": "4"})
    for key, pair in figures.items():
        for broker, values in zip(("everlog", "kafka"), pair, strict=True):
            results.samples.extend(
                Sample("a scenario", broker, {key: value}, foreign_cores, 0.2) for value in values
            )
    return results


def row_of(results: Results, key: str) -> report.Row:
    return next(row for row in report.rows(results) if row.metric.key == key)


def test_more_is_better_for_a_rate_and_less_for_a_cost() -> None:
    rate = Metric("a", "a", "MB/s", Better.MORE)
    cost = Metric("b", "b", "CPU s/GB", Better.LESS)

    assert rate.advantage(300.0, 100.0) == pytest.approx(3.0)
    assert cost.advantage(1.0, 4.0) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("everlog", "verdict"), [(0.6, Verdict.MISSED), (0.5, Verdict.MET), (0.25, Verdict.WANTED)]
)
def test_an_absolute_goal_bounds_our_own_figure(everlog: float, verdict: Verdict) -> None:
    metric = Metric("a", "a", "s", Better.LESS, Goal(0.5, 0.25, absolute=True))

    assert metric.verdict(everlog, None) is verdict


@pytest.mark.parametrize(
    ("advantage", "verdict"),
    [(2.4, Verdict.MISSED), (2.5, Verdict.MET), (4.0, Verdict.WANTED), (None, Verdict.NONE)],
)
def test_a_relative_goal_counts_how_many_times_better(advantage: float | None, verdict: Verdict) -> None:
    metric = Metric("a", "a", "MB/s", Better.MORE, Goal(2.5, 4.0))

    assert metric.verdict(1.0, advantage) is verdict


def test_a_row_has_medians_and_the_spread_of_runs_that_followed_each_other() -> None:
    results = some_results({RATE: ([300.0, 500.0, 400.0], [100.0, 100.0, 200.0])})

    row = row_of(results, RATE)

    assert row.everlog is not None
    assert (row.everlog.median, row.everlog.least, row.everlog.most) == (400.0, 300.0, 500.0)
    assert row.advantage is not None
    assert (row.advantage.median, row.advantage.least, row.advantage.most) == (4.0, 2.0, 5.0)
    assert row.verdict is Verdict.WANTED


def test_a_missed_floor_is_named_below_the_table() -> None:
    results = some_results({COST: ([2.0], [4.0])})

    assert "below the floor: produce 64 KiB, 1 partition, 4 connections, CPU s/GB" in report.text_table(
        results
    )


def test_a_broker_that_was_not_run_leaves_its_column_empty() -> None:
    results = some_results({RATE: ([300.0], [])})

    assert row_of(results, RATE).advantage is None
    assert report.missed(results) == []


def test_kept_samples_give_the_same_report(tmp_path: Path) -> None:
    results = some_results({START: ([0.2, 0.3], [4.0, 4.2])})
    results.save(tmp_path / "kept.json")

    assert report.text_table(Results.load(tmp_path / "kept.json")) == report.text_table(results)


def test_the_chart_is_well_formed_and_has_a_bar_for_each_headline_row() -> None:
    results = some_results({RATE: ([300.0], [100.0]), START: ([9.0], [4.0])})

    picture = parseString(svg_chart(results))

    bars = picture.getElementsByTagName("rect")
    assert [bar.getAttribute("class") for bar in bars] == ["missed", "bar"]


def test_what_misses_its_floor_is_in_the_chart_whichever_row_it_is() -> None:
    rate = "produce.64KiB.12p.4c.mb_s"

    assert "12 partitions" not in svg_chart(some_results({rate: ([300.0], [100.0])}))
    assert "12 partitions" in svg_chart(some_results({rate: ([200.0], [100.0])}))


def test_a_row_that_was_taken_beside_other_load_is_marked_and_named_provisional() -> None:
    figures = {RATE: ([500.0, 500.0], [100.0, 100.0])}
    quiet, busy = some_results(figures), some_results(figures, foreign_cores=0.9)

    assert report.provisional(quiet) == []
    assert "PROVISIONAL" not in report.text_table(quiet) + svg_chart(quiet)
    assert [row.metric.key for row in report.provisional(busy)] == [RATE]
    assert "wanted ?" in report.text_table(busy)
    for text in (report.text_table(busy), report.markdown_table(busy), svg_chart(busy)):
        assert "PROVISIONAL" in text


def test_one_busy_sample_among_quiet_ones_is_enough_to_mark_its_row() -> None:
    results = some_results({RATE: ([500.0], [100.0])})
    results.samples.append(Sample("a scenario", "kafka", {RATE: 50.0}, 0.3, 0.2))

    assert row_of(results, RATE).quiet == (2, 3)
    assert row_of(results, RATE).provisional


def test_rows_of_a_cluster_are_in_the_table_and_in_the_chart() -> None:
    results = some_results(
        {
            "cluster.produce.1p.mb_s": ([400.0], [50.0]),
            "cluster.latency.300.ack_p99": ([500.0], [1_000.0]),
            "cluster.failover.p99": ([0.2], [10.0]),
        }
    )

    assert row_of(results, "cluster.produce.1p.mb_s").verdict is Verdict.WANTED
    assert row_of(results, "cluster.failover.p99").verdict is Verdict.WANTED
    assert "3 brokers, acknowledgement, 300 records/s, p99" in report.text_table(results)
    assert "kill -9 of a leader, writable again, p99" in svg_chart(results)

"""Figures, and the bar that shows them."""

import pytest

from everlog.cli.measure import Throughput, latencies
from everlog.cli.progress import Progress
from everlog.cli.shapes import size_text, time_text


def test_a_quantile_is_a_value_that_was_measured() -> None:
    measured = latencies([number / 1000 for number in range(1, 1001)])

    assert (measured.p50, measured.p95, measured.p99, measured.p999) == (500, 950, 990, 999)
    assert (measured.max, measured.count) == (1000, 1000)


def test_one_measurement_is_every_quantile_and_none_is_zero() -> None:
    assert latencies([0.25]).p50 == latencies([0.25]).max == 250
    assert latencies([]).shape()["count"] == 0


def test_rates_are_per_second_and_megabytes_are_millions() -> None:
    through = Throughput(100, 5_000_000, 2.0)

    assert through.shape()["records_per_second"] == 50
    assert through.shape()["megabytes_per_second"] == 2.5
    assert Throughput(0, 0, 0.0).records_per_second == 0


def test_nobody_watching_means_nothing_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("x", 10, "records", shown=False) as progress:
        progress.step(10)

    assert capsys.readouterr().err == ""


def test_the_bar_ends_full_and_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("produce", 10, "records", shown=True) as progress:
        progress.step(5, 1000)
        progress.step(5, 1000)

    drawn = capsys.readouterr().err
    assert drawn.endswith("\n")
    assert "100%" in drawn.rpartition("\r")[2]
    assert "10 records" in drawn.rpartition("\r")[2]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes_have_units(count: int, text: str) -> None:
    assert size_text(count) == text


def test_times_are_iso_8601_and_impossible_ones_a_dash() -> None:
    assert time_text(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
    assert time_text(-1) == time_text(2**62) == "-"

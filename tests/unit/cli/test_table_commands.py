"""What the table commands decide without a cluster: spans, where Spark begins, what is shown."""

import signal
from datetime import timedelta

import click
import pytest

from everlog.cli.table_run import stopped_by_signals
from everlog.cli.table_shapes import lag_of, offsets_text, spec_fields
from everlog.cli.table_spark import checkpoint_of, lag_of_progress, starting_offsets
from everlog.cli.table_upkeep import read_span
from everlog.cli.table_watch import Watch
from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition
from everlog.tables.offsets import Coverage, OffsetRanges
from everlog.tables.spec import TableSpec

ZERO, ONE, TWO = (TopicPartition("orders", index) for index in range(3))


def a_table(**changed: str) -> TableSpec:
    return TableSpec.load({"name": "orders", "topic": "orders", "location": "/lake/orders", **changed})


@pytest.mark.parametrize(
    ("text", "seconds"), [("7d", 604800), ("1h30m", 5400), ("0s", 0), ("250ms", 0.25), ("2w", 1209600)]
)
def test_spans_add_up(text: str, seconds: float) -> None:
    assert read_span("older-than", text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "7", "d", "7 days", "-1h"])
def test_what_is_no_span_is_wrong_usage(text: str) -> None:
    with pytest.raises(click.UsageError, match=r"--older-than .*expected a span such as 7d"):
        read_span("older-than", text)


def test_spark_begins_at_the_first_offset_that_a_table_does_not_have() -> None:
    covered = Coverage({ZERO: ((0, 10), (15, 20)), ONE: ((5, 9),)})

    found = starting_offsets([ONE, TWO, ZERO], covered, latest=False)

    assert found == '{"orders": {"0": 10, "1": -2, "2": -2}}'
    assert starting_offsets([ONE, TWO], covered, latest=True) == '{"orders": {"1": 9, "2": -1}}'


def test_a_checkpoint_is_beside_the_table_and_not_in_it() -> None:
    assert checkpoint_of(a_table(), None) == "/lake/_checkpoints/orders"
    assert checkpoint_of(a_table(location="file:///läke/orders"), None) == "/läke/_checkpoints/orders"
    assert checkpoint_of(a_table(), "elsewhere") == "elsewhere"
    with pytest.raises(ConfigError, match="expected --checkpoint"):
        checkpoint_of(a_table(location="s3://lake/orders"), None)


def test_the_lag_of_a_query_is_what_its_sources_have_yet_to_read() -> None:
    progress = {
        "sources": [
            {"endOffset": '{"orders": {"0": 7}}', "latestOffset": '{"orders": {"0": 10, "1": 4}}'},
            {"endOffset": {"audit": {"0": 5}}, "latestOffset": {"audit": {"0": 3}}},
            {"endOffset": "12", "latestOffset": None},
        ]
    }

    assert lag_of_progress(progress) == 7
    assert lag_of_progress({"sources": [{"endOffset": "x", "latestOffset": "y"}]}) is None


def test_the_lag_of_a_table_counts_partitions_that_it_has_nothing_of() -> None:
    assert lag_of({ZERO: 7}, {ZERO: 10, ONE: 4}) == {ZERO: 3, ONE: 4}


def test_ranges_are_shown_with_their_last_offset() -> None:
    assert offsets_text(OffsetRanges.of({("orders", 0): (0, 10), ("orders", 1): (4, 5)})) == "0: 0-9, 1: 4-4"
    assert offsets_text(OffsetRanges()) is None


def test_a_declaration_tells_how_values_are_read() -> None:
    lines = dict(spec_fields(a_table(mode="upsert", schema="id long")).pairs)

    assert (lines["mode"], lines["values"]) == ("upsert", "json: id long")
    assert dict(spec_fields(a_table()).pairs)["values"] == "bytes in one column"


def test_a_watch_counts_batches_and_shows_rates_and_lag(capsys: pytest.CaptureFixture[str]) -> None:
    with Watch("orders", shown=True) as watch:
        watch.batch(1200, 2, 34)
        watch.batch(300, 0, 0)

    tally = watch.tally()
    assert (tally.batches, tally.rows, tally.bad) == (2, 1500, 2)
    assert "commit 2  0 behind  2 dead letters" in capsys.readouterr().err
    with Watch("orders", shown=False) as silent:
        silent.batch(1, 0, None)
    assert capsys.readouterr().err == ""


def test_a_second_sigterm_asks_again_for_a_clean_end() -> None:
    with stopped_by_signals() as stop:
        for _ in range(3):  # `timeout` sends two, a service manager may send more
            signal.raise_signal(signal.SIGTERM)

        assert stop.is_set()


def test_a_second_ctrl_c_ends_at_once() -> None:
    with stopped_by_signals() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()

        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

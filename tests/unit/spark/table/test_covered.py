"""What a batch covers: as its checkpoint says, which knows more than its rows."""

from pathlib import Path
from typing import Any

import pytest

from everlog.model.topics import TopicPartition
from everlog.spark.table.covered import batch_covers
from everlog.spark.table.writing import Target, commit, stage
from everlog.tables.arrow import pa
from everlog.tables.offsets import OffsetRanges, Span
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table


def a_checkpoint(folder: Path, *batches: str) -> str:
    (folder / "offsets").mkdir()
    for number, offsets in enumerate(batches):
        (folder / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets}')
    return str(folder)


def seen(**spans: Span) -> OffsetRanges:
    """Ranges of the topic `orders` by the letter p and the partition."""
    return OffsetRanges.of({("orders", int(name[1:])): span for name, span in spans.items()})


def test_a_checkpoint_knows_what_no_row_tells(tmp_path: Path) -> None:
    place = a_checkpoint(
        tmp_path, '{"orders":{"0":10,"1":4}}', '{"orders":{"0":25,"1":6}}', '{"orders":{"0":40,"1":6,"2":3}}'
    )

    assert batch_covers(seen(p0=(12, 20)), place, 1) == seen(p0=(10, 25), p1=(4, 6))
    assert batch_covers(seen(p0=(12, 20)), f"file://{place}", 1) == seen(p0=(10, 25), p1=(4, 6))
    assert batch_covers(seen(p2=(0, 3)), place, 2) == seen(p0=(25, 40), p2=(0, 3))


def test_the_first_batch_begins_where_its_rows_do(tmp_path: Path) -> None:
    place = a_checkpoint(tmp_path, '{"orders":{"0":10,"1":4}}')

    assert batch_covers(seen(p0=(6, 9)), place, 0) == seen(p0=(6, 10))


def test_a_topic_made_anew_has_no_range_that_runs_backwards(tmp_path: Path) -> None:
    place = a_checkpoint(tmp_path, '{"orders":{"0":10}}', '{"orders":{"0":3}}')

    assert batch_covers(seen(p0=(0, 3)), place, 1) == seen(p0=(0, 3))
    assert batch_covers(seen(), place, 1) == seen()


def test_nothing_is_known_where_there_is_no_checkpoint_to_read(tmp_path: Path) -> None:
    rows = seen(p0=(6, 9))

    assert batch_covers(rows, None, 3) is None
    assert batch_covers(rows, "dbfs:/checkpoint", 3) is None
    assert batch_covers(rows, str(tmp_path / "none"), 3) is None
    assert batch_covers(rows, a_checkpoint(tmp_path, "12"), 0) is None


def test_of_two_sources_of_a_topic_the_one_behind_tells_what_is_covered(tmp_path: Path) -> None:
    """What the one has yet to bring would be taken for what the table has, and be left out."""
    place = a_checkpoint(
        tmp_path, '{"orders":{"0":100}}\n{"orders":{"0":105}}', '{"orders":{"0":110}}\n{"orders":{"0":110}}'
    )

    assert batch_covers(seen(p0=(0, 105)), place, 0) == seen(p0=(0, 100))
    assert batch_covers(seen(p0=(100, 110)), place, 1) == seen(p0=(100, 110))


def test_two_sources_of_a_topic_lose_no_row_of_a_table(tmp_path: Path) -> None:
    spec = TableSpec.load(
        {"name": "both", "topic": "orders", "location": str(tmp_path / "both"), "schema": "id long"}
    )
    (tmp_path / "check").mkdir()
    place = a_checkpoint(
        tmp_path / "check",
        '{"orders":{"0":3}}\n{"orders":{"0":5}}',
        '{"orders":{"0":8}}\n{"orders":{"0":8}}',
    )
    target = Target(spec, records=False, checkpoint=place)
    open_table(spec)
    for batch, offsets in enumerate([[*range(3), *range(5)], [*range(3, 8), *range(5, 8)]]):
        staged = stage(target, [rows_of("orders", offsets)], "query", batch)
        commit(target, "query", batch, [staged])

    table = open_table(spec, create=False)
    assert sorted(table.read(["id"])["id"].to_pylist()) == sorted([*range(8), *range(8)])
    assert table.offsets() == {TopicPartition("orders", 0): 8}


def test_rows_that_come_after_others_of_their_offsets_are_no_repetition(tmp_path: Path) -> None:
    """As out of a join of two streams, or of two sources where the checkpoint cannot be read."""
    spec = TableSpec.load(
        {"name": "late", "topic": "orders", "location": str(tmp_path / "late"), "schema": "id long"}
    )
    target = Target(spec, records=False)
    open_table(spec)
    for batch, offsets in enumerate([[0, 1, 4], [2, 3, 7], [7, 8]]):
        writer = "another query" if batch == 2 else "query"
        commit(target, writer, batch, [stage(target, [rows_of("orders", offsets)], writer, batch)])

    found = open_table(spec, create=False).read(["id"])["id"].to_pylist()
    assert sorted(found) == [0, 1, 2, 3, 4, 7, 8]


def rows_of(topic: str, offsets: list[int]) -> Any:
    """Rows with a column of their own, which is their offset."""
    return pa.RecordBatch.from_pydict(
        {
            "id": offsets,
            "topic": [topic] * len(offsets),
            "partition": pa.array([0] * len(offsets), pa.int32()),
            "offset": offsets,
        }
    )


def test_a_checkpoint_without_topics_is_told_of_where_rows_have_offsets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = a_checkpoint(tmp_path, '{"logOffset":3}')

    assert batch_covers(seen(), place, 0) is None
    assert not caplog.records
    assert batch_covers(seen(p0=(0, 3)), place, 0) is None
    assert "no offsets of topics" in caplog.text

"""What a batch covers: as its checkpoint says, which knows more than its rows."""

from pathlib import Path

from everlog.model.topics import TopicPartition
from everlog.spark.table.covered import batch_covers, read_offsets
from everlog.tables.offsets import OffsetRanges, Span


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


def test_sources_of_other_kinds_are_passed_over() -> None:
    text = 'v1\n{}\n{"logOffset":3}\n-\n{"orders":{"0":5}}\n17\n{"audit":{"1":8}}'

    assert read_offsets(text) == {TopicPartition("orders", 0): 5, TopicPartition("audit", 1): 8}

"""What a batch covers: from rows, from a checkpoint, and from both."""

from pathlib import Path

import pyarrow as pa

from everlog.model.topics import TopicPartition
from everlog.spark.table.covered import batch_covers, local_path, read_offsets, rows_cover, united

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def rows(*entries: tuple[str | None, int, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {"topic": topic, "partition": index, "offset": offset, "value": b""}
            for topic, index, offset in entries
        ],
        pa.schema(
            {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "value": pa.binary()}
        ),
    )


def a_checkpoint(folder: Path, *batches: str) -> str:
    (folder / "offsets").mkdir()
    for number, offsets in enumerate(batches):
        (folder / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets}')
    return str(folder)


def test_rows_cover_from_their_smallest_to_their_largest_offset() -> None:
    found = rows_cover(rows(("orders", 0, 7), ("orders", 0, 3), ("orders", 1, 0), ("audit", 0, 9)))

    assert found == {ZERO: (3, 8), ONE: (0, 1), TopicPartition("audit", 0): (9, 10)}


def test_rows_without_a_place_cover_nothing() -> None:
    assert rows_cover(pa.RecordBatch.from_pydict({"topic": ["a"], "total": [1]})) == {}
    assert rows_cover(rows()) == {}
    assert rows_cover(rows((None, 0, 3))) == {}


def test_parts_of_a_batch_cover_it_together() -> None:
    assert united([{ZERO: (3, 5)}, {ZERO: (5, 9), ONE: (0, 1)}, {}]) == {ZERO: (3, 9), ONE: (0, 1)}


def test_a_checkpoint_knows_what_no_row_tells(tmp_path: Path) -> None:
    place = a_checkpoint(
        tmp_path, '{"orders":{"0":10,"1":4}}', '{"orders":{"0":25,"1":4}}', '{"orders":{"0":40,"1":4,"2":3}}'
    )

    assert batch_covers({ZERO: (12, 20)}, place, 1) == {ZERO: (10, 25), ONE: (4, 4)}
    assert batch_covers({ZERO: (12, 20)}, f"file://{place}", 1) == {ZERO: (10, 25), ONE: (4, 4)}
    new = TopicPartition("orders", 2)
    assert batch_covers({new: (0, 3)}, place, 2)[new] == (0, 3)


def test_the_first_batch_begins_where_its_rows_do(tmp_path: Path) -> None:
    place = a_checkpoint(tmp_path, '{"orders":{"0":10,"1":4}}')

    assert batch_covers({ZERO: (6, 9)}, place, 0) == {ZERO: (6, 10), ONE: (4, 4)}


def test_a_topic_made_anew_has_no_range_that_runs_backwards(tmp_path: Path) -> None:
    place = a_checkpoint(tmp_path, '{"orders":{"0":10}}', '{"orders":{"0":3}}')

    assert batch_covers({ZERO: (0, 3)}, place, 1) == {ZERO: (0, 3)}
    assert batch_covers({}, place, 1) == {ZERO: (3, 3)}


def test_rows_tell_where_there_is_no_checkpoint_to_read(tmp_path: Path) -> None:
    seen = {ZERO: (6, 9)}

    assert batch_covers(seen, None, 3) == seen
    assert batch_covers(seen, "s3://bucket/checkpoint", 3) == seen
    assert batch_covers(seen, str(tmp_path / "none"), 3) == seen
    assert batch_covers(seen, a_checkpoint(tmp_path, "12"), 0) == seen


def test_sources_of_other_kinds_are_passed_over() -> None:
    text = 'v1\n{}\n{"logOffset":3}\n-\n{"orders":{"0":5}}\n17\n{"audit":{"1":8}}'

    assert read_offsets(text) == {ZERO: 5, TopicPartition("audit", 1): 8}


def test_only_files_of_this_machine_have_a_path() -> None:
    assert local_path("/tmp/check%20point") == Path("/tmp/check%20point")
    assert local_path("file:///tmp/check%20point") == Path("/tmp/check point")
    assert local_path("checkpoints/orders") == Path("checkpoints/orders")
    assert local_path("hdfs://name/checkpoints") is None

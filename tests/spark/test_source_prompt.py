"""Low latency: what little a trigger has is read by the planner and is one task; more is read by tasks."""

import json
import pickle
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from typing import Any

import pytest
from pyspark.sql.datasource_internal import (
    _SimpleStreamReaderWrapper,  # pyright: ignore[reportPrivateUsage]
)
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from everlog.spark.source.batch_reader import RangePartition
from everlog.spark.source.data_source import EverlogDataSource
from everlog.spark.source.plan import SMALL_BYTES, ReadRange, SmallBatches
from everlog.spark.source.prompt_reader import PromptStreamReader, SmallPartition
from everlog.spark.source.stream_reader import EverlogStreamReader
from tests.spark.conftest import NewTopic
from tests.spark.source_reads import send

runner: Any = import_module("pyspark.sql.streaming.python_streaming_source_runner")
SCHEMA: Any = StructType([StructField("value", BinaryType()), StructField("partition", IntegerType())])


@contextmanager
def a_reader(bootstrap: str, topic: str, **options: str) -> Generator[PromptStreamReader]:
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "lowLatency": "true",
        "columns": "value,partition",
        **options,
    }
    reader = EverlogDataSource(options=given).streamReader(schema=SCHEMA)
    assert isinstance(reader, PromptStreamReader)
    try:
        yield reader
    finally:
        reader.stop()


def found(batches: Iterable[Any] | None) -> list[tuple[bytes, int]]:
    assert batches is not None
    return [(row["value"], row["partition"]) for batch in batches for row in batch.to_pylist()]


def test_a_small_trigger_is_one_task_whose_rows_the_planner_has(
    everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    send(everlog_bootstrap, topic, [b"a", b"b", b"c"])
    send(everlog_bootstrap, topic, [b"d"], partition=1)
    rows = [(b"b", 0), (b"c", 0), (b"d", 1)]
    start, end = {topic: {"0": 1, "1": 0}}, {topic: {"0": 3, "1": 1}}

    with a_reader(everlog_bootstrap, topic, minPartitions="4") as reader:
        assert reader.latestOffset(start, reader.getDefaultReadLimit()) == end
        planned = reader.partitions(start, end)

        assert len(planned) == 1
        assert found(reader.getCache(start, end)) == rows
        # Spark may ask again, and may have lost the rows when a task wants them.
        assert found(reader.getCache(start, end)) == rows
        at_work: PromptStreamReader = pickle.loads(pickle.dumps(reader))
        assert at_work.getCache(start, end) is None, "rows travel to no worker with the reader"
        assert found(at_work.read(pickle.loads(pickle.dumps(planned[0])))) == rows


def test_spark_gets_the_rows_and_after_them_the_end_of_the_log(
    everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, [b"a", b"b", b"c"])
    start, end = {topic: {"0": 0}}, {topic: {"0": 2}}

    with a_reader(everlog_bootstrap, topic, maxOffsetsPerTrigger="2") as reader:
        for _ in range(2):
            assert reader.latestOffset(start, reader.getDefaultReadLimit()) == end
            reader.partitions(start, end)
            assert isinstance(reader, _SimpleStreamReaderWrapper), "Spark asks no other for rows"
            assert found(reader.getCache(start, end)) == [(b"a", 0), (b"b", 0)]
            told = BytesIO()
            runner.report_latest_offset_func(reader, told)
            assert json.loads(told.getvalue()[4:]) == {topic: {"0": 3}}


def test_a_large_trigger_is_read_by_tasks(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    for partition in range(2):
        send(everlog_bootstrap, topic, [b"x" * (SMALL_BYTES // 4)] * 5, partition=partition)
    start, end = {topic: {"0": 0, "1": 0}}, {topic: {"0": 5, "1": 5}}

    with a_reader(everlog_bootstrap, topic) as reader:
        # By their number they look like few; what they are shows only when they are read.
        planned = reader.partitions(start, end)

        assert [type(one) for one in planned] == [RangePartition, RangePartition]
        assert reader.getCache(start, end) is None
        assert [partition for one in planned for _, partition in found(reader.read(one))] == [0] * 5 + [1] * 5
        # One of these would do, and now it is known that more do not.
        assert isinstance(reader.partitions(start, {topic: {"0": 1, "1": 0}})[0], SmallPartition)
        assert len(reader.partitions(start, end)) == 2


def test_without_the_option_tasks_read(everlog_bootstrap: str) -> None:
    given = {"kafka.bootstrap.servers": everlog_bootstrap, "subscribe": "t"}
    assert type(EverlogDataSource(options=given).streamReader(schema=SCHEMA)) is EverlogStreamReader


class _Batch:
    def __init__(self, size: int) -> None:
        self.nbytes = size


@pytest.mark.parametrize(
    ("ranges", "what"),
    [
        ([], "nothing to read"),
        ([ReadRange("t", 0, 0, 10_000)], "more than a mebibyte, as records usually are"),
        ([ReadRange("t", one, 0, 1) for one in range(17)], "too many partitions to read one by one"),
    ],
)
def test_what_is_not_small_is_not_even_asked_for(ranges: list[ReadRange], what: str) -> None:
    asked = iter([_Batch(1)])
    assert SmallBatches().taken(ranges, asked) is None, what
    assert next(asked, None) is not None


def test_how_much_is_small_is_learned_from_what_was_read() -> None:
    few, many = [ReadRange("t", 0, 0, 10)], [ReadRange("t", 0, 0, 10_000)]
    small, batches = SmallBatches(), [_Batch(1000)]
    assert small.taken(few, batches) == batches
    assert small.taken(many, batches) == batches, "100 bytes each are a megabyte"
    assert small.taken(few, [_Batch(SMALL_BYTES)]) is not None
    assert small.taken([ReadRange("t", 0, 0, 11)], batches) is None

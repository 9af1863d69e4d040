"""A source that has its rows ready: what Spark itself needs to take in those of any Python source.

Its columns, sizes and batches are those of ours; the same Arrow batch is handed over again and again. So it
fetches nothing, checks nothing and builds nothing: what it reaches is the bound for
any source that Spark takes in row by row. Ours is taken in as columns, and gets past it.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from everlog.spark.source.reading import BATCH_BYTES
from everlog.spark.source.record_schema import NEVER_NULL, TYPES
from everlog.values.arrow import pa

FORMAT = "ready"
TASKS = 4
_COLUMNS = {name: kind for name, kind in TYPES.items() if name != "headers"}


class ReadySource(DataSource):
    """Options: `rows` in all, and `size` of each value in bytes."""

    @classmethod
    def name(cls) -> str:
        """As `spark.read.format` has it."""
        return FORMAT

    def schema(self) -> str:
        """That of our source."""
        return ", ".join(
            f"`{name}` {kind}{' NOT NULL' if name in NEVER_NULL else ''}" for name, kind in _COLUMNS.items()
        )

    def reader(self, schema: Any) -> DataSourceReader:
        """One for a read."""
        return _ReadyReader(int(self.options["rows"]), int(self.options["size"]))


class _ReadyReader(DataSourceReader):
    def __init__(self, rows: int, size: int) -> None:
        self._rows = rows
        self._size = size

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(index) for index in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        left = self._rows * (partition.value + 1) // TASKS - self._rows * partition.value // TASKS
        ready = _batch(min(left, BATCH_BYTES // self._size), self._size, partition.value)
        while left > 0:
            yield ready.slice(0, left)
            left -= len(ready)


def _batch(rows: int, size: int, partition: int) -> Any:
    utc = pa.timestamp("us", tz="UTC")
    columns = {
        "key": pa.nulls(rows, pa.binary()),
        "value": pa.array([b"%0*d" % (size, number) for number in range(rows)], pa.binary()),
        "topic": pa.repeat(pa.scalar("spark-1"), rows),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), rows),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array(range(rows), pa.int64()).view(utc),
        "timestampType": pa.repeat(pa.scalar(0, pa.int32()), rows),
    }
    fields = [pa.field(name, columns[name].type, nullable=name not in NEVER_NULL) for name in _COLUMNS]
    return pa.RecordBatch.from_arrays([columns[name] for name in _COLUMNS], schema=pa.schema(fields))

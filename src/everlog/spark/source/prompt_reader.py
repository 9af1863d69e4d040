"""A streaming read for low latency: what little a trigger has is read by the planner, and is one task.

Spark hands rows that its planner has fetched from block to block of its own memory; no task starts a Python
to read them, and one task writes them. What is too much for that is read by tasks, as always.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.datasource_internal import (
    _SimpleStreamReaderWrapper,  # pyright: ignore[reportPrivateUsage]  # only of it Spark takes rows
)

from everlog.spark.failures import told_in_one_line
from everlog.spark.source.batch_reader import RangePartition
from everlog.spark.source.columns import ArrowBatch, column_options
from everlog.spark.source.offsets import from_json
from everlog.spark.source.plan import ReadRange, SmallBatches
from everlog.spark.source.reading import read_range
from everlog.spark.source.spark_types import arrow_schema
from everlog.spark.source.stream_reader import EverlogStreamReader


@dataclass
class SmallPartition(InputPartition):
    """All that a trigger reads, for one task; it reads them itself if what was fetched is lost."""

    value: tuple[ReadRange, ...]


class PromptStreamReader(EverlogStreamReader):
    """Reads topics as they grow, small batches on the driver.

    Spark asks only who is a wrapper of its simple readers for rows along with the partitions, and asks such
    a one for no latest offset. So it is one while there are rows to hand over, and not one otherwise.
    """

    def __init__(self, options: Any, schema: Any) -> None:
        super().__init__(options, schema)
        self._small = SmallBatches()
        self._fetched: list[ArrowBatch] | None = None
        """The rows of the trigger that was planned last; None if its tasks read them."""

    def __getstate__(self) -> dict[str, Any]:
        """What goes to the workers."""
        return {**super().__getstate__(), "_fetched": None}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a trigger: one, if it is small."""
        with told_in_one_line():
            ranges = self._progress().ranges(from_json(start), from_json(end))
            self._fetched = self._small.taken(ranges, self._read_all(ranges))
            if self._fetched is None:
                return [RangePartition(each) for each in ranges]
            _become(self, HandsOverRows)
            return [SmallPartition(tuple(ranges))]

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any] | None:
        """The rows of the trigger that was planned last, if they are here; asked for after `partitions`."""
        _become(self, PromptStreamReader)
        return None if self._fetched is None else iter(self._fetched)

    def read(self, partition: InputPartition) -> Iterator[ArrowBatch]:
        """The rows of a task."""
        if isinstance(partition, SmallPartition):
            with told_in_one_line():
                yield from self._read_all(partition.value)
        else:
            yield from super().read(partition)

    def _read_all(self, ranges: Sequence[ReadRange]) -> Iterator[ArrowBatch]:
        columns = column_options(arrow_schema(self._schema), self._options)
        for each in ranges:
            yield from read_range(self._options, each, columns)


# Its two parents call an argument by two names; Spark calls it by none.
class HandsOverRows(PromptStreamReader, _SimpleStreamReaderWrapper):  # pyright: ignore[reportIncompatibleMethodOverride]
    """The same reader between `partitions` and `getCache`, as Spark wants to see it then."""

    simple_reader: Any = property(lambda self: self)
    """Whom Spark asks whether it can stop at what is available now."""


def _become(reader: PromptStreamReader, kind: type[PromptStreamReader]) -> None:
    reader.__class__ = kind

"""A streaming read: how far each trigger goes, decided on the driver, and its tasks."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from everlog.spark.failures import told_in_one_line
from everlog.spark.source.batch_reader import RangePartition, read_partition
from everlog.spark.source.columns import ArrowBatch, column_options
from everlog.spark.source.offsets import from_json, to_json
from everlog.spark.source.options import SourceOptions
from everlog.spark.source.progress import Progress
from everlog.spark.source.spark_types import arrow_schema

_log = logging.getLogger(__name__)


class EverlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as they grow. Spark keeps one on the driver as long as the query runs."""

    def __init__(self, options: SourceOptions, schema: Any) -> None:
        column_options(arrow_schema(schema), options)
        self._options = options
        self._schema = schema
        self._made: Progress | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What goes to the workers: they have connections of their own."""
        return {**self.__dict__, "_made": None}

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        with told_in_one_line():
            return to_json(self._progress().begin())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Tell Spark that there are limits; which ones is ours to know, as Spark can name only one."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next trigger reads."""
        with told_in_one_line():
            limited = not isinstance(limit, ReadAllAvailable)
            return to_json(self._progress().next_end(from_json(start), limited=limited))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of the log, for the query's progress."""
        latest = None if self._made is None else self._made.seen_latest
        return None if latest is None else to_json(latest)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than the log goes now."""
        with told_in_one_line():
            self._progress().stop_at_latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a trigger."""
        with told_in_one_line():
            ranges = self._progress().ranges(from_json(start), from_json(end))
            return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[ArrowBatch]:
        """The rows of a task."""
        return read_partition(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit to the group that the user named, so that Kafka's tools show the query's lag."""
        if self._options.commit_group is not None:
            with told_in_one_line():
                self._progress().commit(self._options.commit_group, from_json(end))

    def stop(self) -> None:
        """Close the connections."""
        if self._made is not None:
            self._made.close()

    def _progress(self) -> Progress:
        if self._made is None:
            self._made = Progress(self._options, _now_ms)
        return self._made


_now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000  # noqa: E731

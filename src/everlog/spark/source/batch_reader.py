"""A batch read: its plan on the driver, and its tasks."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition
from everlog.spark.failures import told_in_one_line
from everlog.spark.source.cluster import Cluster, connected
from everlog.spark.source.columns import ArrowBatch, column_options
from everlog.spark.source.offsets import AtTimestamp, AtTimestamps, Bound, Offsets, Specific
from everlog.spark.source.options import SourceOptions
from everlog.spark.source.plan import (
    ReadRange,
    lost_behind_end,
    raise_loss,
    ranges_between,
    runs_backwards,
    split_ranges,
)
from everlog.spark.source.pushdown import Bounds, take_filters
from everlog.spark.source.reading import read_range
from everlog.spark.source.resolving import end_offsets, start_offsets
from everlog.spark.source.spark_types import arrow_schema
from everlog.spark.worker_memory import settle_memory

_log = logging.getLogger(__name__)


@dataclass
class RangePartition(InputPartition):
    """What one task of Spark reads."""

    value: ReadRange


def read_partition(options: SourceOptions, schema: Any, partition: InputPartition) -> Iterator[ArrowBatch]:
    """The rows of one task; none for the empty partition that Spark makes of no partitions."""
    if isinstance(partition, RangePartition):
        with told_in_one_line():
            columns = column_options(arrow_schema(schema), options)
            settle_memory()
            yield from read_range(options, partition.value, columns)


def plan_batch(cluster: Cluster, options: SourceOptions, bounds: Bounds) -> list[ReadRange]:
    """The ranges of a batch read, one a task; DataLost if offsets that were asked for cannot be there."""
    places = cluster.required_partitions(options.selection)
    start = start_offsets(cluster, options, places)
    end = end_offsets(cluster, options, places)
    _check_order(options, start, end)
    # What an open transaction holds back is not lost: the ends that count are those of the log.
    there = cluster.latest(places, read_committed=False)
    for asked, option in ((start, options.start_option), (end, options.end_option)):
        loss = lost_behind_end(asked, there)
        if raise_loss(loss and f"option {option}: {loss}", fail=options.fail_on_data_loss):
            _log.warning("%s", loss)
    end = {place: min(offset, there[place]) for place, offset in end.items()}
    since: dict[Any, int | None] = {}
    if bounds.since_ms is not None:
        wanted = {place: bounds.since_ms for place in places if bounds.covers(place)}
        since = {
            place: None if entry is None else entry.offset for place, entry in cluster.moments(wanted).items()
        }
    ranges = ranges_between(*bounds.cut(start, end, since))
    return split_ranges(ranges, options.min_partitions, options.max_records)


def _check_order(options: SourceOptions, start: Offsets, end: Offsets) -> None:
    """ConfigError if the user named a start that lies behind the end that was named.

    Where one of them is what the log or a group has there is nothing to read, and no mistake.
    """
    named = [place for place in start if _is_named(options.start, place) and _is_named(options.end, place)]
    odd = runs_backwards({place: start[place] for place in named}, end)
    if odd is not None:
        raise ConfigError(f"options {options.start_option} and {options.end_option}: {odd}")


def _is_named(bound: Bound, place: TopicPartition) -> bool:
    if isinstance(bound, Specific):
        return bound.offsets[place] >= 0
    return isinstance(bound, AtTimestamp | AtTimestamps)


class EverlogBatchReader(DataSourceReader):
    """Reads ranges of topics once."""

    def __init__(self, options: SourceOptions, schema: Any) -> None:
        self._options = options
        self._schema = schema
        self._bounds = Bounds()
        self._record = column_options(arrow_schema(schema), options).record

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        settle_memory()
        with told_in_one_line(), connected(self._options.client) as cluster:
            return [RangePartition(each) for each in plan_batch(cluster, self._options, self._bounds)]

    def read(self, partition: InputPartition) -> Iterator[ArrowBatch]:
        """The rows of a task."""
        return read_partition(self._options, self._schema, partition)


class FilteredBatchReader(EverlogBatchReader):
    """The same, where Spark hands filters down."""

    def pushFilters(self, filters: list[Any]) -> list[Any]:
        """Take what narrows down the ranges; return what Spark must still apply."""
        self._bounds, left = take_filters(filters, self._record)
        return left

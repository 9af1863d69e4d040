"""What Spark calls to write the format `everlog`: tasks, and the driver's commit or abort of each batch (D2).

Thin, because pyspark is typed in part: everything that decides is in the other modules of this room.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from everlog.model.errors import ConfigError
from everlog.spark.failures import told_in_one_line
from everlog.spark.sink.driver import abort_stream_batch, abort_write, commit_stream_batch, commit_write
from everlog.spark.sink.errors import SinkFailed
from everlog.spark.sink.names import query_of_write
from everlog.spark.sink.options import Guarantee, SinkOptions
from everlog.spark.sink.producers import BatchPlace
from everlog.spark.sink.progress import check_progress
from everlog.spark.sink.routing import columns_to_write
from everlog.spark.sink.task import TaskOutcome, write_rows
from everlog.spark.worker_memory import settle_memory

_BATCH, _QUERY, _RUN = "streaming.sql.batchId", "sql.streaming.queryId", "spark.jobGroup.id"


@dataclass
class TaskDone(WriterCommitMessage):
    """What a task tells the driver, as Spark carries it."""

    outcome: TaskOutcome


def stream_writer(options: Mapping[str, str], schema: Any, overwrite: bool) -> "StreamWriter":
    """The writer of a streaming query. In complete mode each batch appends all of its rows, as with Kafka."""
    settle_memory()
    with told_in_one_line():
        read = SinkOptions.read(options)
        check_progress(read)
        return StreamWriter(read, schema)


def batch_writer(options: Mapping[str, str], schema: Any, overwrite: bool) -> "BatchWriter":
    """The writer of a batch query."""
    with told_in_one_line():
        if overwrite:
            raise ConfigError("mode overwrite: a topic is only ever appended to, expected mode append")
        read = SinkOptions.read(options)
        if read.commit_group is not None:
            raise ConfigError(
                f"option commitGroup={read.commit_group!r}: expected a streaming query, as a write of its "
                "own does not know the offsets of its rows"
            )
        return BatchWriter(read, schema)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def __init__(self, options: SinkOptions, schema: Any) -> None:
        self._options = options
        self._columns = _columns(options, schema)

    def write(self, iterator: Iterator[Any]) -> TaskDone:
        """Write the rows of one task, on an executor."""
        settle_memory()
        with told_in_one_line():
            place = _stream_place(self._options)
            return TaskDone(write_rows(self._options, place, self._columns, iterator))

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Make a batch count, on the driver."""
        with told_in_one_line():
            commit_stream_batch(self._options, _outcomes(messages), batchId)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Abort what tasks of a failed batch have written, on the driver."""
        with told_in_one_line():
            abort_stream_batch(self._options, _outcomes(messages), batchId)


class BatchWriter(DataSourceArrowWriter):
    """Writes one DataFrame."""

    def __init__(self, options: SinkOptions, schema: Any) -> None:
        self._options = options
        self._columns = _columns(options, schema)
        self._place = place_of_write(options)

    def write(self, iterator: Iterator[Any]) -> TaskDone:
        """Write the rows of one task, on an executor."""
        settle_memory()
        with told_in_one_line():
            return TaskDone(write_rows(self._options, self._place, self._columns, iterator))

    def commit(self, messages: Sequence[Any]) -> None:
        """Make the write count, on the driver."""
        with told_in_one_line():
            commit_write(self._options, _outcomes(messages))

    def abort(self, messages: Sequence[Any]) -> None:
        """Abort what tasks have written, on the driver."""
        with told_in_one_line():
            abort_write(self._options, _outcomes(messages))


def _columns(options: SinkOptions, schema: Any) -> list[str]:
    return columns_to_write({field.name: field.dataType.simpleString() for field in schema.fields}, options)


def _stream_place(options: SinkOptions) -> BatchPlace:
    if options.guarantee is Guarantee.AT_LEAST_ONCE:
        return BatchPlace("", "", 0)
    context = TaskContext.get()
    if context is None:
        raise SinkFailed("a task of a streaming query has no context: expected Spark to run it")
    batch, query = context.getLocalProperty(_BATCH), context.getLocalProperty(_QUERY)
    if batch is None or query is None:
        raise SinkFailed(
            f"Spark does not tell a task its batch and query ({_BATCH}={batch}, {_QUERY}={query}): expected "
            "a micro-batch query; deliveryGuarantee=at_least_once needs neither"
        )
    # Without it no task knows that an earlier batch is over, and each makes a new producer.
    run = context.getLocalProperty(_RUN) or uuid.uuid4().hex
    return BatchPlace(query, run, int(batch))


def place_of_write(options: SinkOptions) -> BatchPlace:
    """What stands for query, run and batch in a batch write."""
    query = query_of_write(options.write_id or uuid.uuid4().hex)
    return BatchPlace(query, uuid.uuid4().hex, options.batch_id, options.write_id is not None)


def _outcomes(messages: Sequence[Any]) -> list[TaskOutcome]:
    """Of the tasks that have finished: those of a batch that failed are None."""
    return [one.outcome for one in messages if isinstance(one, TaskDone)]

"""What Spark calls to write the format `everlog`: tasks, and the driver's commit or abort of each batch (D2).

Thin, because pyspark is typed in part: everything that decides is in the other modules of this room.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from everlog.client.sync.admin import Admin
from everlog.model.errors import ConfigError
from everlog.spark.failures import told_in_one_line
from everlog.spark.sink.deciding import Decider
from everlog.spark.sink.errors import SinkFailed
from everlog.spark.sink.names import query_of_write
from everlog.spark.sink.options import Guarantee, SinkOptions
from everlog.spark.sink.producers import BatchPlace
from everlog.spark.sink.progress import source_offsets
from everlog.spark.sink.protocol import abort_batch, commit_at_once, commit_batch
from everlog.spark.sink.routing import columns_to_write
from everlog.spark.sink.steps import reached
from everlog.spark.sink.task import TaskOutcome, write_rows

_BATCH, _QUERY, _RUN = "streaming.sql.batchId", "sql.streaming.queryId", "spark.jobGroup.id"


@dataclass
class TaskDone(WriterCommitMessage):
    """What a task tells the driver, as Spark carries it."""

    outcome: TaskOutcome


def stream_writer(options: Mapping[str, str], schema: Any, overwrite: bool) -> "StreamWriter":
    """The writer of a streaming query. In complete mode each batch appends all of its rows, as with Kafka."""
    with told_in_one_line():
        return StreamWriter(SinkOptions.read(options), schema)


def batch_writer(options: Mapping[str, str], schema: Any, overwrite: bool) -> "BatchWriter":
    """The writer of a batch query."""
    with told_in_one_line():
        if overwrite:
            raise ConfigError("mode overwrite: a topic is only ever appended to, expected mode append")
        return BatchWriter(SinkOptions.read(options), schema)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def __init__(self, options: SinkOptions, schema: Any) -> None:
        self._options = options
        self._columns = _columns(options, schema)

    def write(self, iterator: Iterator[Any]) -> TaskDone:
        """Write the rows of one task, on an executor."""
        with told_in_one_line():
            place = _stream_place(self._options)
            return TaskDone(write_rows(self._options, place, self._columns, iterator))

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Make a batch count, on the driver."""
        with told_in_one_line():
            reached("commit-called")
            outcomes = _outcomes(messages)
            if outcomes:
                _commit(self._options, _kept_decider, outcomes, batchId)
            reached("commit-done")

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Abort what tasks of a failed batch have written, on the driver."""
        with told_in_one_line():
            _abort(self._options, _kept_decider, _outcomes(messages), batchId)


class BatchWriter(DataSourceArrowWriter):
    """Writes one DataFrame."""

    def __init__(self, options: SinkOptions, schema: Any) -> None:
        self._options = options
        self._columns = _columns(options, schema)
        name = options.write_id or uuid.uuid4().hex
        self._place = BatchPlace(query_of_write(name), uuid.uuid4().hex, 0)

    def write(self, iterator: Iterator[Any]) -> TaskDone:
        """Write the rows of one task, on an executor."""
        with told_in_one_line():
            return TaskDone(write_rows(self._options, self._place, self._columns, iterator))

    def commit(self, messages: Sequence[Any]) -> None:
        """Make the write count, on the driver."""
        with told_in_one_line():
            outcomes = _outcomes(messages)
            named = self._options.write_id is not None
            if outcomes:
                _commit(self._options, Decider, outcomes, 0, named=named)

    def abort(self, messages: Sequence[Any]) -> None:
        """Abort what tasks have written, on the driver."""
        with told_in_one_line():
            _abort(self._options, Decider, _outcomes(messages), 0)


def _commit(
    options: SinkOptions,
    open_decider: Callable[[SinkOptions, str], Decider],
    outcomes: list[TaskOutcome],
    batch: int,
    *,
    named: bool = True,
) -> None:
    if options.guarantee is Guarantee.AT_LEAST_ONCE:
        offsets = source_offsets(options, batch)
        if options.commit_group is not None and offsets:
            _admin(options).alter_group_offsets(options.commit_group, offsets)
        return
    written = [one.transaction for one in outcomes if one.transaction is not None]
    skipped = sum(one.skipped for one in outcomes)
    if not written and not skipped and options.commit_group is None:
        return
    with open_decider(options, outcomes[0].place.query) as decider:
        if named:
            decider.run(lambda: commit_batch(batch, written, skipped), lambda: source_offsets(options, batch))
        else:
            decider.run(lambda: commit_at_once(written))


def _abort(
    options: SinkOptions,
    open_decider: Callable[[SinkOptions, str], Decider],
    outcomes: list[TaskOutcome],
    batch: int,
) -> None:
    written = [one.transaction for one in outcomes if one.transaction is not None]
    if written:
        with open_decider(options, outcomes[0].place.query) as decider:
            decider.run(lambda: abort_batch(batch, written))


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


def _outcomes(messages: Sequence[Any]) -> list[TaskOutcome]:
    """Of the tasks that have finished: those of a batch that failed are None."""
    return [one.outcome for one in messages if isinstance(one, TaskDone)]


# Kept in this process: Spark uses it again for the next batch.


@cache
def _kept_decider(options: SinkOptions, query: str) -> Decider:
    return Decider(options, query, keep=True)


@cache
def _admin(options: SinkOptions) -> Admin:
    return Admin(options.bootstrap_servers, **options.admin)

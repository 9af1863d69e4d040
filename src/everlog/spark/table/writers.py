"""The writers of the format `everlog_table`, as Spark calls them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from everlog.model.errors import ConfigError
from everlog.spark.failures import told_in_one_line
from everlog.spark.table.opening import target_of
from everlog.spark.table.options import TableOptions, read_options
from everlog.spark.table.writing import Target, abort, commit, commit_alone, stage
from everlog.tables.staging import Staged

QUERY = "sql.streaming.queryId"
BATCH = "streaming.sql.batchId"
"""Local properties of a task of a streaming query. The query's id outlives restarts, in the checkpoint."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    staged: Staged
    query_id: str | None = None
    batch_id: int | None = None


class TableStreamWriter(DataSourceStreamArrowWriter):
    """Brings the batches of a streaming query into a table, each once."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """A task's rows to files."""
        context = TaskContext.get()
        assert context is not None, "not called by a task of Spark's"
        query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
        assert query is not None, "a task of a streaming query knows the query's id"
        assert batch is not None, "a task of a streaming query knows the batch's id"
        with told_in_one_line():
            return Written(stage(self.target, iterator, query, int(batch)), query, int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """The files of all tasks to one commit of the table."""
        written = [message for message in messages if isinstance(message, Written)]
        ((query, batch),) = {(message.query_id, message.batch_id) for message in written}
        assert query is not None, messages
        assert batch == batchId, (messages, batchId)
        with told_in_one_line():
            commit(self.target, query, batchId, [message.staged for message in written])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Some task failed: what the others wrote goes."""
        _abort(self.target, messages)


class TableBatchWriter(DataSourceArrowWriter):
    """Brings the rows of a batch query into a table."""

    def __init__(self, target: Target, options: TableOptions) -> None:
        self.target = target
        self.options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """A task's rows to files."""
        with told_in_one_line():
            return Written(stage(self.target, iterator, self.options.writer, self.options.batch_id))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """The files of all tasks to one commit of the table."""
        staged = [message.staged for message in messages if isinstance(message, Written)]
        with told_in_one_line():
            commit_alone(self.target, self.options.writer, self.options.batch_id, staged)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Some task failed: what the others wrote goes."""
        _abort(self.target, messages)


def _abort(target: Target, messages: list[WriterCommitMessage | None]) -> None:
    with told_in_one_line():
        abort(target, [message.staged if isinstance(message, Written) else None for message in messages])


def stream_writer(options: Any, schema: Any, overwrite: bool) -> TableStreamWriter:
    """The writer of a streaming query; makes the table if it is not there."""
    with told_in_one_line():
        if overwrite:
            raise ConfigError(
                "output mode complete: a table is appended or upserted to; expected append, or foreachBatch "
                "with the options writer and batchId"
            )
        return TableStreamWriter(target_of(read_options(options), schema.fields))


def batch_writer(options: Any, schema: Any, overwrite: bool) -> TableBatchWriter:
    """The writer of a batch query; makes the table if it is not there."""
    with told_in_one_line():
        if overwrite:
            raise ConfigError("mode overwrite: a table is appended or upserted to; expected mode append")
        read = read_options(options)
        return TableBatchWriter(target_of(read, schema.fields), read)

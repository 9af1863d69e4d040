"""The table sink with death in it: a process of Spark's dies at a moment that a file names."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from everlog.spark.table.data_source import TableDataSource
from everlog.tables import steps

FORMAT = "everlog_table_killed"
MID_WRITE = "mid-write"
"""After a worker has taken its first rows, before it has finished its file."""
WORKER_MOMENTS = (MID_WRITE, "staged")
COMMIT_MOMENTS = ("commit-planned", "commit-drafted", "commit-linked", "commit-made")
"""Only Parquet's commit has those in the middle."""


class KilledTable(TableDataSource):
    """The format `everlog_table`, in which somebody dies when the file of option `killFile` says so."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        return KilledWriter(super().streamWriter(schema, overwrite), self.options["killFile"])


class KilledWriter(DataSourceStreamArrowWriter):
    """A writer that comes by all moments, and may not get beyond one."""

    def __init__(self, inner: Any, kill_file: str) -> None:
        self.inner = inner
        self.kill_file = kill_file

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        steps.observer = self.reached
        message: WriterCommitMessage = self.inner.write(self._interrupted(iterator))
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        steps.observer = self.reached
        self.inner.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.inner.abort(messages, batchId)

    def _interrupted(self, iterator: Iterator[Any]) -> Iterator[Any]:
        for batch in iterator:
            yield batch
            self.reached(MID_WRITE)

    def reached(self, moment: str) -> None:
        """Kill here if this is the moment, once: whoever takes the file away is the one that does it.

        The file has the moment and who dies, in this order: `java` is the JVM above, that of an executor in
        a task and of the driver in a commit, `self` this process, a number any other.
        """
        path = Path(self.kill_file)
        try:
            wanted, *victims = path.read_text().split()
            if wanted != moment:
                return
            path.rename(f"{path}.{os.getpid()}")
        except (FileNotFoundError, ValueError):
            return
        for victim in victims:
            named = {"java": java_above, "self": os.getpid}.get(victim)
            os.kill(int(victim) if named is None else named(), signal.SIGKILL)


def java_above() -> int:
    """The JVM that started this process, by way of a daemon."""
    pid = os.getppid()
    while "java" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert pid > 1, "no JVM above this process"
    return pid

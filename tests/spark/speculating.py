"""A Spark application whose first attempt at a task is slow, so that Spark runs a second one beside it.

`python -m tests.spark.speculating CONFIG` makes the writes that the configuration names, one after the other.
Attempts leave files in a folder; the slow one goes on when its write is committed, whatever Spark has
told it by then.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from everlog.spark.session import session
from everlog.spark.source.data_source import EverlogDataSource
from tests.spark.local_settings import local_settings

FORMAT = "everlog_slow"
PATIENCE_S = 60.0
ROWS = 20
"""In two partitions."""
COMMITTED = "committed"
SLOW = "0-0"
"""Partition and attempt."""
WAITS = f"{SLOW}.waits"


class SlowSink(EverlogDataSource):
    """The format `everlog`; the first attempt at partition 0 waits at the point that `slowAt` names."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return SlowWriter(super().writer(schema, overwrite), self._slowness())

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        return SlowStreamWriter(super().streamWriter(schema, overwrite), self._slowness())

    def _slowness(self) -> "Slowness":
        return Slowness(self.options["slowAt"], self.options["slowFolder"])


@dataclass(frozen=True, slots=True)
class Slowness:
    """Where an attempt waits: at the `begin`, in the `middle` of its rows, or at the `end`."""

    at: str
    folder: str

    def write(self, inner: Any, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Have the sink write the rows, and leave notes of how it went."""
        context = TaskContext.get()
        assert context is not None
        name = f"{context.partitionId()}-{context.attemptNumber()}"
        self._note(f"{name}.began")
        # All of them now: what Spark does with a task that it gives up must not help us.
        batches = list(iterator)
        slow = name == SLOW
        if context.partitionId() == 0 and not slow:
            # It may be here before the one that it is to overtake.
            wait_for_file(Path(self.folder) / WAITS)
        try:
            if slow and self.at == "begin":
                self._wait()
            found: WriterCommitMessage = inner.write(self._rows(batches, slow=slow))
            if slow and self.at == "end":
                self._wait()
        except BaseException as error:
            self._note(f"{name}.ended", str(error))
            raise
        self._note(f"{name}.ended")
        return found

    def _rows(self, batches: list[Any], *, slow: bool) -> Iterator[Any]:
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            if slow and self.at == "middle":
                self._wait()
            yield batch.slice(half)

    def _wait(self) -> None:
        self._note(WAITS)
        wait_for_file(Path(self.folder) / COMMITTED)
        self._note(f"{SLOW}.woke")

    def _note(self, name: str, text: str = "") -> None:
        note(Path(self.folder) / name, text)


class SlowWriter(DataSourceArrowWriter):
    """Of a batch query."""

    def __init__(self, inner: Any, slowness: Slowness) -> None:
        self.inner, self.slowness = inner, slowness

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self.slowness.write(self.inner, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.inner.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.inner.abort(messages)


class SlowStreamWriter(DataSourceStreamArrowWriter):
    """Of a streaming query."""

    def __init__(self, inner: Any, slowness: Slowness) -> None:
        self.inner, self.slowness = inner, slowness

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self.slowness.write(self.inner, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.inner.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.inner.abort(messages, batchId)


def note(path: Path, text: str) -> None:
    """Write a file that is whole as soon as it is there."""
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(text)
    fresh.rename(path)


def wait_for_file(path: Path) -> None:
    """Return when it is there."""
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not come")
        time.sleep(0.02)  # A file tells nobody that it is there.


def main(config: dict[str, Any]) -> None:
    """Make all writes; the file `committed` of each has the attempts that had ended by then."""
    folder = Path(config["folder"])
    spark: Any = session("speculating", master=config["master"], settings=_settings(folder))
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(SlowSink)
    for write in config["writes"]:
        place = Path(write["slowFolder"])
        if write["stream"]:
            _stream(spark, config["bootstrap"], write)
        else:
            frame = spark.range(0, ROWS, 1, 2).selectExpr("cast(id AS string) AS value")
            _into_topic(frame.write.mode("append"), config["bootstrap"], write).save()
        ended = sorted(path.stem for path in place.glob("*.ended"))
        note(place / COMMITTED, json.dumps(ended))
        wait_for_file(place / f"{SLOW}.ended")
    spark.stop()


def _stream(spark: Any, bootstrap: str, write: dict[str, Any]) -> None:
    # A source without Python, which has one batch for `availableNow`.
    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=ROWS, numPartitions=2)
    frame = source.load().selectExpr("cast(value AS string) AS value")
    writer = _into_topic(frame.writeStream, bootstrap, write)
    writer = writer.option("checkpointLocation", f"{write['slowFolder']}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)


def _into_topic(writer: Any, bootstrap: str, write: dict[str, Any]) -> Any:
    options = {name: write[name] for name in ("topic", "slowAt", "slowFolder")}
    return writer.format(FORMAT).option("kafka.bootstrap.servers", bootstrap).options(**options)


def _settings(folder: Path) -> dict[str, str]:
    return {
        **local_settings(folder),
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "100ms",
        # A Python that Spark has given up goes on, as on a machine that does not hear of it.
        "spark.python.task.killTimeout": "600s",
    }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

"""Spark's part in a streaming query, in small: a driver, workers and a committer, each a process of its own.

The sink's own code runs in them as it does in Spark's, called in the same order: a batch is noted in the
checkpoint, its tasks run and are tried again when they die, the driver commits, notes that it is done, and
begins again from the checkpoint after any failure. There is no JVM, so that hundreds of kills take minutes.
"""

import json
import multiprocessing
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from everlog.spark.sink.driver import abort_stream_batch, commit_stream_batch
from everlog.spark.sink.options import SinkOptions
from everlog.spark.sink.producers import BatchPlace
from everlog.spark.sink.task import TaskOutcome, write_rows
from tests.spark.kills.sinks import row

TASKS = 2
ATTEMPTS = 4
ROWS_PER_BATCH = 40
pa: Any = import_module("pyarrow")  # Once, before the processes are made.
_forks: Any = multiprocessing.get_context("fork")


class Died(Exception):
    """A process ended without an answer."""


class Failed(Exception):
    """What a process was asked for has failed."""


class Helper:
    """A process that does one thing after another, as Spark's Python processes do."""

    def __init__(self) -> None:
        self.near, far = _forks.Pipe()
        self.process = _forks.Process(target=_serve, args=(far, self.near), daemon=True)
        self.process.start()
        far.close()

    def ask(self, *work: Any) -> None:
        """Have it do something; the answer comes through `near`."""
        try:
            self.near.send(work)
        except OSError:
            pass  # It is dead, which shows when the answer is waited for.

    def answer(self) -> Any:
        """What came of it; Died or Failed if nothing did."""
        try:
            done, result = self.near.recv()
        except (EOFError, OSError):
            self.end()
            raise Died from None
        if not done:
            raise Failed(result)
        return result

    def end(self) -> None:
        """Part with it, for it is dead."""
        self.near.close()
        self.process.kill()
        self.process.join()

    def abandon(self) -> None:
        """Let it finish what it does, and listen no more: a task that nobody waits for."""
        self.near.close()


def _serve(far: Connection, near: Connection) -> None:
    near.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            what, *arguments = far.recv()
        except (EOFError, OSError):
            os._exit(0)  # The driver is gone; whatever is open stays so, as with a process of Spark's.
        try:
            far.send((True, _WORK[what](*arguments)))
        except OSError:
            os._exit(1)
        except Exception as error:  # noqa: BLE001  # it is the driver that fails
            far.send((False, repr(error)))


def _task(options: SinkOptions, place: BatchPlace, rows: list[str]) -> TaskOutcome:
    halves = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    batches = [pa.record_batch({"value": pa.array(half, pa.string())}) for half in halves]
    return write_rows(options, place, ["value"], batches)


_WORK: dict[str, Callable[..., object]] = {
    "task": _task,
    "commit": commit_stream_batch,
    "abort": abort_stream_batch,
}


class SmallDriver:
    """A driver with its checkpoint."""

    def __init__(self, config: dict[str, str]) -> None:
        self._folder = Path(config["folder"])
        self._checkpoint = self._folder / "checkpoint"
        for name in ("offsets", "commits"):
            (self._checkpoint / name).mkdir(parents=True, exist_ok=True)
        self._query = _kept(self._checkpoint / "metadata", str(uuid.uuid4()))
        self._options = SinkOptions.read(
            {
                "kafka.bootstrap.servers": config["bootstrap"],
                "topic": "output",
                "commitGroup": "kills",
                "checkpointLocation": str(self._checkpoint),
                "kafka.request.timeout.ms": "5000",
            }
        )
        self._fed = self._folder / "fed"
        self._lost = int(config.get("lose_row", -1))
        self._workers = [Helper() for _ in range(TASKS)]
        self._committer = Helper()

    def run(self) -> None:
        """Run the query until it fails."""
        run = uuid.uuid4().hex
        while True:
            done = len(list((self._checkpoint / "commits").iterdir()))
            rows = self._rows(done)
            if rows:
                self._run_batch(run, done, rows)
            else:
                time.sleep(0.01)

    def _rows(self, batch: int) -> list[str]:
        """The rows of a batch, the same each time: how many there are is noted before they are used."""
        start = batch * ROWS_PER_BATCH
        fed = int(self._fed.read_text())
        if fed < start + ROWS_PER_BATCH:
            return []
        end = start + ROWS_PER_BATCH
        _kept(self._checkpoint / "offsets" / str(batch), f'v1\n{{}}\n{{"input":{{"0":{end}}}}}')
        return [row(number)[1].decode() for number in range(start, end) if number != self._lost]

    def _run_batch(self, run: str, batch: int, rows: list[str]) -> None:
        place = BatchPlace(self._query, run, batch)
        outcomes: list[TaskOutcome | None] = [None] * TASKS
        try:
            self._run_tasks(place, rows, outcomes)
            self._committer.ask("commit", self._options, outcomes, batch)
            self._answered()
        except (Died, Failed):
            finished = [one for one in outcomes if one is not None]
            self._committer.ask("abort", self._options, finished, batch)
            self._answered()
            raise
        _kept(self._checkpoint / "commits" / str(batch), "")

    def _run_tasks(self, place: BatchPlace, rows: list[str], outcomes: list[TaskOutcome | None]) -> None:
        attempts = [0] * TASKS

        def begin(task: int) -> None:
            attempts[task] += 1
            self._workers[task].ask("task", self._options, place, rows[task::TASKS])

        left = set(range(TASKS))
        for task in left:
            begin(task)
        try:
            while left:
                ready = wait([self._workers[task].near for task in left])
                for task in [one for one in left if self._workers[one].near in ready]:
                    try:
                        outcomes[task] = self._workers[task].answer()
                        left.remove(task)
                    except (Died, Failed) as error:
                        if isinstance(error, Died):
                            self._workers[task] = Helper()
                        if attempts[task] >= ATTEMPTS:
                            left.remove(task)
                            raise
                        begin(task)
        finally:
            for task in left:
                # Its answer must not be taken for that of a later task.
                self._workers[task].abandon()
                self._workers[task] = Helper()

    def _answered(self) -> None:
        try:
            self._committer.answer()
        except Died:
            self._committer = Helper()
            raise


def _kept(path: Path, content: str) -> str:
    """What a file has, or gets if it is not there, as a whole."""
    if not path.exists():
        fresh = path.parent.parent / f"{path.name}.new"
        fresh.write_text(content)
        fresh.rename(path)
    return path.read_text()


def main(config: dict[str, str]) -> None:
    """Run until killed, beginning again whenever the query fails."""
    driver, failures = SmallDriver(config), 0
    folder = Path(config["folder"])
    _kept(folder / "driver.json", json.dumps({"python": os.getpid(), "jvm": os.getpid()}))
    while True:
        try:
            driver.run()
        except (Died, Failed) as error:
            failures += 1
            print(f"failure {failures}: {error!r}", flush=True)
            (folder / "failure.json").write_text(json.dumps({"failures": failures}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

"""Spark's part in a query into a table, in small: tasks and a committer, each a process of its own, no JVM.

The sink's own code runs in them, called in the order in which Spark calls it: a batch is noted in the
checkpoint, its tasks run, the committer commits or aborts, the batch is noted as done; after any failure the
same batch is run again. So hundreds of kills take minutes.
"""

import json
import multiprocessing
import os
import pickle
import random
import signal
import uuid
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from everlog.spark.table.options import read_options, spec_for_reading
from everlog.spark.table.writing import Target, abort, commit, stage
from everlog.tables import steps
from everlog.tables.rows import record_schema
from everlog.tables.staging import Staged
from everlog.tables.table import open_table
from tests.spark.kills_table.killing import COMMIT_MOMENTS, MID_WRITE, WORKER_MOMENTS

KEYS = 37
TASKS = 2
ROWS = 40
"""Of each task of a batch."""
MOST_SECONDS = 120.0

pa: Any = import_module("pyarrow")
# Before processes are forked: each needs them, and a runtime of Rust's must not be forked once it runs.
import_module("deltalake")
import_module("pyiceberg.catalog.sql")
_forks: Any = multiprocessing.get_context("fork")


class SmallQuery:
    """A query with its checkpoint, into a table of some format; `rows` tell no offsets."""

    def __init__(self, folder: Path, table_format: str, mode: str, lose_row: int | None = None) -> None:
        self._lost = lose_row
        self.name = f"{table_format} {mode}"
        self._checkpoint = folder / f"checkpoint-{table_format}-{mode}"
        (self._checkpoint / "offsets").mkdir(parents=True)
        self._outbox = folder / f"outbox-{table_format}-{mode}"
        self._outbox.mkdir()
        self._query = str(uuid.uuid4())
        self._rows = mode == "rows"
        self._upsert = mode == "upsert"
        options = {
            "path": str(folder / "lake" / f"{table_format}_{mode}"),
            "tableFormat": table_format,
            "mode": "upsert" if self._upsert else "append",
            "schema": "id long, key long",
        }
        spec = spec_for_reading(read_options(options | ({"keys": "key"} if self._upsert else {})))
        self.target = Target(spec, not self._rows, str(self._checkpoint))
        self.done = 0
        """Batches that are noted as done."""
        assert self._in_a_process(lambda: open_table(spec) and None, None)

    def run_batch(self, kill: tuple[str, str] | None, chance: random.Random) -> bool:
        """Run the next batch, with the death of somebody; whether it is noted as done.

        `kill` is who dies, `worker`, `committer` or `driver`, and at which moment, or `at random`. A
        committer's death is told to the sink by an abort; a driver's is not.
        """
        batch = self.done
        end = (batch + 1) * ROWS
        offsets = json.dumps({"t": {str(task): end for task in range(TASKS)}})
        (self._checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offsets}")
        staged: list[Staged | None] = []
        victim = chance.randrange(TASKS)
        for task in range(TASKS):
            path = self._outbox / f"{batch}-{task}"
            path.unlink(missing_ok=True)
            deadly = kill if kill is not None and kill[0] == "worker" and task == victim else None
            self._in_a_process(partial(self._task, batch, task, path), deadly, chance)
            staged.append(pickle.loads(path.read_bytes()) if path.exists() else None)
        done = False
        if all(each is not None for each in staged):
            deadly = kill if kill is not None and kill[0] != "worker" else None
            whole = [each for each in staged if each is not None]
            done = self._in_a_process(lambda: self._commit(batch, whole), deadly, chance)
            if not done and kill is not None and kill[0] == "driver":
                return False
        if not done:
            assert self._in_a_process(lambda: self._abort(staged), None)
            return False
        self.done += 1
        return True

    def problem(self) -> str | None:
        """What is wrong with the table, given the batches that are done; None if each row is there once."""
        path = self._outbox / "problem"
        path.unlink(missing_ok=True)
        assert self._in_a_process(lambda: self._check(path), None)
        return path.read_text() or None

    def _task(self, batch: int, task: int, path: Path) -> None:
        written = stage(self.target, _interrupted(self._batches(batch, task)), self._query, batch)
        fresh = path.with_suffix(".new")
        fresh.write_bytes(pickle.dumps(written))
        fresh.rename(path)

    def _commit(self, batch: int, staged: list[Staged]) -> None:
        commit(self.target, self._query, batch, staged)

    def _abort(self, staged: list[Staged | None]) -> None:
        abort(self.target, staged)

    def _batches(self, batch: int, task: int) -> list[Any]:
        """The rows of a task, in two pieces: ids grow, keys come back."""
        offsets = [
            offset
            for offset in range(batch * ROWS, (batch + 1) * ROWS)
            if _row(task, offset)["id"] != self._lost
        ]
        halves = [offsets[: ROWS // 2], offsets[ROWS // 2 :]]
        if self._rows:
            return [
                pa.RecordBatch.from_pylist([_row(task, offset) for offset in half], pa.schema(_COLUMNS))
                for half in halves
            ]
        return [
            pa.RecordBatch.from_pylist([_record(task, offset) for offset in half], record_schema())
            for half in halves
        ]

    def _check(self, path: Path) -> None:
        rows = open_table(self.target.spec, create=False).read(["id", "key"]).to_pylist()
        fed = [_row(task, offset) for offset in range(self.done * ROWS) for task in range(TASKS)]
        said = ""
        if self._upsert:
            expected = {row["key"]: row["id"] for row in fed}
            found = {row["key"]: row["id"] for row in rows}
            if len(rows) != len(expected) or found != expected:
                wrong = sorted(key for key in expected if found.get(key) != expected[key])
                said = f"{self.name}: {len(rows)} rows for {len(expected)} keys, wrong are {wrong[:5]}"
        else:
            counts = Counter(row["id"] for row in rows)
            expected = Counter(row["id"] for row in fed)
            if counts != expected:
                said = (
                    f"{self.name}: {(expected - counts).total()} missing, {(counts - expected).total()} twice"
                )
        path.write_text(said)

    def _in_a_process(
        self, work: Callable[[], Any], kill: tuple[str, str] | None, chance: random.Random | None = None
    ) -> bool:
        """Do something in a process of its own, which may die; whether it lived to the end."""

        def main() -> None:
            if kill is not None and kill[1] != "at random":
                steps.observer = _dying_at(kill[1])
            work()

        process = _forks.Process(target=main)
        process.start()
        if kill is not None and kill[1] == "at random" and chance is not None:
            process.join(chance.uniform(0.0, 0.12))
            process.kill()
        process.join(MOST_SECONDS)
        assert process.exitcode in (0, -signal.SIGKILL), (
            f"{self.name}: a process ended with {process.exitcode}"
        )
        return bool(process.exitcode == 0)


_COLUMNS = {"id": pa.int64(), "key": pa.int64()}


def _row(task: int, offset: int) -> dict[str, int]:
    # Keys of one task are no keys of another's, as those of a partition are none of another's.
    return {"id": offset * TASKS + task, "key": (offset * 7 % KEYS) * TASKS + task}


def _record(task: int, offset: int) -> dict[str, Any]:
    value = json.dumps(_row(task, offset)).encode()
    return {
        "topic": "t",
        "partition": task,
        "offset": offset,
        "timestamp": offset,
        "key": b"",
        "value": value,
    }


def _interrupted(batches: list[Any]) -> Any:
    for batch in batches:
        yield batch
        if steps.observer is not None:
            steps.observer(MID_WRITE)


def _dying_at(moment: str) -> Callable[[str], None]:
    def reached(step: str) -> None:
        if step == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


KINDS = (
    *(("worker", moment) for moment in WORKER_MOMENTS),
    ("worker", "at random"),
    *(("committer", moment) for moment in COMMIT_MOMENTS),
    ("committer", "at random"),
    *(("driver", moment) for moment in COMMIT_MOMENTS),
    ("driver", "at random"),
)
TABLES = tuple(
    (table_format, mode)
    for mode in ("append", "rows", "upsert")
    for table_format in ("parquet", "iceberg", "delta")
)


def run_small(
    folder: Path, wanted: int, seed: int, *, lose_row: int | None = None
) -> tuple[list[str], "Counter[str]"]:
    """Kill so often; returns what is wrong with the tables, and how often each kind of death was died.

    A row can be dropped on purpose, to see that it is missed.
    """
    chance = random.Random(seed)
    queries = [SmallQuery(folder, *table, lose_row) for table in TABLES]
    kills: Counter[str] = Counter()
    problems: list[str] = []
    turn = 0
    while kills.total() < wanted and turn < 4 * wanted:
        query, kill = queries[turn % len(queries)], chance.choice(KINDS)
        turn += 1
        if not query.run_batch(kill, chance):
            kills[f"{kill[0]} {kill[1]}"] += 1
    for query in queries:
        assert query.run_batch(None, chance)
        problem = query.problem()
        problems += [] if problem is None else [problem]
    return problems, kills

"""What is killed: a process that writes a table, a topic to a table, or a table to a topic, until it dies.

It dies by SIGKILL at the n-th time it comes by a step, or whenever the test kills it.
"""

import itertools
import json
import os
import signal
from datetime import timedelta
from typing import Any

from everlog.tables import steps
from everlog.tables.back import send_back
from everlog.tables.materialize import Pace, materialize
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table
from tests.tables.builders import Record, order, records

BATCH = 5
MAX_BATCHES = 60


def log_of(batch: int, mode: str) -> list[Record]:
    """The records of a batch: always the same."""
    return [
        (
            offset,
            # Batches of new keys leave files for compaction, the others replace rows in them.
            b"u%d" % offset if batch % 2 else b"k%d" % (offset * 7 % 13),
            None if mode == "upsert" and offset % 4 == 3 else order(offset),
        )
        for offset in range(batch * BATCH, batch * BATCH + BATCH)
    ]


def arm(step: str | None, times: int) -> None:
    """Die at a step."""
    if step is None:
        return
    left = itertools.count(times - 1, -1)

    def die(reached: str) -> None:
        if reached == step and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    steps.observer = die


def write_batches(spec: str, step: str | None, times: int, started: Any, last: int | None = None) -> None:
    """Commit batch after batch from where the table is, with upkeep in between."""
    table = open_table(TableSpec.parse(spec), create=False)
    arm(step, times)
    started.set()
    done = table.last_batch("q")
    first = 0 if done is None else done + 1
    for batch in range(first, first + MAX_BATCHES if last is None else last + 1):
        table.commit("q", batch, [table.stage([records(log_of(batch, table.spec.mode))])])
        if batch % 3 == 2:
            table.compact()
        if batch % 4 == 3:
            table.expire(timedelta(0), 1, timedelta(hours=1))


def run_materializer(spec: str, step: str | None, times: int, started: Any) -> None:
    """Bring a table up to the end of its topic, in small batches."""
    arm(step, times)
    started.set()
    materialize(TableSpec.parse(spec), Pace(until_end=True, batch_bytes=1500))


def run_back(spec: str, step: str | None, times: int, started: Any, topic: str) -> None:
    """Send a table to a topic, in small transactions."""
    arm(step, times)
    started.set()
    send_back(TableSpec.parse(spec), topic, key=["id"], batch_rows=20)


def dumped(spec: TableSpec) -> str:
    """A spec as the child takes it."""
    return json.dumps(spec.to_dict())

"""Writers killed with SIGKILL at every step, and at random moments: no row is lost, none is there twice.

`EVERLOG_TABLE_KILLS=200 pytest tests/tables/test_crash.py` kills so often for each format and mode.
"""

import multiprocessing
import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everlog import Producer, TopicPartition
from everlog.client.core.dead_letters import read_dead_letter
from everlog.tables.spec import FORMATS, TableSpec
from everlog.tables.table import Table, open_table
from tests.tables import crash_child
from tests.tables.builders import a_spec, ids, order, read_all, records, state
from tests.tables.crash_child import BATCH, dumped, log_of

KILLS = int(os.environ.get("EVERLOG_TABLE_KILLS", "0"))
WAIT_S = 120.0

COMMIT_STEPS = ("staged", "commit-planned", "commit-made", "upkeep-written", "upkeep-made", "upkeep-removing")
LINK_STEPS = ("commit-drafted", "commit-linked")

# Children are forked from a server that has everything imported and no thread started.
_context: Any = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.tables.crash_child", "pyiceberg.catalog.sql", "deltalake"])


def run_child(
    target: Callable[..., None],
    spec: TableSpec,
    step: str | None,
    times: int,
    *more: Any,
    kill_after_s: float | None = None,
) -> int:
    """Run a child until it is done or dead; returns its exit code."""
    started = _context.Event()
    child = _context.Process(target=target, args=(dumped(spec), step, times, started, *more))
    child.start()
    assert started.wait(WAIT_S)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        child.kill()
    child.join(WAIT_S)
    assert child.exitcode is not None
    return int(child.exitcode)


def check(table: Table, last: int | None) -> None:
    """The table holds the batches up to the last, whole, once."""
    log = [
        record
        for batch in range(0 if last is None else last + 1)
        for record in log_of(batch, table.spec.mode)
    ]
    if table.spec.mode == "append":
        assert ids(table) == [offset for offset, _, _ in log]
        return
    expected: dict[bytes, int] = {}
    for offset, key, value in log:
        assert key is not None
        if value is None:
            expected.pop(key, None)
        else:
            expected[key] = offset
    assert state(table) == expected


def plan(format_: str, mode: str) -> list[tuple[str | None, int]]:
    """Where to kill: half of the steps and a random moment, or as often as asked for, a third at random."""
    steps = [*COMMIT_STEPS, *(LINK_STEPS if format_ == "parquet" else ())]
    chance = random.Random(f"{format_}-{mode}")
    if KILLS == 0:
        # The two modes of a format take every other step; together they take all.
        return [*((step, 2) for step in steps[mode == "upsert" :: 2]), (None, 0)]
    every: list[tuple[str | None, int]] = [(step, chance.randint(1, 4)) for step in steps]
    while len(every) < KILLS:
        every.append((None, 0) if chance.random() < 0.34 else (chance.choice(steps), chance.randint(1, 4)))
    return every


@pytest.mark.e2e
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.timeout(300 if not KILLS else 60 + 20 * KILLS)
def test_a_killed_writer_leaves_whole_batches_only(tmp_path: Path, format_: Any, mode: Any) -> None:
    spec = a_spec(tmp_path, format=format_, mode=mode)
    table = open_table(spec)
    chance = random.Random(1)
    reached: list[int | None] = [None]
    for step, times in plan(format_, mode):
        after = None if step is not None else chance.uniform(0.0, 0.6)
        code = run_child(crash_child.write_batches, spec, step, times, kill_after_s=after)
        assert code == -9 or step is None, (step, code)
        last = table.last_batch("q")
        check(table, last)
        reached.append(last)

    end = (reached[-1] or 0) + 3
    assert run_child(crash_child.write_batches, spec, None, 0, end) == 0
    assert table.last_batch("q") == end
    check(table, end)
    assert table.offsets() == {TopicPartition("orders", 0): (end + 1) * BATCH}
    table.expire(timedelta(0), 1, timedelta(0))
    left = {str(path) for path in Path(spec.location).rglob("*.parquet") if "_delta_log" not in path.parts}
    assert left == set(table.files())
    check(table, end)
    print(f"{format_} {mode}: {len(reached) - 1} kills, {end + 1} batches")


def _feed(bootstrap: str, topic: str, numbers: range) -> None:
    """Add records, every ninth of them unreadable, in small batches of the log: so many are of the table."""
    with Producer(bootstrap) as producer:
        for n in numbers:
            producer.send(topic, b"oops %d" % n if n % 9 == 4 else order(n), partition=n % 2)
            if n % 10 == 9:
                producer.flush()


MATERIALIZE_STEPS = (
    "letters-sent",
    "commit-planned",
    "letters-committed",
    "commit-made",
    "group-committed",
    "staged",
)


@pytest.mark.e2e
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.timeout(300 if not KILLS else 60 + 20 * KILLS)
def test_a_killed_materializer_loses_nothing_and_repeats_nothing(
    tmp_path: Path, everlog_bootstrap: str, new_topic: Callable[..., str], format_: Any
) -> None:
    topic = new_topic(2)
    kills = KILLS or 2
    name = f"o-{format_}-{topic}"
    spec = a_spec(
        tmp_path,
        name=name,
        topic=topic,
        format=format_,
        bootstrap=everlog_bootstrap,
        dead_letter_topic=f"{topic}.dlq",
        properties={"iceberg.namespace": "crash"},
    )
    spec = replace(spec, location=str(tmp_path / name))
    table = open_table(spec)
    chance = random.Random(format_)
    # By turns, so that the formats together take all steps.
    turn = FORMATS.index(format_) * 2
    killed = 0
    count = 0
    for n in range(kills):
        # Whoever is to die at a step has something to do, however far the one before has come.
        _feed(everlog_bootstrap, topic, range(count, count + 100))
        count += 100
        step = MATERIALIZE_STEPS[(turn + n) % len(MATERIALIZE_STEPS)] if n % 3 != 2 else None
        after = None if step is not None else chance.uniform(0.0, 0.5)
        code = run_child(crash_child.run_materializer, spec, step, chance.randint(1, 2), kill_after_s=after)
        assert code == -9 or step is None, (step, code)
        killed += code == -9
        found = ids(table)
        assert len(found) == len(set(found))

    assert run_child(crash_child.run_materializer, spec, None, 0) == 0
    assert ids(table) == [n for n in range(count) if n % 9 != 4]
    letters = read_all(everlog_bootstrap, f"{topic}.dlq")
    assert sorted(int(letter.value.split()[1]) for letter in letters) == [
        n for n in range(count) if n % 9 == 4
    ]
    told = read_dead_letter(letters[0])
    assert told is not None
    assert (told.topic, told.error) == (topic, "everlog.tables.errors.Unreadable")
    print(f"{format_}: materializer killed {killed} times")


@pytest.mark.e2e
def test_a_killed_way_back_sends_each_row_once(
    tmp_path: Path, everlog_bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    spec = a_spec(tmp_path, name=f"back-{topic}", bootstrap=everlog_bootstrap)
    table = open_table(spec)
    for batch in range(8):
        staged = table.stage([records(log_of(batch * 4 + n, "append")) for n in range(4)])
        table.commit("q", batch, [staged])
    for step in ("back-sent", "back-committed"):
        assert run_child(crash_child.run_back, spec, step, 2, topic) == -9
        # The table goes on meanwhile; the commit that was begun is finished first.
        batch = (table.last_batch("q") or 0) + 1
        table.commit("q", batch, [table.stage([records(log_of(batch * 4, "append"))])])

    for _ in range(2):
        assert run_child(crash_child.run_back, spec, None, 0, topic) == 0

    numbers = sorted(int(record.key) for record in read_all(everlog_bootstrap, topic))
    assert numbers == ids(table)

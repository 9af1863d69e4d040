"""Compaction and expiry: nothing that is needed goes, nothing that is not needed stays."""

import os
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everlog.model.topics import TopicPartition
from everlog.tables import steps
from everlog.tables.results import Compacted
from everlog.tables.spec import MODES, TableSpec
from everlog.tables.table import open_table
from tests.tables.builders import a_spec, ids, order, orders, records, state

NOW = timedelta(0)


def parquet_files(spec: TableSpec) -> set[str]:
    found = Path(spec.location).rglob("*.parquet")
    return {str(path) for path in found if "_delta_log" not in path.parts}


def test_compaction_makes_one_file_of_many_and_changes_no_row(spec: TableSpec) -> None:
    table = open_table(spec)
    for batch in range(6):
        table.commit("q", batch, [table.stage([orders([batch])])])

    assert table.compact() == Compacted(6, 1, 6)
    assert table.compact() == Compacted(0, 0, 0)
    assert (ids(table), len(table.files())) == (list(range(6)), 1)
    assert table.last_batch("q") == 5
    assert table.history()[-1].operation == "compact"
    table.commit("q", 6, [table.stage([orders([6])])])
    assert ids(table) == list(range(7))


def test_large_files_are_left_alone_and_new_ones_cut_at_the_target(spec: TableSpec) -> None:
    table = open_table(replace(spec, properties={"file.target_bytes": "20000"}))
    rows = [(n, b"k%d" % n, order(n, os.urandom(40).hex())) for n in range(1000)]

    table.commit("q", 0, [table.stage([records(rows)])])

    before = set(table.files())
    assert len(before) > 3
    table.compact()
    sizes = {path: os.path.getsize(path) for path in before}
    assert {path for path, size in sizes.items() if size >= 10_000} <= set(table.files())
    assert ids(table) == list(range(1000))


@pytest.mark.parametrize("mode", MODES)
def test_a_writer_may_commit_while_files_are_compacted(spec: TableSpec, mode: Any) -> None:
    spec = replace(spec, mode=mode)
    table, rival = open_table(spec), open_table(spec)
    for batch in range(3):
        table.commit("q", batch, [table.stage([orders([batch])])])
    done: list[int] = []

    def interfere(step: str) -> None:
        if step == "upkeep-written" and not done:
            done.append(1)
            # In upsert mode this replaces a row of a file that was just rewritten.
            change = records([(10, b"k1", order(10)), (11, b"k9", order(11))])
            rival.commit("r", 0, [rival.stage([change])])

    steps.observer = interfere
    try:
        table.compact()
    finally:
        steps.observer = None

    assert done
    assert ids(table) == ([0, 1, 2, 10, 11] if mode == "append" else [0, 2, 10, 11])
    assert (table.last_batch("q"), table.last_batch("r")) == (2, 0)


def test_compaction_stays_within_partitions(spec: TableSpec) -> None:
    table = open_table(replace(spec, partition_by=("item",)))
    for batch in range(4):
        rows = [(batch * 2 + n, b"k", order(batch * 2 + n, item)) for n, item in enumerate(("tea", "rum"))]
        table.commit("q", batch, [table.stage([records(rows)])])

    assert table.compact() == Compacted(8, 2, 8)
    assert ids(table) == list(range(8))


def test_expiry_removes_what_no_commit_needs_and_nothing_else(spec: TableSpec) -> None:
    table = open_table(spec)
    for batch in range(4):
        table.commit("q", batch, [table.stage([orders([batch])])])
    old = parquet_files(spec)
    table.compact()
    table.commit("q", 4, [table.stage([orders([4])])])

    expired = table.expire(NOW, keep=1)

    assert expired.files >= 4
    assert not old & parquet_files(spec)
    assert parquet_files(spec) == set(table.files())
    assert ids(open_table(spec, create=False)) == list(range(5))
    assert table.last_batch("q") == 4
    table.commit("q", 5, [table.stage([orders([5])])])
    assert ids(table) == list(range(6))
    table.expire(NOW, keep=0)
    assert ids(table) == list(range(6))


def test_commits_that_are_kept_keep_their_files(spec: TableSpec) -> None:
    table = open_table(spec)
    for batch in range(3):
        table.commit("q", batch, [table.stage([orders([batch])])])
    versions = [commit.version for commit in table.history()][-2:]
    old = parquet_files(spec)
    table.compact()

    table.expire(NOW, keep=3)
    assert old <= parquet_files(spec)
    table.expire(timedelta(days=1), keep=1)
    assert old <= parquet_files(spec)
    for version in versions:
        assert (
            sum(part.num_rows for part in table.rows_of(version, open_table(spec).coverage_of(version))) == 0
        )
    assert ids(table) == [0, 1, 2]


def test_orphans_go_when_they_are_old_and_staged_files_stay_until_then(spec: TableSpec) -> None:
    for mode in ("append", "upsert"):
        mine = replace(spec, name=f"o-{mode}", location=f"{spec.location}-{mode}", mode=mode)
        table = open_table(mine)
        table.commit("q", 0, [table.stage([orders([0])])])
        table.stage([orders([1]), records([(2, b"k", b"oops")])])
        orphans = parquet_files(mine) - set(table.files())
        assert orphans
        waiting = table.stage([orders([3])])

        assert table.expire(NOW, keep=1).files == 0
        long_ago = time.time() - 3 * 86_400
        for path in orphans:
            os.utime(path, (long_ago, long_ago))
        assert table.expire(NOW, keep=1).files == len(orphans)

        assert not orphans & parquet_files(mine)
        table.commit("q", 1, [waiting])
        assert ids(table) == [0, 3]


def test_the_memory_of_deletions_survives_expiry(spec: TableSpec) -> None:
    table = open_table(replace(spec, mode="upsert"))
    table.commit("late", 0, [table.stage([records([(10, b"a", None), (11, b"b", order(11))])])])
    table.commit("late", 1, [table.stage([records([(12, b"c", None)])])])

    table.expire(NOW, keep=1, orphans_after=NOW)
    table.commit(
        "early", 0, [table.stage([records([(n, key, order(n)) for n, key in enumerate((b"a", b"c"))])])]
    )

    assert state(table) == {b"b": 11}


@pytest.mark.parametrize("spec", ["iceberg", "delta"], indirect=True)
def test_a_commit_by_another_tool_does_not_make_the_table_forget(spec: TableSpec) -> None:
    """Delta and Iceberg tables may be written by others, too; ours goes on from its own last commit."""
    table = open_table(spec)
    table.commit("q", 3, [table.stage([orders([0])])])
    foreign = table.read().slice(0, 1)
    if spec.format == "delta":
        import deltalake

        deltalake.write_deltalake(spec.location, foreign, mode="append")
    else:
        table._store.load().native.table.append(foreign)  # pyright: ignore[reportPrivateUsage] -- pyiceberg's

    assert table.last_batch("q") == 3
    assert ids(table) == [0, 0]
    table.commit("q", 4, [table.stage([orders([1])])])
    assert ids(table) == [0, 0, 1]


def test_a_table_is_tidied_up_when_it_needs_it(spec: TableSpec) -> None:
    table = open_table(spec)
    for batch in range(4):
        table.commit("q", batch, [table.stage([orders([batch])])])

    assert table.keep_tidy(small_files=5) is None
    assert table.keep_tidy(small_files=4) == Compacted(4, 1, 4)
    assert ids(table) == list(range(4))


def test_delta_may_drop_its_log_and_the_table_remembers(tmp_path: Path) -> None:
    import deltalake

    spec = a_spec(tmp_path, format="delta")
    table = open_table(spec)
    table.commit("q", 7, [table.stage([orders([0, 1])])])
    found = deltalake.DeltaTable(spec.location)
    found.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    assert len(table.history()) == 3

    table.expire(NOW, keep=1)

    assert len(table.history()) < 3
    assert table.last_batch("q") == 7
    assert table.offsets() == {TopicPartition("orders", 0): 2}
    assert ids(table) == [0, 1]

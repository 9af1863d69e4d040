"""A batch is in a table once, or not at all: each format, on real files."""

import pickle
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everlog.model.topics import TopicPartition
from everlog.tables import directory as directories
from everlog.tables import steps
from everlog.tables.errors import NoSuchTable, SchemaConflict, StagedLost
from everlog.tables.offsets import OffsetRanges
from everlog.tables.results import Already, Committed
from everlog.tables.spec import TableSpec
from everlog.tables.table import drop_table, open_table
from tests.tables.builders import a_spec, ids, order, orders, records

PLACE = TopicPartition("orders", 0)


def test_a_batch_that_comes_again_is_there_already(spec: TableSpec) -> None:
    table = open_table(spec)
    staged = pickle.loads(pickle.dumps(table.stage([orders(range(10))])))

    assert ids(table) == []
    assert isinstance(table.commit("query", 0, [staged]), Committed)
    assert table.commit("query", 0, [staged]) == Already(0)
    assert table.commit("query", 0, [table.stage([orders(range(10))])]) == Already(0)
    assert ids(table) == list(range(10))
    assert (table.last_batch("query"), table.last_batch("other")) == (0, None)


def test_a_place_is_the_same_as_a_path_and_as_a_uri(spec: TableSpec, tmp_path: Path) -> None:
    home = tmp_path / "my pröject"
    by_path = open_table(replace(spec, location=str(home / "orders")))
    by_path.commit("query", 0, [by_path.stage([orders(range(3))])])

    by_uri = open_table(replace(spec, location=f"file://{home}/orders"), create=False)
    by_uri.commit("query", 1, [by_uri.stage([orders(range(3, 6))])])

    assert ids(by_path) == ids(by_uri) == list(range(6))
    assert by_uri.compact() is not None
    assert ids(by_path) == list(range(6))
    assert [path.name for path in tmp_path.iterdir()] == ["my pröject"]


def test_all_tasks_of_a_batch_are_one_commit(spec: TableSpec) -> None:
    table = open_table(spec)
    workers = [open_table(spec, create=False) for _ in range(3)]
    staged = [
        worker.stage([orders(range(n * 5, n * 5 + 5), partition=n)]) for n, worker in enumerate(workers)
    ]

    table.commit("query", 0, staged)

    assert ids(table) == list(range(15))
    (batch,) = (commit for commit in table.history() if commit.operation == "batch")
    assert (batch.writer, batch.batch_id) == ("query", 0)
    assert batch.offsets.dump() == {"orders": {"0": [0, 5], "1": [5, 10], "2": [10, 15]}}
    assert table.offsets() == {TopicPartition("orders", n): n * 5 + 5 for n in range(3)}


def test_a_record_is_there_once_whoever_brings_it(spec: TableSpec) -> None:
    table = open_table(spec)
    table.commit("live", 0, [table.stage([orders(range(10, 20))])])

    made = table.commit("backfill", 0, [table.stage([orders(range(5, 15))])])
    assert isinstance(made, Committed)
    assert made.rows == 5
    table.commit("backfill", 1, [table.stage([orders(range(5))])])

    assert ids(table) == list(range(20))
    assert table.coverage().spans == {PLACE: ((0, 20),)}


def test_offsets_without_rows_are_counted_to_the_batch(spec: TableSpec) -> None:
    table = open_table(spec)
    table.commit("query", 0, [table.stage([orders([0, 1])])])

    # Offsets 2 to 4 were a marker and aborted records.
    table.commit("query", 1, [table.stage([orders([5, 6])])])
    assert table.coverage().spans == {PLACE: ((0, 7),)}
    table.commit("query", 2, [], OffsetRanges.of({PLACE: (7, 9)}))
    assert table.offsets() == {PLACE: 9}
    assert ids(table) == [0, 1, 5, 6]


def test_writers_that_commit_at_once_all_get_in_once(spec: TableSpec) -> None:
    open_table(spec)
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            table = open_table(spec)
            for batch in range(4):
                start = (number * 4 + batch) * 5
                staged = table.stage([orders(range(start, start + 5))])
                table.commit(f"writer-{number}", batch, [staged])
                table.commit(f"writer-{number}", batch, [staged])
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    table = open_table(spec)
    assert ids(table) == list(range(60))
    assert table.coverage().spans == {PLACE: ((0, 60),)}
    assert [table.last_batch(f"writer-{n}") for n in range(3)] == [3, 3, 3]


def test_two_that_commit_the_same_batch_make_one_commit(spec: TableSpec) -> None:
    table = open_table(spec)
    rival = open_table(spec)
    staged = table.stage([orders(range(5))])
    others = rival.stage([orders(range(8))])
    made: list[Committed | Already] = []

    # The rival is quicker, between the plan of the first and its commit.
    def interfere(step: str) -> None:
        if step == "commit-planned" and not made:
            made.append(Committed("", 0))
            made[0] = rival.commit("query", 0, [others])

    steps.observer = interfere
    try:
        late = table.commit("query", 0, [staged])
    finally:
        steps.observer = None

    assert isinstance(made[0], Committed)
    assert late == Already(0)
    assert ids(table) == list(range(8))


def test_a_declaration_that_gains_a_column_widens_the_table(spec: TableSpec) -> None:
    table = open_table(spec)
    table.commit("query", 0, [table.stage([orders(range(3))])])

    wider = open_table(replace(spec, schema="id long, item string, price double"))
    value = b'{"id": 3, "item": "tea", "price": 2.5}'
    wider.commit("query", 1, [wider.stage([records([(3, b"k", value)])])])

    assert wider.last_batch("query") == 1
    assert sorted((row["id"], row["price"]) for row in wider.read(["id", "price"]).to_pylist()) == [
        (0, None),
        (1, None),
        (2, None),
        (3, 2.5),
    ]
    # A worker that still has the narrow declaration writes on.
    table.commit("query", 2, [table.stage([orders([4])])])
    assert ids(wider) == list(range(5))


def test_a_column_of_another_type_is_refused_by_name(spec: TableSpec) -> None:
    open_table(spec)

    for create in (True, False):
        with pytest.raises(
            SchemaConflict, match="column 'id' of table orders is of type int64, declared as string"
        ):
            open_table(replace(spec, schema="id string"), create=create)


def test_partitioned_rows_keep_their_values(spec: TableSpec) -> None:
    partitioned = replace(spec, partition_by=("item",))
    table = open_table(partitioned)
    values = [(n, b"k", order(n, "tea/ä b" if n % 2 else "rum")) for n in range(6)]
    values.append((6, b"k", b'{"id": 6}'))

    staged = table.stage([records(values)])
    table.commit("query", 0, [staged])

    assert len(staged.files) == 3
    assert sorted((row["id"], row["item"]) for row in table.read(["item", "id"]).to_pylist()) == [
        *((n, "tea/ä b" if n % 2 else "rum") for n in range(6)),
        (6, None),
    ]
    assert table.read(["item"]).num_rows == 7
    assert len(table.files()) == 3


@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_a_table_keeps_its_partitions(tmp_path: Path, format_: Any) -> None:
    spec = a_spec(tmp_path, format=format_, partition_by=("item",))
    table = open_table(spec)
    table.commit("query", 0, [table.stage([orders(range(3))])])

    with pytest.raises(
        SchemaConflict, match="table orders is partitioned by item, declared as partitioned by nothing"
    ):
        open_table(replace(spec, partition_by=()))
    # Who only reads declares neither columns nor partitions.
    reader = open_table(replace(spec, partition_by=(), schema=""), create=False)
    assert set(reader.read(["item"])["item"].to_pylist()) == {"pizza"}


def test_types_of_all_kinds_survive(spec: TableSpec) -> None:
    columns = (
        "a int, b double, c boolean, d date, e timestamp, f decimal(9,2), g array<string>, "
        "h struct<x: int, y: string>, i map<string, long>, j binary"
    )
    table = open_table(replace(spec, schema=columns))
    value = (
        b'{"a": 1, "b": 2.5, "c": true, "d": "2024-02-29", "e": "2024-02-29T12:00:00Z", "f": 12.5, '
        b'"g": ["x", null], "h": {"x": 1, "y": "z"}, "i": {"k": 7}, "j": "AAE="}'
    )
    staged = table.stage([records([(0, b"k", value), (1, b"k", b"{}")])])
    assert staged.bad_rows == 0
    table.commit("query", 0, [staged])
    table.commit("query", 1, [table.stage([records([(2, b"k", value)])])])
    table.compact()

    rows = sorted(table.read().to_pylist(), key=lambda row: row["_offset"])
    assert {**rows[0], "_offset": 2, "_timestamp": None} == {**rows[2], "_timestamp": None}
    assert (rows[0]["f"], rows[0]["g"], rows[0]["h"]) == (rows[0]["f"], ["x", None], {"x": 1, "y": "z"})
    assert str(rows[0]["f"]) == "12.50"
    assert dict(rows[0]["i"]) == {"k": 7}
    assert rows[1]["h"] is None


def test_staged_files_that_are_gone_stop_the_commit(spec: TableSpec) -> None:
    for mode in ("append", "upsert"):
        table = open_table(
            replace(spec, name=f"orders-{mode}", location=f"{spec.location}-{mode}", mode=mode)
        )
        staged = table.stage([orders(range(3))])
        folder = directories.Directory(table.spec.location)
        for file in (*staged.files, *staged.changes):
            folder.remove(folder.relative(file.path))

        with pytest.raises(StagedLost, match="is gone"):
            table.commit("query", 0, [staged])
        assert table.last_batch("query") is None


def test_a_table_that_is_not_there_is_named(spec: TableSpec) -> None:
    with pytest.raises(NoSuchTable, match="table orders"):
        open_table(spec, create=False)


def test_a_dropped_table_is_gone_and_can_be_made_anew(spec: TableSpec) -> None:
    table = open_table(spec)
    table.commit("query", 0, [table.stage([orders(range(3))])])

    drop_table(spec)

    with pytest.raises(NoSuchTable):
        open_table(spec, create=False)
    assert not any(Path(spec.location).rglob("*.parquet"))
    assert ids(open_table(spec)) == []


def test_unknown_columns_are_refused(spec: TableSpec) -> None:
    table = open_table(spec)

    with pytest.raises(SchemaConflict, match="column 'topic' is not in table orders"):
        table.write_files([orders(range(3))])


def test_the_description_says_where_the_table_is(spec: TableSpec) -> None:
    table = open_table(spec)
    for batch in range(3):
        table.commit("query", batch, [table.stage([orders([batch])])])

    told = table.describe()

    assert (told.rows, told.files, told.small_files) == (3, 3, 3)
    assert (told.writers, told.offsets) == ({"query": 2}, {PLACE: 3})
    assert told.size_bytes > 0
    assert told.version == table.version == table.history()[-1].version
    assert told.last_commit_ms is not None


def test_a_parquet_table_needs_a_directory(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="a Parquet table needs a directory"):
        open_table(a_spec(tmp_path, location="s3://bucket/orders?endpoint_override=127.0.0.1:1"))


def test_a_name_of_a_commit_that_expired_is_not_taken_for_a_free_one(tmp_path: Path) -> None:
    spec = a_spec(tmp_path)
    table, rival = open_table(spec), open_table(spec)
    staged = table.stage([orders([0])])
    done: list[int] = []

    def interfere(step: str) -> None:
        if step == "commit-drafted" and not done:
            done.append(1)
            for batch in range(2):
                rival.commit("rival", batch, [rival.stage([orders([10 + batch])])])
            rival.expire(timedelta(0), keep=1)

    steps.observer = interfere
    try:
        table.commit("query", 0, [staged])
    finally:
        steps.observer = None

    assert ids(table) == [0, 10, 11]
    assert (table.last_batch("query"), table.last_batch("rival")) == (0, 1)


def test_a_commit_that_came_late_leaves_nothing_behind(tmp_path: Path) -> None:
    spec = a_spec(tmp_path, mode="upsert")
    table, rival = open_table(spec), open_table(spec)
    staged = table.stage([orders([0])])
    done: list[int] = []

    def interfere(step: str) -> None:
        if step == "commit-planned" and not done:
            done.append(1)
            rival.commit("rival", 0, [rival.stage([orders([10])])])

    steps.observer = interfere
    try:
        table.commit("query", 0, [staged])
    finally:
        steps.observer = None

    assert ids(table) == [0, 10]
    graves = [str(path) for path in Path(spec.location).rglob("*.graves.parquet")]
    assert {str(path) for path in Path(spec.location).rglob("*.parquet")} - set(graves) == set(table.files())

"""What tasks and the driver of the table sink do, on real files and without Spark."""

from pathlib import Path
from typing import Any

import pytest

from everlog.spark.table.writing import Target, abort, commit, commit_alone, pieces, stage, table_rows
from everlog.tables.arrow import pa
from everlog.tables.results import Already, Committed
from everlog.tables.spec import TableSpec
from everlog.tables.table import Table, open_table


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """A table of rows with a number each."""
    spec = TableSpec(name="t", topic="t", location=str(tmp_path / "t"), schema="id long")
    open_table(spec)
    return Target(spec, records=False)


def rows(*ids: int) -> list[Any]:
    return [pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})]


def table(target: Target) -> Table:
    return open_table(target.spec, create=False)


def ids(target: Target) -> list[int]:
    return sorted(table(target).read(["id"])["id"].to_pylist())


def test_a_batch_that_the_table_has_is_neither_written_nor_added_again(target: Target) -> None:
    staged = stage(target, rows(1, 2), "query", 0)
    assert isinstance(commit(target, "query", 0, [staged]), Committed)

    again = stage(target, rows(1, 2), "query", 0)

    assert again.files == ()
    assert isinstance(commit(target, "query", 0, [again]), Already)
    assert isinstance(commit(target, "query", 0, [staged]), Already)
    assert ids(target) == [1, 2]


def test_a_batch_without_rows_is_a_commit_as_well(target: Target) -> None:
    assert isinstance(commit(target, "query", 0, [stage(target, [], "query", 0)]), Committed)
    assert table(target).last_batch("query") == 0


def test_an_abort_removes_what_was_written_if_a_task_failed(target: Target) -> None:
    staged = stage(target, rows(1), "query", 0)

    assert abort(target, [staged, None]) == 1

    assert not list(Path(target.spec.location).rglob(Path(staged.files[0].path).name))


def test_an_abort_after_a_commit_that_may_have_been_made_removes_nothing(target: Target) -> None:
    staged = stage(target, rows(1), "query", 0)
    commit(target, "query", 0, [staged])

    # Spark aborts when the driver's commit failed, be it after the table's commit.
    assert abort(target, [staged]) == 0

    assert ids(target) == [1]


def test_batch_queries_add_their_rows_each_time_unless_they_have_a_number(target: Target) -> None:
    for _ in range(2):
        assert isinstance(commit_alone(target, None, None, [stage(target, rows(1), None, None)]), Committed)
    for _ in range(2):
        commit_alone(target, "nightly", 5, [stage(target, rows(7), "nightly", 5)])

    assert ids(target) == [1, 1, 7]


def test_small_files_become_few_every_twenty_batches(target: Target) -> None:
    for batch in range(20):
        staged = [stage(target, rows(10 * batch + n), "query", batch) for n in range(6)]
        assert len(table(target).data_files()) == 6 * batch
        assert isinstance(commit(target, "query", batch, staged), Committed)

    assert len(table(target).data_files()) == 1
    assert ids(target) == [10 * batch + n for batch in range(20) for n in range(6)]
    assert isinstance(commit(target, "query", 19, [stage(target, rows(0), "query", 19)]), Already)


def test_a_batch_counts_though_the_table_cannot_be_tidied_up(
    target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    commit(target, "query", 18, [stage(target, rows(n), "query", 18) for n in range(100)])
    Path(table(target).files()[0]).unlink()

    assert isinstance(commit(target, "query", 19, [stage(target, rows(100), "query", 19)]), Committed)

    assert table(target).last_batch("query") == 19
    assert "table t: not tidied up" in caplog.text


def test_where_rows_came_from_has_the_names_of_the_table(target: Target) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"id": [1], "topic": ["t"], "partition": [0], "offset": [3], "key": [b"k"], "value": [b"v"]}
    )

    (renamed,) = table_rows(target.spec, [batch])

    assert renamed.schema.names == ["id", "_topic", "_partition", "_offset", "_key"]


def test_a_task_holds_no_more_rows_than_a_file_has() -> None:
    batches = [*rows(1, 2), *rows(3), *rows(4, 5, 6)]

    assert [len(lot) for lot in pieces(batches, 24)] == [2, 1]
    assert list(pieces([], 24)) == []

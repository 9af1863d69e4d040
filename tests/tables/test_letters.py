"""Dead letters go out once, whatever is done again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.client.core.dead_letters import read_dead_letter
from everlog.tables.batch import commit_batch
from everlog.tables.letters import LetterBox
from everlog.tables.offsets import OffsetRanges
from everlog.tables.results import Already, Committed
from everlog.tables.spec import TableSpec
from everlog.tables.table import Table, open_table
from tests.tables.builders import a_spec, ids, order, read_all, records


@pytest.fixture
def table_spec(tmp_path: Path, everlog_bootstrap: str, new_topic: Callable[..., str]) -> TableSpec:
    topic = new_topic()
    return a_spec(
        tmp_path,
        name=f"o-{topic}",
        topic=topic,
        bootstrap=everlog_bootstrap,
        dead_letter_topic=f"{topic}.dlq",
    )


def mixed(table: Table, start: int, end: int) -> Any:
    """Odd offsets are bad."""
    rows = [(n, b"k%d" % n, b"oops" if n % 2 else order(n)) for n in range(start, end)]
    return table.stage([records(rows, topic=table.spec.topic)])


def offsets_of_letters(spec: TableSpec) -> list[int | None]:
    letters = [
        read_dead_letter(record) for record in read_all(spec.bootstrap or "", spec.dead_letter_topic or "")
    ]
    return sorted(letter.offset for letter in letters if letter is not None)  # type: ignore[type-var] # not None here


def test_a_batch_brings_its_letters_out_and_then_its_rows_in(table_spec: TableSpec) -> None:
    table = open_table(table_spec)

    assert isinstance(commit_batch(table, "q", 0, [mixed(table, 0, 6)]), Committed)
    assert commit_batch(table, "q", 0, [mixed(table, 0, 6)]) == Already(0)

    assert ids(table) == [0, 2, 4]
    assert offsets_of_letters(table_spec) == [1, 3, 5]
    (letter, *_) = read_all(table_spec.bootstrap or "", table_spec.dead_letter_topic or "")
    told = read_dead_letter(letter)
    assert told is not None
    assert (told.topic, told.partition, told.offset, told.tries) == (table_spec.topic, 0, 1, 1)
    assert told.group == f"everlog-table.{table_spec.name}.q.letters"
    assert (letter.key, letter.value) == (b"k1", b"oops")
    assert "not JSON" in told.message


def test_letters_of_a_try_that_died_before_its_commit_are_not_sent_again(table_spec: TableSpec) -> None:
    table = open_table(table_spec)
    first = mixed(table, 0, 6)
    with LetterBox(table_spec, "q") as box:
        assert box.send(table.bad_records([first]), OffsetRanges.of({(table_spec.topic, 0): (0, 6)})) == 3

    # It died here. The next try reads further, so that its batch is another one.
    with LetterBox(table_spec, "q") as box:
        commit_batch(
            table, "q", 0, [mixed(table, 0, 10)], OffsetRanges.of({(table_spec.topic, 0): (0, 10)}), box
        )
        commit_batch(
            table, "q", 1, [mixed(table, 10, 12)], OffsetRanges.of({(table_spec.topic, 0): (10, 12)}), box
        )

    assert offsets_of_letters(table_spec) == [1, 3, 5, 7, 9, 11]
    assert ids(table) == [0, 2, 4, 6, 8, 10]


def test_a_letter_of_a_record_that_comes_late_is_sent(table_spec: TableSpec) -> None:
    """A join of streams keeps records for a later batch."""
    table = open_table(table_spec)
    commit_batch(table, "q", 0, [mixed(table, 4, 8)], ranges_of(table_spec, 0, 8), repeats=False)
    commit_batch(table, "q", 1, [mixed(table, 0, 4)], ranges_of(table_spec, 8, 9), repeats=False)

    assert offsets_of_letters(table_spec) == [1, 3, 5, 7]
    assert sorted(ids(table)) == [0, 2, 4, 6]


def test_letters_of_a_query_are_sent_once_for_each_batch_whatever_its_range(table_spec: TableSpec) -> None:
    table = open_table(table_spec)
    commit_batch(table, "q", 1, [mixed(table, 4, 8)], ranges_of(table_spec, 4, 8), repeats=False)
    late = mixed(table, 0, 4)
    for _ in range(2):  # It died before its commit.
        with LetterBox(table_spec, "q") as box:
            box.send(table.bad_records([late]), OffsetRanges(), 2)
    commit_batch(table, "q", 2, [late], OffsetRanges(), repeats=False)

    assert offsets_of_letters(table_spec) == [1, 3, 5, 7]


def ranges_of(spec: TableSpec, start: int, end: int) -> OffsetRanges:
    return OffsetRanges.of({(spec.topic, 0): (start, end)})

"""The current state of a changelog: each format, on real files."""

import random
from dataclasses import replace

import pytest

from everlog.tables.offsets import OffsetRanges
from everlog.tables.results import Committed
from everlog.tables.spec import TableSpec
from everlog.tables.table import Table, open_table
from tests.tables.builders import Record, order, records, state
from tests.unit.tables.test_rows import event


@pytest.fixture
def table(spec: TableSpec) -> Table:
    """An upsert table."""
    return open_table(replace(spec, mode="upsert"))


def put(table: Table, writer: str, batch: int, *rows: Record, partition: int = 0) -> Committed:
    made = table.commit(writer, batch, [table.stage([records(rows, partition=partition)])])
    assert isinstance(made, Committed)
    return made


def test_the_latest_value_of_a_key_counts_and_a_tombstone_deletes(table: Table) -> None:
    made = put(
        table, "q", 0, (0, b"a", order(1)), (1, b"b", order(2)), (2, b"a", order(3)), (3, b"c", order(4))
    )
    assert (made.rows, made.deleted) == (3, 0)
    assert state(table) == {b"a": 3, b"b": 2, b"c": 4}

    made = put(table, "q", 1, (4, b"b", None), (5, b"c", order(5)), (6, b"nobody", None))

    assert (made.rows, made.deleted) == (1, 1)
    assert state(table) == {b"a": 3, b"c": 5}


def test_batches_that_come_in_the_wrong_order_leave_the_newest(table: Table) -> None:
    put(table, "late", 0, (10, b"a", order(10)), (11, b"b", order(11)), (12, b"c", None), (13, b"d", None))
    put(table, "late", 1, (14, b"b", None), (15, b"d", order(15)))

    # Values from before: of a living row, of rows deleted in either batch, of one deleted and made again.
    put(table, "early", 0, (0, b"a", order(0)), (1, b"b", order(1)), (2, b"c", order(2)), (3, b"d", order(3)))

    assert state(table) == {b"a": 10, b"d": 15}


def test_deletions_are_forgotten_when_nothing_older_can_come(table: Table) -> None:
    put(table, "late", 0, (10, b"a", None))
    assert table._store.load().state.graves is not None  # pyright: ignore[reportPrivateUsage] -- the rule
    put(table, "early", 0, *((n, b"x", order(n)) for n in range(10)))
    assert table._store.load().state.graves is None  # pyright: ignore[reportPrivateUsage] -- the rule

    put(table, "late", 1, (11, b"a", order(11)))
    assert state(table) == {b"a": 11, b"x": 9}


def test_a_replay_by_another_writer_changes_nothing(table: Table) -> None:
    rows: list[Record] = [(0, b"a", order(0)), (1, b"a", None), (2, b"b", order(2)), (3, b"b", order(3))]
    put(table, "q", 0, *rows)

    # One by one: the value of a key that is gone comes without its deletion.
    for batch, row in enumerate(rows):
        put(table, "again", batch, row)
        assert state(table) == {b"b": 3}


def test_one_staged_batch_of_many_tasks_keeps_the_newest(table: Table) -> None:
    staged = [
        table.stage([records([(5, b"a", order(5)), (6, b"b", None)])]),
        table.stage([records([(1, b"a", order(1)), (2, b"b", order(2))])]),
    ]

    table.commit("q", 0, staged)

    assert state(table) == {b"a": 5}


def test_keys_may_be_columns_and_events_of_debezium(spec: TableSpec) -> None:
    table = open_table(replace(spec, mode="upsert", debezium=True, key=("id",)))

    def cdc(batch: int, *events: tuple[int, bytes, bytes | None]) -> list[tuple[int, str]]:
        table.commit("q", batch, [table.stage([records(events)])])
        return sorted((row["id"], row["item"]) for row in table.read(["id", "item"]).to_pylist())

    tea, rum = {"id": 1, "item": "tea"}, {"id": 2, "item": "rum"}
    assert cdc(
        0, (0, b'{"id":1}', event("r", None, tea)), (1, b'{"id":2}', event("c", None, rum, wrapped=True))
    ) == [
        (1, "tea"),
        (2, "rum"),
    ]
    assert cdc(1, (2, b'{"id":1}', event("u", tea, {"id": 1, "item": "milk"}))) == [(1, "milk"), (2, "rum")]
    assert cdc(2, (3, b'{"id":2}', event("d", rum)), (4, b'{"id":2}', None)) == [(1, "milk")]
    assert cdc(3, (5, b'{"id":1}', None)) == []


def test_a_key_that_moved_to_a_new_partition_follows_the_clock(table: Table) -> None:
    put(table, "q", 0, (100, b"a", order(1)))
    put(table, "q", 1, (300, b"a", order(2)), partition=3)
    put(table, "q", 2, (200, b"a", order(3)), partition=2)

    assert state(table) == {b"a": 2}


def test_any_order_of_batches_gives_the_state_that_the_log_gives(table: Table) -> None:
    """The whole rule at once: random changes, cut into random batches, brought in any order, some twice."""
    chance = random.Random(5)
    log: list[Record] = [
        (
            offset,
            key := b"k%d" % chance.randrange(12),
            None if chance.random() < 0.4 else order(offset, key.decode()),
        )
        for offset in range(80)
    ]
    expected: dict[bytes, int] = {}
    for offset, changed, value in log:
        assert changed is not None
        if value is None:
            expected.pop(changed, None)
        else:
            expected[changed] = offset
    cuts = sorted(chance.sample(range(1, 80), 9))
    batches = [log[start:end] for start, end in zip([0, *cuts], [*cuts, 80], strict=True)]
    order_of_batches = [*range(10), *chance.sample(range(10), 4)]
    chance.shuffle(order_of_batches)

    for batch_id, number in enumerate(order_of_batches):
        rows = batches[number]
        ranges = OffsetRanges.of({("orders", 0): (rows[0][0], rows[-1][0] + 1)})
        table.commit("q", batch_id, [table.stage([records(rows)])], ranges)
        if batch_id == 7:
            table.compact()

    assert state(table) == expected

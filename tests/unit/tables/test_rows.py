"""Records to rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from everlog.tables.arrow import pa
from everlog.tables.errors import SchemaConflict, TableMisdeclared
from everlog.tables.rows import Shaper
from tests.tables.builders import a_spec, order, records

HERE = Path()


def shaped(spec: Any, *given: tuple[int, bytes | None, bytes | None]) -> tuple[list[dict[str, Any]], Any]:
    found = Shaper(spec).shape(records(given))
    return found.rows.to_pylist(), found.bad.to_pylist()


def test_columns_come_with_where_they_came_from() -> None:
    (row,), bad = shaped(a_spec(HERE), (7, b"k", order(1, "tea")))

    assert bad == []
    assert (row["id"], row["item"]) == (1, "tea")
    assert (row["_topic"], row["_partition"], row["_offset"], row["_key"]) == ("orders", 0, 7, b"k")
    assert row["_timestamp"].timestamp() == 1000.007


def test_a_bad_record_costs_its_own_row_only_and_keeps_its_bytes() -> None:
    rows, (bad,) = shaped(a_spec(HERE), (0, b"a", order(1)), (1, b"b", b"oops"), (2, b"c", order(2)))

    assert [row["id"] for row in rows] == [1, 2]
    assert (bad["offset"], bad["key"], bad["value"]) == (1, b"b", b"oops")
    assert "not JSON" in bad["error"]


def test_a_null_value_is_a_row_of_nulls_in_append_mode_and_a_deletion_in_upsert_mode() -> None:
    (row,), _ = shaped(a_spec(HERE), (0, b"k", None))
    (gone,), _ = shaped(a_spec(HERE, mode="upsert"), (0, b"k", None))

    assert row["id"] is None
    assert "_deleted" not in row
    assert gone["_deleted"] is True


def test_without_a_key_an_upsert_is_a_bad_record() -> None:
    rows, (bad,) = shaped(a_spec(HERE, mode="upsert"), (0, None, order(1)))

    assert rows == []
    assert bad["error"] == "no key in the record"


@pytest.mark.parametrize(
    "key", [b'{"id": 5}', b'{"schema": {}, "payload": {"id": 5}}', b"5"], ids=["object", "payload", "bare"]
)
def test_a_deletion_finds_its_key_columns_in_the_key(key: bytes) -> None:
    (row,), bad = shaped(a_spec(HERE, mode="upsert", key=("id",)), (0, key, None))

    assert bad == []
    assert (row["id"], row["_deleted"]) == (5, True)


def test_a_deletion_whose_key_says_nothing_is_a_bad_record() -> None:
    rows, (bad,) = shaped(a_spec(HERE, mode="upsert", key=("id",)), (0, b"what", None))

    assert rows == []
    assert bad["error"] == "no value for the key id"


def test_without_a_schema_the_bytes_are_the_row() -> None:
    (row,), _ = shaped(a_spec(HERE, schema=""), (0, None, b"\xff\x00"))
    (text,), (bad,) = shaped(
        a_spec(HERE, schema="", value_format="string"), (0, None, b"tea"), (1, None, b"\xff")
    )
    (number,), _ = shaped(a_spec(HERE, schema="", value_format="long"), (0, None, (9).to_bytes(8)))

    assert row["value"] == b"\xff\x00"
    assert text["value"] == "tea"
    assert bad["offset"] == 1
    assert number["value"] == 9


def test_headers_are_kept_with_bad_records() -> None:
    batch = records([(0, None, b"oops")])
    headers = pa.array(
        [[{"key": "trace", "value": b"1"}]], pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    )

    (bad,) = Shaper(a_spec(HERE)).shape(batch.append_column("headers", headers)).bad.to_pylist()

    assert bad["headers"] == [{"key": "trace", "value": b"1"}]


def test_what_records_lack_and_settings_that_will_not_do_are_named() -> None:
    with pytest.raises(SchemaConflict, match="no column 'topic'"):
        Shaper(a_spec(HERE)).shape(records([]).drop_columns(["topic"]))
    with pytest.raises(TableMisdeclared, match="xml"):
        Shaper(a_spec(HERE, value_format="xml"))
    with pytest.raises(TableMisdeclared, match="colour"):
        Shaper(a_spec(HERE, properties={"value.colour": "red"}))


# Debezium.


def event(op: str | None, before: Any = None, after: Any = None, *, wrapped: bool = False) -> bytes:
    inner = {"before": before, "after": after, "op": op, "ts_ms": 1, "source": {"table": "orders"}}
    return json.dumps({"schema": {"type": "struct"}, "payload": inner} if wrapped else inner).encode()


@pytest.mark.parametrize("wrapped", [False, True])
def test_events_of_debezium_are_taken_out_of_their_envelopes(wrapped: bool) -> None:
    spec = a_spec(HERE, mode="upsert", debezium=True)
    rows, bad = shaped(
        spec,
        (0, b"1", event("r", None, {"id": 1, "item": "tea"}, wrapped=wrapped)),
        (1, b"2", event("c", None, {"id": 2, "item": "rum"}, wrapped=wrapped)),
        (2, b"1", event("u", {"id": 1, "item": "tea"}, {"id": 1, "item": "milk"}, wrapped=wrapped)),
        (3, b"2", event("d", {"id": 2, "item": "rum"}, None, wrapped=wrapped)),
        (4, b"2", None),
    )

    assert bad == []
    assert [(row["id"], row["item"], row["_deleted"]) for row in rows] == [
        (1, "tea", False),
        (2, "rum", False),
        (1, "milk", False),
        (2, "rum", True),
        (None, None, True),
    ]


def test_events_with_and_without_their_schema_may_be_mixed() -> None:
    rows, _ = shaped(
        a_spec(HERE, mode="upsert", debezium=True),
        (0, b"1", event("c", None, {"id": 1}, wrapped=True)),
        (1, b"2", event("c", None, {"id": 2}, wrapped=False)),
    )

    assert [row["id"] for row in rows] == [1, 2]


def test_a_deletion_of_debezium_without_a_row_before_finds_its_key_in_the_key() -> None:
    (row,), _ = shaped(
        a_spec(HERE, mode="upsert", debezium=True, key=("id",)), (0, b'{"payload": {"id": 4}}', event("d"))
    )

    assert (row["id"], row["_deleted"]) == (4, True)


def test_what_is_no_event_is_a_bad_record_that_says_why() -> None:
    _, bad = shaped(
        a_spec(HERE, mode="upsert", debezium=True),
        (0, b"1", b'{"id": 1}'),
        (1, b"1", event("t")),
        (2, b"1", event("u")),
        (3, b"1", b"[]"),
    )

    assert [row["error"] for row in bad[:3]] == [
        "no event of Debezium: it has no op",
        "operation t of Debezium: expected c, r, u or d",
        "event of Debezium without a row after",
    ]
    assert bad[3]["offset"] == 3


def test_appended_events_of_debezium_say_what_happened_and_leave_tombstones_out() -> None:
    rows, bad = shaped(
        a_spec(HERE, debezium=True),
        (0, b"1", event("c", None, {"id": 1})),
        (1, b"1", event("d", {"id": 1})),
        (2, b"1", None),
    )

    assert bad == []
    assert [(row["id"], row["_op"]) for row in rows] == [(1, "c"), (1, "d")]

"""Avro values: types, the prefix of registries, and what does not fit."""

import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib import import_module
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.values import BadSetting, avro_columns, decoder, encoder
from everlog.values.arrow import pa

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "id", "type": "long"},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
            {"name": "tags", "type": {"type": "map", "values": ["null", "int"]}},
            {
                "name": "items",
                "type": {
                    "type": "array",
                    "items": {"type": "record", "name": "Item", "fields": [{"name": "n", "type": "int"}]},
                },
            },
            {"name": "first", "type": ["null", "Item"]},
        ],
    }
)
ROW: dict[str, Any] = {
    "note": None,
    "id": 7,
    "price": Decimal("9.50"),
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "day": date(2026, 1, 31),
    "key": "12345678-1234-5678-1234-567812345678",
    "state": "NEW",
    "tags": [("a", 1), ("b", None)],
    "items": [{"n": 1}, {"n": 2}],
    "first": {"n": 3},
}
ID_42 = b"\0" + (42).to_bytes(4)


def written(schema: str, datum: Any) -> bytes:
    """A datum as fastavro writes it."""
    fastavro: Any = import_module("fastavro")  # Typed in part only.
    stream = BytesIO()
    fastavro.schemaless_writer(stream, json.loads(schema), datum)
    return stream.getvalue()


def an_order(**changed: Any) -> bytes:
    datum = {**ROW, "tags": dict(ROW["tags"]), "key": UUID(ROW["key"]), **changed}
    return written(ORDER, datum)


def test_the_columns_of_a_schema_are_spark_s() -> None:
    assert avro_columns(ORDER) == pa.schema(
        {
            "note": pa.string(),
            "id": pa.int64(),
            "price": pa.decimal128(9, 2),
            "at": pa.timestamp("us", "UTC"),
            "day": pa.date32(),
            "key": pa.string(),
            "state": pa.string(),
            "tags": pa.map_(pa.string(), pa.int32()),
            "items": pa.list_(pa.struct({"n": pa.int32()})),
            "first": pa.struct({"n": pa.int32()}),
        }
    )
    assert avro_columns('"long"') == pa.schema({"value": pa.int64()})
    assert avro_columns('["null", "int", "long"]') == pa.schema({"value": pa.int64()})


@pytest.mark.parametrize("prefix", [b"", ID_42], ids=["plain", "prefixed"])
@pytest.mark.parametrize("note", [None, "x"])
def test_values_are_read_with_and_without_a_prefix(prefix: bytes, note: str | None) -> None:
    """A plain value with nothing in its first field begins with a zero byte, as the prefix does."""
    values = pa.array([prefix + an_order(note=note), None, prefix + an_order(id=8)])

    decoded = decoder("avro", avro_columns(ORDER), {"avroSchema": ORDER}).decode(values)

    assert decoded.first_error() is None
    assert decoded.columns.to_pylist() == [{**ROW, "note": note}, dict.fromkeys(ROW), {**ROW, "id": 8}]


def test_a_value_that_does_not_fit_names_the_schema_s_number() -> None:
    found = decoder("avro", avro_columns(ORDER), {"avroSchema": ORDER})

    decoded = found.decode(pa.array([an_order(), ID_42 + b"\x05\x05", b"\x07", b"", an_order() + b"more"]))

    reasons = decoded.errors.to_pylist()
    assert reasons[0] is None
    assert reasons[1].startswith("schema id 42 of its prefix: the value does not fit avroSchema: not Avro")
    assert reasons[2].startswith("not Avro")
    assert reasons[3].startswith("not Avro")
    assert "bytes are left at its end" in reasons[4]
    assert decoded.columns.to_pylist() == [ROW, *[dict.fromkeys(ROW)] * 4]


def test_a_prefix_can_be_asked_for_and_refused() -> None:
    schema = pa.schema({"value": pa.int64()})
    plain, prefixed = written('"long"', 1), ID_42 + written('"long"', 1)
    values = pa.array([plain, prefixed])

    with_it = decoder("avro", schema, {"avroSchema": '"long"', "avroPrefix": "confluent"}).decode(values)
    without = decoder("avro", schema, {"avroSchema": '"long"', "avroPrefix": "none"}).decode(values)

    assert with_it.columns.field(0).to_pylist() == [None, 1]
    assert with_it.first_error() == "record 0: no prefix with the number of a schema: it begins with 0x02"
    assert without.columns.field(0).to_pylist() == [1, None]


def test_a_datum_of_another_type_than_its_column_costs_its_row() -> None:
    schema = pa.schema({"id": pa.int8(), "state": pa.string()})

    decoded = decoder("avro", schema, {"avroSchema": ORDER}).decode(pa.array([an_order(), an_order(id=1000)]))

    assert decoded.columns.to_pylist() == [{"id": 7, "state": "NEW"}, {"id": None, "state": None}]
    assert decoded.first_error() == "record 1: field 'id': found '1000', expected int8"


@pytest.mark.parametrize("number", [None, "42"])
def test_what_is_written_is_read_back(number: str | None) -> None:
    columns = pa.array([ROW, None, {**ROW, "note": "x"}], pa.struct(list(avro_columns(ORDER))))
    chosen = {"avroSchema": ORDER} | ({"schemaId": number} if number else {})

    values = encoder("avro", avro_columns(ORDER), chosen).encode(columns)

    assert values[0].as_py().startswith(ID_42) == (number == "42")
    assert values[1].as_py() is None
    decoded = decoder("avro", avro_columns(ORDER), chosen).decode(values)
    assert decoded.columns.to_pylist() == [ROW, dict.fromkeys(ROW), {**ROW, "note": "x"}]


def test_a_row_that_the_schema_has_no_room_for_is_named() -> None:
    columns = pa.array([{"value": 1}, {"value": None}], pa.struct({"value": pa.int64()}))

    with pytest.raises(ValueError, match=r"record 1 does not fit avroSchema: "):
        encoder("avro", pa.schema({"value": pa.int64()}), {"avroSchema": '"long"'}).encode(columns)


@pytest.mark.parametrize(
    ("schema", "chosen", "reason"),
    [
        (pa.schema({"a": pa.int64()}), {}, "setting avroSchema is missing"),
        (
            pa.schema({"a": pa.int64()}),
            {"avroSchema": "{"},
            r"avroSchema is '\{': expected an Avro schema in JSON",
        ),
        (pa.schema({"a": pa.int64()}), {"avroSchema": '"longer"'}, "expected an Avro schema in JSON"),
        (
            pa.schema({"a": pa.int64()}),
            {"avroSchema": ORDER},
            "column 'a' is not in avroSchema, which has note, id",
        ),
        (pa.schema({"id": pa.int64()}), {"avroSchema": ORDER, "avroPrefix": "x"}, "avroPrefix is 'x'"),
    ],
)
def test_settings_that_will_not_do_are_named(schema: Any, chosen: dict[str, str], reason: str) -> None:
    with pytest.raises(BadSetting, match=reason):
        decoder("avro", schema, chosen)


def test_unions_and_schemas_within_themselves_have_no_columns() -> None:
    with pytest.raises(BadSetting, match="a union of 2 types at 'value'"):
        avro_columns('["string", "int"]')
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    with pytest.raises(BadSetting, match=r"has 'Node' within itself at 'value\.next'"):
        avro_columns(json.dumps(node))


@given(st.lists(st.binary(max_size=40), max_size=10))
@settings(deadline=None, max_examples=200)
def test_any_bytes_are_a_row_or_an_error(values: list[bytes]) -> None:
    found = decoder("avro", avro_columns(ORDER), {"avroSchema": ORDER})

    decoded = found.decode(pa.array([an_order(), *values, an_order()], pa.binary()))

    assert decoded.columns.to_pylist()[0] == decoded.columns.to_pylist()[-1] == ROW
    assert len(decoded.errors) == len(values) + 2


def test_what_to_install_is_said_if_fastavro_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("everlog.values.avro")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastavro", None)

    with pytest.raises(BadSetting, match=r"value format avro needs fastavro: pip install 'everlog\[spark\]'"):
        avro_columns(ORDER)

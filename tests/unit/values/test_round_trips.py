"""What an encoder writes its decoder reads back as it was, for all types, with nulls, from any slice."""

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.values import BadSetting, decoder, encoder
from everlog.values.arrow import pa

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_MOMENT = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
_LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), _TEXT),
    (pa.binary(), st.binary(max_size=8)),
    (pa.date32(), st.dates(date(1900, 1, 1), date(2200, 1, 1))),
    (pa.timestamp("us", "UTC"), _MOMENT.map(lambda moment: moment.replace(tzinfo=UTC))),
    (pa.timestamp("us"), _MOMENT),
    (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3)),
]


def _nested(leaf: tuple[Any, st.SearchStrategy[Any]]) -> list[tuple[Any, st.SearchStrategy[Any]]]:
    kind, data = leaf
    maybe = st.none() | data
    return [
        leaf,
        (pa.list_(kind), st.lists(maybe, max_size=3)),
        (pa.struct({"x": kind, "y": pa.int32()}), st.fixed_dictionaries({"x": maybe, "y": st.just(3)})),
        (
            pa.map_(pa.string(), kind),
            st.dictionaries(_TEXT, maybe, max_size=3).map(lambda d: list(d.items())),
        ),
    ]


@pytest.mark.parametrize("leaf", _LEAVES, ids=lambda leaf: str(leaf[0]))
@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_json_comes_back_as_it_was(leaf: tuple[Any, st.SearchStrategy[Any]], data: st.DataObject) -> None:
    columns = {f"c{i}": column for i, column in enumerate(_nested(leaf))}
    schema = pa.schema({name: kind for name, (kind, _) in columns.items()})
    row = st.fixed_dictionaries({name: st.none() | some for name, (_, some) in columns.items()})
    rows = pa.array(data.draw(st.lists(st.none() | row, max_size=5)), pa.struct(list(schema)))
    start = data.draw(st.integers(0, len(rows)))

    values = encoder("json", schema).encode(rows.slice(start))
    decoded = decoder("json", schema).decode(values)

    assert values.type == pa.binary()
    assert decoded.first_error() is None
    expected = [row or dict.fromkeys(schema.names) for row in rows.slice(start).to_pylist()]
    assert decoded.columns.to_pylist() == expected
    assert values.is_valid().to_pylist() == rows.slice(start).is_valid().to_pylist()


def test_json_is_written_as_other_readers_expect_it() -> None:
    schema = pa.schema({'na"me': pa.string(), "n": pa.float64(), "t": pa.timestamp("ms", "Europe/Berlin")})
    rows = [
        {'na"me': 'a "b"\n\\ ä', "n": math.nan, "t": datetime(2026, 1, 31, 12, tzinfo=UTC)},
        {'na"me': None, "n": -math.inf, "t": None},
        {'na"me': "plain", "n": 1e300, "t": None},
    ]

    written = encoder("json", schema).encode(pa.array(rows, pa.struct(list(schema))))

    assert [json.loads(text) for text in written.to_pylist()] == [
        {'na"me': 'a "b"\n\\ ä', "n": "NaN", "t": "2026-01-31T12:00:00.000Z"},
        {"n": "-Infinity"},
        {'na"me': "plain", "n": 1e300},
    ]


@pytest.mark.parametrize(
    ("name", "kind", "number", "written"),
    [
        ("short", pa.int16(), -2, b"\xff\xfe"),
        ("int", pa.int32(), 258, b"\x00\x00\x01\x02"),
        ("long", pa.int64(), -1, b"\xff" * 8),
        ("float", pa.float32(), 0.5, b"\x3f\x00\x00\x00"),
        ("double", pa.float64(), 1.0, b"\x3f\xf0" + b"\x00" * 6),
        ("string", pa.string(), "ä", b"\xc3\xa4"),
        ("bytes", pa.binary(), b"\xff", b"\xff"),
    ],
)
def test_single_values_are_written_as_kafkas_serializers_do(
    name: str, kind: Any, number: Any, written: bytes
) -> None:
    schema = pa.schema({"v": kind})
    columns = pa.array([{"v": number}, {"v": None}, None, {"v": number}], pa.struct(list(schema)))

    values = encoder(name, schema).encode(columns)

    assert values.to_pylist() == [written, None, None, written]
    for start in range(3):
        decoded = decoder(name, schema).decode(values.slice(start))
        assert decoded.columns.field(0).to_pylist() == [number, None, None, number][start:]
        assert decoded.error_count == 0


def test_a_number_of_another_width_is_an_error_of_its_row() -> None:
    values = pa.array([b"\0\0\0\1", b"\1", None, b"\0\0\0\2"])

    decoded = decoder("int", pa.schema({"v": pa.int32()})).decode(values)

    assert decoded.columns.field(0).to_pylist() == [1, None, None, 2]
    assert decoded.errors.to_pylist() == [None, "found 1 bytes, expected the 4 of format int", None, None]


def test_text_that_is_not_utf_8_is_an_error_of_its_row() -> None:
    decoded = decoder("string", pa.schema({"v": pa.string()})).decode(pa.array([b"a", b"b\xff", None, b"c"]))

    assert decoded.columns.field(0).to_pylist() == ["a", None, None, "c"]
    assert decoded.first_error() == "record 1: not UTF-8: byte 1 is 0xff"


@pytest.mark.parametrize(
    ("name", "schema", "reason"),
    [
        (
            "xml",
            pa.schema({"v": pa.string()}),
            "value format is 'xml': expected one of json, avro, protobuf, string",
        ),
        ("string", pa.schema({"v": pa.int32()}), "field 'v' is of type int32: format string has string only"),
        ("long", pa.schema({"v": pa.int32()}), "field 'v' is of type int32: format long has int64 only"),
        ("bytes", pa.schema({"v": pa.int32()}), "field 'v' is of type int32: format bytes has binary only"),
        (
            "int",
            pa.schema({"v": pa.int32(), "w": pa.int32()}),
            "format int has one column, found 2 in the schema: v, w",
        ),
    ],
)
def test_a_schema_that_a_format_does_not_have_is_refused_by_name(name: str, schema: Any, reason: str) -> None:
    for make in (decoder, encoder):
        with pytest.raises(BadSetting, match=reason):
            make(name, schema)


def test_columns_in_pieces_and_strings_are_values_too() -> None:
    chunks = pa.chunked_array([['{"a": 1}'], ['{"a": 2}']])

    assert decoder("json", pa.schema({"a": pa.int8()})).decode(chunks).columns.field(0).to_pylist() == [1, 2]
    with pytest.raises(BadSetting, match="values are a column of int64: expected binary or string"):
        decoder("json", pa.schema({"a": pa.int8()})).decode(pa.array([1]))


def test_decimals_are_written_as_numbers() -> None:
    schema = pa.schema({"v": pa.decimal128(5, 2)})

    assert encoder("json", schema).encode(
        pa.array([{"v": Decimal("1.20")}], pa.struct(list(schema)))
    ).to_pylist() == [b'{"v":1.20}']

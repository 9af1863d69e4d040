"""JSON values as columns: what is read, what is refused, and that a bad record costs its own row only."""

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.values import BadSetting, Decoded, decoder
from everlog.values.arrow import pa
from everlog.values.json_decoder import JsonDecoder

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def decode(kind: Any, *values: bytes | None, **chosen: str) -> Decoded:
    """Decode objects whose field `a` is of a type."""
    return decoder("json", pa.schema({"a": kind}), chosen).decode(pa.array(values, pa.binary()))


def read(kind: Any, text: str, **chosen: str) -> Any:
    """The field `a` of one value that must be fine."""
    decoded = decode(kind, f'{{"a": {text}}}'.encode(), **chosen)
    assert decoded.first_error() is None
    return decoded.columns.field(0)[0].as_py()


def test_fields_are_taken_by_name_missing_ones_are_null_and_unknown_ones_ignored() -> None:
    schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    values = [b'{"name": "x", "id": 1, "more": {"b": []}}', b'{"id": 2}', b"{}"]

    decoded = decoder("json", schema).decode(pa.array(values))

    assert decoded.columns.to_pylist() == [
        {"id": 1, "name": "x"},
        {"id": 2, "name": None},
        {"id": None, "name": None},
    ]
    assert decoded.columns.type == pa.struct(list(schema))
    assert decoded.error_count == 0


def test_a_null_value_is_a_row_of_nulls_and_no_error() -> None:
    decoded = decode(pa.int64(), b'{"a": 1}', None, b'{"a": 3}', None, b"null")

    assert decoded.columns.field(0).to_pylist() == [1, None, 3, None, None]
    assert decoded.columns.null_count == 0
    assert decoded.error_count == 0


@pytest.mark.parametrize("count", [1, 31, 500])
def test_a_bad_record_costs_its_own_row_only(count: int) -> None:
    good = [f'{{"a": {i}}}'.encode() for i in range(count)]

    decoded = decode(pa.int64(), *good, b"oops", None, *good)

    assert decoded.columns.field(0).to_pylist() == [*range(count), None, None, *range(count)]
    assert [i for i, error in enumerate(decoded.errors.to_pylist()) if error] == [count]
    assert decoded.first_error() == f"record {count}: not JSON: Expecting value at character 0: oops"


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b" ",
        b"nul",
        b"5",
        b"[]",
        b'[{"a": 1}]',
        b'"a"',
        b'{"a": 1}{"a": 2}',
        b'{"a": 1}\n{"a": 2}',
        b'{"a": 1} null {}',
        b'{"a": 1},{"a": 2}',
        b'{"a": 1}}',
        b'{{"a": 1}',
        b'{"a": {}',
        b'{"a": 1',
        b'{"a": 1,}',
        b'{"a": "\xff"}',
        b'{"b": "\xff"}',
        b'{"b": ' + b"[" * 100_000 + b"]" * 100_000 + b"}x",
    ],
)
def test_what_is_not_one_object_never_shifts_its_neighbours(bad: bytes) -> None:
    """An empty value beside one of two objects has the right number of rows in all."""
    for neighbour in (b'{"a": 1}{"a": 2}', b"", b'{"a": 7}'):
        decoded = decode(pa.int64(), b'{"a": 5}', bad, neighbour, b'{"a": 6}')

        assert decoded.columns.field(0).to_pylist() == [5, None, 7 if b"7" in neighbour else None, 6]
        assert decoded.errors.is_valid().to_pylist()[:2] == [False, True]


def test_white_space_around_objects_and_in_them_is_fine() -> None:
    decoded = decode(pa.int64(), b'\n {"a":\r\n 1\n}\t', b'{"a":2}')

    assert decoded.columns.field(0).to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (pa.bool_(), "true", True),
        (pa.int8(), "-128", -128),
        (pa.int32(), "2147483647", 2147483647),
        (pa.float64(), "5", 5.0),
        (pa.float64(), "1e3", 1000.0),
        (pa.float64(), '"-INF"', -math.inf),
        (pa.float32(), "0.5", 0.5),
        (pa.string(), '"ä\\n\\u00e4"', "ä\nä"),
        (pa.string(), "5", "5"),
        (pa.string(), "1.5", "1.5"),
        (pa.string(), "true", "true"),
        (pa.string(), '{"b": [1, "x"]}', '{"b":[1,"x"]}'),
        (pa.binary(), '"AAEC"', b"\x00\x01\x02"),
        (pa.date32(), '"2026-01-31"', date(2026, 1, 31)),
        (pa.date32(), '"2026-01-31T12:00:00Z"', date(2026, 1, 31)),
        (pa.timestamp("us", "UTC"), '"2026-01-31T12:00:00Z"', NOON),
        (pa.timestamp("us", "UTC"), '"2026-01-31 13:00:00+01:00"', NOON),
        (pa.timestamp("us", "UTC"), '"2026-01-31T12:00:00"', NOON),
        (pa.timestamp("us", "UTC"), "1769860800", NOON),
        (pa.timestamp("us"), '"2026-01-31T12:00:00.000001"', datetime(2026, 1, 31, 12, 0, 0, 1)),
        (pa.decimal128(10, 2), "5", Decimal("5.00")),
        (pa.decimal128(10, 2), '"5.25"', Decimal("5.25")),
        (pa.decimal128(10, 2), "5.255", Decimal("5.26")),
        (
            pa.decimal128(38, 18),
            "12345678901234567890.123456789012345678",
            Decimal("12345678901234567890.123456789012345678"),
        ),
        (pa.list_(pa.int64()), "[1, null]", [1, None]),
        (pa.list_(pa.timestamp("us", "UTC")), '["2026-01-31T12:00:00Z", null]', [NOON, None]),
        (pa.struct({"b": pa.date32()}), '{"b": "2026-01-31"}', {"b": date(2026, 1, 31)}),
        (pa.struct({"b": pa.int64()}), "{}", {"b": None}),
        (pa.map_(pa.string(), pa.int64()), '{"x": 1, "y": null}', [("x", 1), ("y", None)]),
        (
            pa.list_(pa.struct({"b": pa.list_(pa.binary())})),
            '[{"b": ["AA=="]}, null, {}]',
            [{"b": [b"\x00"]}, None, {"b": None}],
        ),
    ],
    ids=str,
)
def test_each_type_is_read(kind: Any, text: str, expected: Any) -> None:
    assert read(kind, text) == expected
    assert read(kind, "null") is None


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (pa.bool_(), "1", "field 'a': found 1, expected true or false"),
        (pa.int32(), "2147483648", "field 'a': found 2147483648, expected a whole number of 32 bits"),
        (pa.int64(), "1.0", "field 'a': found 1.0, expected a whole number of 64 bits"),
        (pa.int64(), '"1"', "field 'a': found \"1\", expected a whole number of 64 bits"),
        (pa.float64(), '"1"', "field 'a': found \"1\", expected double"),
        (pa.date32(), '"31.1.2026"', "field 'a': found \"31.1.2026\", expected a date such as 2026-01-31"),
        (
            pa.timestamp("us", "UTC"),
            '"noon"',
            "field 'a': found \"noon\", expected a time such as 2026-01-31T12:00:00Z",
        ),
        (
            pa.timestamp("us"),
            '"2026-01-31T12:00:00Z"',
            "field 'a': found \"2026-01-31T12:00:00Z\", "
            "expected a time such as 2026-01-31T12:00:00 without a zone",
        ),
        (pa.decimal128(4, 2), "123", "field 'a': found 123, expected decimal128(4, 2)"),
        (pa.binary(), '"A"', "field 'a': found \"A\", expected bytes in base64"),
        (
            pa.string(),
            '"\\ud800"',
            "field 'a': found \"\\ud800\", expected text, not half of a surrogate pair",
        ),
        (pa.list_(pa.int64()), "[1, true]", "field 'a[1]': found true, expected a whole number of 64 bits"),
        (pa.list_(pa.int64()), "{}", "field 'a': found {}, expected a list"),
        (pa.struct({"b": pa.bool_()}), '{"b": 0}', "field 'a.b': found 0, expected true or false"),
        (pa.map_(pa.string(), pa.bool_()), '{"k": 0}', "field 'a.k': found 0, expected true or false"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named_with_what_was_expected(kind: Any, text: str, reason: str) -> None:
    decoded = decode(kind, f'{{"a": {text}}}'.encode())

    assert decoded.errors.to_pylist() == [reason]
    assert decoded.columns.to_pylist() == [{"a": None}]


def test_times_without_a_zone_are_in_that_of_the_settings() -> None:
    winter = decode(pa.timestamp("us", "UTC"), b'{"a": "2026-01-31T13:00:00"}', timezone="Europe/Berlin")
    mixed = decode(
        pa.timestamp("us", "UTC"),
        b'{"a": "2026-01-31T13:00:00"}',
        b'{"a": "2026-01-31T12:00:00Z"}',
        timeZone="Europe/Berlin",
    )

    assert winter.columns.field(0).to_pylist() == [NOON]
    assert mixed.columns.field(0).to_pylist() == [NOON, NOON]


def test_a_schema_or_setting_that_will_not_do_is_refused_by_name() -> None:
    with pytest.raises(BadSetting, match=r"field 'a\.b' is of type time64\[us\], which JSON values cannot"):
        decoder("json", pa.schema({"a": pa.struct({"b": pa.time64("us")})}))
    with pytest.raises(BadSetting, match=r"JSON has strings as keys only"):
        decoder("json", pa.schema({"a": pa.map_(pa.int32(), pa.int32())}))
    with pytest.raises(BadSetting, match=r"timeZone is 'Mars/Base': expected a name such as Europe/Berlin"):
        decoder("json", pa.schema({"a": pa.int32()}), {"timeZone": "Mars/Base"})
    with pytest.raises(BadSetting, match=r"setting 'depth' of value format json: expected timeZone"):
        decoder("json", pa.schema({"a": pa.int32()}), {"depth": "3"})
    with pytest.raises(BadSetting, match=r"has no columns"):
        decoder("json", pa.schema([]))


_SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
)
_OBJECTS = st.dictionaries(
    st.sampled_from("abcd"), st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
)
_SCHEMA = pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.list_(pa.float64()), "d": pa.bool_()})


@given(st.lists(_OBJECTS.map(json.dumps).map(str.encode) | st.binary(max_size=12) | st.none(), max_size=80))
@settings(deadline=None, max_examples=150)
def test_a_block_gives_what_its_records_give_one_by_one(values: list[bytes | None]) -> None:
    one_by_one = JsonDecoder(_SCHEMA, blocks=False)
    whole = JsonDecoder(_SCHEMA).decode(pa.array(values, pa.binary()))
    each = [one_by_one.decode(pa.array([value])) for value in values if value is not None]

    assert len(whole.columns) == len(whole.errors) == len(values)
    rows = [row for row, value in zip(whole.columns.to_pylist(), values, strict=True) if value is not None]
    reasons = [why for why, value in zip(whole.errors.to_pylist(), values, strict=True) if value is not None]
    assert rows == [piece.columns[0].as_py() for piece in each]
    assert reasons == [piece.errors[0].as_py() for piece in each]

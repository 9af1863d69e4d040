"""JSON read one record at a time, as Spark's `from_json` reads it: slower, and able to say what is wrong.

Beyond what Arrow's reader takes, a number or an object is a string if a string is asked for, a whole number
is seconds since 1970 if a timestamp is, `"NaN"` is a double, and a decimal is rounded half up to its scale.
"""

import binascii
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any, cast
from zoneinfo import ZoneInfo

from everlog.values.arrow import DataType, Schema, types

Convert = Callable[[Any, str], Any]
"""From a value of JSON and the path of its field to what `pa.array` takes; ValueError if it will not do."""

_EPOCH = datetime(1970, 1, 1)
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NOT_FINITE = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "+INF": math.inf,
    "-Infinity": -math.inf,
    "-INF": -math.inf,
}
_SHOWN_CHARACTERS = 60


class JsonRecords:
    """Reads one value at a time to a row of a schema."""

    def __init__(self, schema: Schema, zone: str) -> None:
        self._fields = _members(schema, ZoneInfo(zone))

    def read(self, value: bytes) -> dict[str, Any]:
        """The fields of one value; ValueError says what is wrong with it."""
        try:
            found = json.loads(value.decode(), parse_float=_Float)
        except UnicodeDecodeError as error:
            raise ValueError(f"not UTF-8: byte {error.start} is 0x{value[error.start]:02x}") from None
        except json.JSONDecodeError as error:
            raise ValueError(
                f"not JSON: {error.msg} at character {error.pos}: {_shown_text(value)}"
            ) from None
        except RecursionError:
            raise ValueError("not read: its JSON is nested too deeply") from None
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise ValueError(f"found {_shown(found)}, expected a JSON object")
        return _row(self._fields, cast(dict[str, Any], found), "")


class _Float(float):
    """A number with a fraction, and how it was written: decimals are made of that."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> "_Float":
        self = super().__new__(cls, text)
        self.text = text
        return self

    text: str


def _members(fields: Any, zone: ZoneInfo) -> list[tuple[str, Convert]]:
    return [(field.name, _converter(field.type, zone)) for field in fields]


def _row(fields: list[tuple[str, Convert]], found: dict[str, Any], path: str) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, convert in fields:
        value = found.get(name)
        row[name] = None if value is None else convert(value, f"{path}{name}")
    return row


def _converter(kind: DataType, zone: ZoneInfo) -> Convert:
    """How one type is made, but for null, which every type has."""
    if types.is_boolean(kind):
        return _boolean
    if types.is_integer(kind):
        return _integer(kind)
    if types.is_floating(kind):
        return _floating(kind)
    if types.is_decimal(kind):
        return _decimal(kind)
    if types.is_string(kind) or types.is_large_string(kind):
        return _text
    if types.is_binary(kind):
        return _binary
    if types.is_date(kind):
        return _date
    if types.is_timestamp(kind):
        return _timestamp(kind, zone)
    if types.is_map(kind):
        return _map(_converter(kind.item_type, zone))
    if types.is_struct(kind):
        return _struct(_members(kind, zone))
    if types.is_null(kind):
        return _nothing
    return _list(_converter(kind.value_type, zone))


def _boolean(value: Any, path: str) -> bool:
    if isinstance(value, bool):
        return value
    raise _bad(value, path, "true or false")


def _nothing(value: Any, path: str) -> None:
    raise _bad(value, path, "null")


def _integer(kind: DataType) -> Convert:
    signed = str(kind).startswith("int")
    low, high = (
        (-(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1)
        if signed
        else (0, (1 << kind.bit_width) - 1)
    )

    def convert(value: Any, path: str) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise _bad(value, path, f"a whole number of {kind.bit_width} bits")

    return convert


def _floating(kind: DataType) -> Convert:
    def convert(value: Any, path: str) -> float:
        if isinstance(value, float):
            return float(value)
        if isinstance(value, int) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                raise _bad(value, path, str(kind)) from None
        if isinstance(value, str) and value in _NOT_FINITE:
            return _NOT_FINITE[value]
        raise _bad(value, path, str(kind))

    return convert


def _decimal(kind: DataType) -> Convert:
    step = Decimal(1).scaleb(-kind.scale)

    def convert(value: Any, path: str) -> Decimal:
        text = value.text if isinstance(value, _Float) else value
        if isinstance(text, bool) or not isinstance(text, int | str):
            raise _bad(value, path, str(kind))
        try:
            with localcontext(prec=80):
                number = Decimal(text).quantize(step, ROUND_HALF_UP)
        except InvalidOperation:
            raise _bad(value, path, str(kind)) from None
        if not number.is_finite() or len(number.as_tuple().digits) > kind.precision:
            raise _bad(value, path, str(kind))
        return number

    return convert


def _text(value: Any, path: str) -> str:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _bad(value, path, "text, not half of a surrogate pair") from None
    return text


def _binary(value: Any, path: str) -> bytes:
    if not isinstance(value, str):
        raise _bad(value, path, "bytes in base64")
    try:
        return binascii.a2b_base64(value)
    except ValueError:
        raise _bad(value, path, "bytes in base64") from None


def _date(value: Any, path: str) -> date:
    if not isinstance(value, str):
        raise _bad(value, path, "a date such as 2026-01-31")
    try:
        return date.fromisoformat(value.strip()[:10])
    except ValueError:
        raise _bad(value, path, "a date such as 2026-01-31") from None


def _timestamp(kind: DataType, zone: ZoneInfo) -> Convert:
    per_second = _UNITS[kind.unit]
    expected = "a time such as 2026-01-31T12:00:00" + ("Z" if kind.tz else " without a zone")

    def convert(value: Any, path: str) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            ticks = value * per_second
            if -(1 << 63) <= ticks < 1 << 63:
                return ticks
            raise _bad(value, path, expected)
        if not isinstance(value, str):
            raise _bad(value, path, expected)
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise _bad(value, path, expected) from None
        if kind.tz is not None:
            moment = moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        elif moment.tzinfo is not None:
            raise _bad(value, path, expected)
        micros = (moment - _EPOCH) // timedelta(microseconds=1)
        return micros * per_second // 1_000_000

    return convert


def _list(convert_item: Convert) -> Convert:
    def convert(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            raise _bad(value, path, "a list")
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType] -- JSON
        return [
            None if item is None else convert_item(item, f"{path}[{at}]") for at, item in enumerate(items)
        ]

    return convert


def _map(convert_item: Convert) -> Convert:
    def convert(value: Any, path: str) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise _bad(value, path, "an object")
        items = cast(dict[str, Any], value)
        return [
            (_text(name, path), None if item is None else convert_item(item, f"{path}.{name}"))
            for name, item in items.items()
        ]

    return convert


def _struct(fields: list[tuple[str, Convert]]) -> Convert:
    def convert(value: Any, path: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return _row(fields, cast("dict[str, Any]", value), f"{path}.")
        raise _bad(value, path, "an object")

    return convert


def _bad(value: Any, path: str, expected: str) -> ValueError:
    return ValueError(f"field {path!r}: found {_shown(value)}, expected {expected}")


def _shown(value: Any) -> str:
    return _cut(json.dumps(value))


def _shown_text(value: bytes) -> str:
    return _cut(value[: 4 * _SHOWN_CHARACTERS].decode(errors="replace"))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"

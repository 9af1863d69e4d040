"""Values that are one number or raw bytes, as Kafka's own serializers write them: big endian, fixed width."""

import sys
from array import array
from dataclasses import dataclass
from typing import Any

from everlog.values.arrow import Array, DataType, Schema, StructArray, pa, pc, struct_of, types
from everlog.values.decoded import BadSetting, Decoded, binary_values
from everlog.values.text import check_one_field


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """One of Kafka's serializers of numbers."""

    name: str
    kind: DataType
    code: str
    """The number as `array` knows it."""

    @property
    def width(self) -> int:
        """How many bytes each value has."""
        return int(self.kind.bit_width) // 8


NUMBERS = {
    number.name: number
    for number in (
        NumberFormat("short", pa.int16(), "h"),
        NumberFormat("int", pa.int32(), "i"),
        NumberFormat("long", pa.int64(), "q"),
        NumberFormat("float", pa.float32(), "f"),
        NumberFormat("double", pa.float64(), "d"),
    )
}


class NumberDecoder:
    """One number a value."""

    def __init__(self, number: NumberFormat, schema: Schema) -> None:
        _check_number(number, schema)
        self._number = number
        self._schema = schema

    def decode(self, values: Array) -> Decoded:
        """Read a column of numbers; see `Decoded`."""
        values = binary_values(values)
        width = self._number.width
        lengths = pc.binary_length(values)
        fits = pc.equal(lengths, width).fill_null(False)
        fitting = values if pc.all(fits, min_count=0).as_py() else values.filter(fits)
        numbers = self._numbers(fitting)
        errors = pa.nulls(len(values), pa.string())
        if len(fitting) != len(values):
            places = pc.subtract(pc.cumulative_sum(fits.cast(pa.int64())), 1)
            numbers = numbers.take(pc.if_else(fits, places, pa.scalar(None, pa.int64())))
            wrong = pc.and_(values.is_valid(), pc.invert(fits))
            reasons = pc.binary_join_element_wise(
                "found ",
                lengths.cast(pa.string()),
                f" bytes, expected the {width} of format {self._number.name}",
                "",
            )
            errors = pc.if_else(wrong, reasons, pa.scalar(None, pa.string()))
        return Decoded(struct_of([numbers], self._schema), errors)

    def _numbers(self, values: Array) -> Array:
        """Those of values that all have the right width."""
        if not len(values):
            return pa.array([], self._number.kind)
        # They lie one behind the other, and each is of the same width.
        offsets: Any = memoryview(values.buffers()[1]).cast("i")
        first = int(offsets[values.offset])
        data = memoryview(values.buffers()[2])[first : first + len(values) * self._number.width]
        return pa.Array.from_buffers(
            self._number.kind, len(values), [None, pa.py_buffer(_swapped(self._number, data))]
        )


class NumberEncoder:
    """The numbers of one column."""

    def __init__(self, number: NumberFormat, schema: Schema) -> None:
        _check_number(number, schema)
        self._number = number

    def encode(self, columns: StructArray) -> Array:
        """Make a column of numbers; a null is a null value."""
        column = columns.flatten()[0]
        numbers = column.fill_null(0)
        start = numbers.offset * self._number.width
        data = memoryview(numbers.buffers()[1])[start : start + len(numbers) * self._number.width]
        fixed = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(self._number.width), len(column), [None, pa.py_buffer(_swapped(self._number, data))]
        )
        return pc.if_else(column.is_valid(), fixed.cast(pa.binary()), pa.scalar(None, pa.binary()))


class BytesDecoder:
    """The values as they are."""

    def __init__(self, schema: Schema) -> None:
        _check_bytes(schema)
        self._schema = schema

    def decode(self, values: Array) -> Decoded:
        """Name the column; see `Decoded`. Nothing is an error."""
        values = binary_values(values)
        return Decoded(struct_of([values], self._schema), pa.nulls(len(values), pa.string()))


class BytesEncoder:
    """The values as they are."""

    def __init__(self, schema: Schema) -> None:
        _check_bytes(schema)

    def encode(self, columns: StructArray) -> Array:
        """The column; a null is a null value."""
        return columns.flatten()[0]


def _swapped(number: NumberFormat, data: memoryview) -> bytes:
    """Numbers from the machine's byte order to Kafka's, or back."""
    numbers = array(number.code, data.tobytes())
    assert numbers.itemsize == number.width
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def _check_number(number: NumberFormat, schema: Schema) -> None:
    check_one_field(number.name, schema)
    field = schema.field(0)
    if field.type != number.kind:
        raise BadSetting(
            f"field {field.name!r} is of type {field.type}: format {number.name} has {number.kind} only"
        )


def _check_bytes(schema: Schema) -> None:
    check_one_field("bytes", schema)
    field = schema.field(0)
    if not types.is_binary(field.type):
        raise BadSetting(f"field {field.name!r} is of type {field.type}: format bytes has binary only")

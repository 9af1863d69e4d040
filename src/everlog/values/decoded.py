"""What decoders and encoders promise, whatever the format."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from everlog.values.arrow import Array, StructArray, nulls_of, one_array, pa, pc, struct_of
from everlog.values.arrow import Schema as ArrowSchema


@dataclass(frozen=True, slots=True)
class Decoded:
    """The records of one block as columns, and what was wrong with those that could not be read."""

    columns: StructArray
    """One row for each value, in the decoder's schema. No row is null itself: a null value, and one that
    could not be read, is a row whose fields are all null."""
    errors: Array
    """Strings, as many as there are rows: why the value at this place could not be read, null if it could."""

    @property
    def error_count(self) -> int:
        """How many values could not be read."""
        return len(self.errors) - int(self.errors.null_count)

    def first_error(self) -> str | None:
        """The first value that could not be read, by its place in the block, and why; None if all could."""
        if not self.error_count:
            return None
        at = self.errors.is_valid().index(True).as_py()
        return f"record {at}: {self.errors[at].as_py()}"


class Decoder(Protocol):
    """Reads values of one format. It keeps nothing between calls and may be used from several threads."""

    def decode(self, values: Array) -> Decoded:
        """Read a column of bytes or strings. A value that cannot be read is an error of its own row only."""
        ...


class Encoder(Protocol):
    """Makes values of one format, which the decoder of the same format reads back as they were."""

    def encode(self, columns: StructArray) -> Array:
        """Make a column of bytes, one for each row; a row that is null is a null value."""
        ...


class BadSetting(ValueError):
    """A format, a schema or a setting that will not do; the message names it and what was expected."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A piece of a block that has no nulls: its columns, and an error for each row if there is any."""

    columns: StructArray
    errors: Sequence[str | None] | None


def binary_values(values: Array) -> Array:
    """A column as it comes, in one array of binary."""
    values = one_array(values)
    if values.type == pa.binary():
        return values
    if values.type not in (pa.string(), pa.large_binary(), pa.large_string(), pa.null()):
        raise BadSetting(f"values are a column of {values.type}: expected binary or string")
    return values.cast(pa.binary())


def spread(pieces: Sequence[Rows], values: Array, schema: ArrowSchema) -> Decoded:
    """Put pieces together that cover the values that are not null, with empty rows where they are."""
    count = len(values)
    columns = pa.concat_arrays([piece.columns for piece in pieces]) if pieces else nulls_of(schema, 0)
    errors: Array = pa.nulls(len(columns), pa.string())
    if any(piece.errors is not None for piece in pieces):
        reasons: list[str | None] = []
        for piece in pieces:
            reasons += piece.errors if piece.errors is not None else [None] * len(piece.columns)
        errors = pa.array(reasons, pa.string())
    if len(columns) == count:
        return Decoded(columns, errors)
    places = _places(values)
    fields = [columns.field(i).take(places) for i in range(len(schema))]
    return Decoded(struct_of(fields, schema), errors.take(places))


def _places(values: Array) -> Array:
    """For each value its place among those that are not null, null for a null."""
    present = values.is_valid()
    before = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
    return pc.if_else(present, before, pa.scalar(None, pa.int64()))

"""Values that are text: one column of strings."""

from everlog.values.arrow import Array, Schema, StructArray, pa, struct_of, types
from everlog.values.decoded import BadSetting, Decoded, Rows, binary_values, spread


class TextDecoder:
    """One string a value, in UTF-8."""

    def __init__(self, schema: Schema) -> None:
        check_one_field("string", schema)
        kind = schema.field(0).type
        if not types.is_string(kind) and not types.is_large_string(kind):
            raise BadSetting(
                f"field {schema.field(0).name!r} is of type {kind}: format string has string only"
            )
        self._schema = schema
        self._kind = kind

    def decode(self, values: Array) -> Decoded:
        """Read a column of texts; see `Decoded`."""
        values = binary_values(values)
        try:
            texts = values.cast(self._kind)
        except pa.ArrowInvalid:
            return self._decode_each(values)
        return Decoded(struct_of([texts], self._schema), pa.nulls(len(values), pa.string()))

    def _decode_each(self, values: Array) -> Decoded:
        texts: list[str | None] = []
        errors: list[str | None] = []
        for value in values.drop_null().to_pylist():
            try:
                texts.append(value.decode())
                errors.append(None)
            except UnicodeDecodeError as error:
                texts.append(None)
                errors.append(f"not UTF-8: byte {error.start} is 0x{value[error.start]:02x}")
        columns = struct_of([pa.array(texts, self._kind)], self._schema)
        return spread([Rows(columns, errors)], values, self._schema)


class TextEncoder:
    """The strings of one column, in UTF-8."""

    def __init__(self, schema: Schema) -> None:
        check_one_field("string", schema)
        kind = schema.field(0).type
        if not types.is_string(kind) and not types.is_large_string(kind):
            raise BadSetting(
                f"field {schema.field(0).name!r} is of type {kind}: format string has string only"
            )

    def encode(self, columns: StructArray) -> Array:
        """Make a column of texts; a null string is a null value."""
        return columns.flatten()[0].cast(pa.binary())


def check_one_field(format_name: str, schema: Schema) -> None:
    """Refuse a schema for a format whose values have no fields, unless it is of one column."""
    if len(schema) != 1:
        names = ", ".join(schema.names) or "none"
        raise BadSetting(f"format {format_name} has one column, found {len(schema)} in the schema: {names}")

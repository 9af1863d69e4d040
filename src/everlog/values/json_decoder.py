"""JSON objects to columns: whole blocks by Arrow's reader, and record by record what it does not take."""

from importlib import import_module
from typing import Any

from everlog.values.arrow import Array, Schema, StructArray, pa, pc, struct_of
from everlog.values.decoded import BadSetting, Decoded, Rows, binary_values, spread
from everlog.values.json_records import JsonRecords
from everlog.values.json_shapes import check_json_type, in_shape, shape_of

_json: Any = import_module("pyarrow.json")

_SMALL_ROWS = 32
"""A block of so few rows that has a bad one is read record by record; a larger one is cut in two first."""
_BLOCK_BYTES = 1 << 24
"""The reader takes a block as a whole, so a very large one is cut into pieces of about this."""


class JsonDecoder:
    """One JSON object a value: fields by name, missing ones null, unknown ones ignored, as by `from_json`.

    Without `blocks` each record is read on its own, which gives the same and is several times slower.
    """

    def __init__(self, schema: Schema, zone: str = "UTC", *, blocks: bool = True) -> None:
        for field in schema:
            check_json_type(field.type, field.name)
        self._schema = schema
        self._zone = zone
        try:
            self._records = JsonRecords(schema, zone)
        except (KeyError, ValueError) as error:
            raise BadSetting(
                f"timeZone is {zone!r}: expected a name such as Europe/Berlin ({error})"
            ) from None
        shapes = [(field.name, shape_of(field.type)) for field in schema]
        self._parse: Any = None
        if blocks and all(shape is not None for _, shape in shapes):
            self._parse = _json.ParseOptions(
                explicit_schema=pa.schema(shapes), unexpected_field_behavior="ignore"
            )

    def decode(self, values: Array) -> Decoded:
        """Read a column of JSON texts; see `Decoded`."""
        values = binary_values(values)
        present = values.drop_null() if values.null_count else values
        pieces: list[Rows] = []
        rows = max(1, len(present) * _BLOCK_BYTES // max(1, present.nbytes))
        for start in range(0, len(present), rows):
            self._read(present.slice(start, rows), pieces)
        return spread(pieces, values, self._schema)

    def _read(self, values: Array, pieces: list[Rows]) -> None:
        """Read a piece as a whole if that can be done, else its halves, else its records."""
        if self._parse is not None:
            try:
                pieces.append(Rows(self._read_block(values), None))
                return
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                pass
            if len(values) > _SMALL_ROWS:
                half = len(values) // 2
                self._read(values.slice(0, half), pieces)
                self._read(values.slice(half), pieces)
                return
        pieces.append(self._read_records(values))

    def _read_block(self, values: Array) -> StructArray:
        """All records at once; ArrowInvalid if any is not a plain object of the shape.

        The reader takes objects in a row and does not care about lines. That each value is one row is sure
        all the same: each begins with `{` and ends with `}`, the next begins with `{`, and `}` before `{` is
        JSON only where an object ends. So each value makes a row or more, and as there are as many rows as
        values, each makes one.
        """
        texts = values.cast(pa.string())  # Refuses what is not UTF-8, which the reader would let through.
        if not _are_objects(texts):
            texts = pc.ascii_trim_whitespace(texts)
            if not _are_objects(texts):
                raise pa.ArrowInvalid("not all are objects")
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), "\n")
        block = joined.buffers()[2]
        table = _json.read_json(
            pa.py_buffer(block),
            read_options=_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=self._parse,
        )
        if table.num_rows != len(texts):
            raise pa.ArrowInvalid("more than one object in a value")
        table = table.combine_chunks()
        columns = [
            in_shape(_only_chunk(table.column(field.name)), field.type, self._zone) for field in self._schema
        ]
        return struct_of(columns, self._schema)

    def _read_records(self, values: Array) -> Rows:
        rows: list[dict[str, Any]] = []
        errors: list[str | None] = []
        for value in values.to_pylist():
            try:
                rows.append(self._records.read(value))
                errors.append(None)
            except ValueError as error:
                rows.append({})
                errors.append(str(error))
        columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in self._schema]
        return Rows(struct_of(columns, self._schema), errors if any(errors) else None)


def _are_objects(texts: Array) -> bool:
    both = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    return bool(pc.all(both, min_count=0).as_py())


def _only_chunk(column: Any) -> Array:
    (chunk,) = column.chunks
    return chunk

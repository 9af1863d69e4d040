"""Columns to JSON objects, column by column: fragments of text are made of whole columns and then joined."""

import base64
import json

from everlog.values.arrow import Array, DataType, Schema, StructArray, one_array, pa, pc, types
from everlog.values.json_shapes import check_json_type

_NEEDS_CARE = r'[\x00-\x1f"\\]'


class JsonEncoder:
    """One object a row, as Spark's `to_json` writes it: fields that are null are left out."""

    def __init__(self, schema: Schema) -> None:
        for field in schema:
            check_json_type(field.type, field.name)

    def encode(self, columns: StructArray) -> Array:
        """Make a column of JSON texts; a row that is null is a null value."""
        return _fragment(one_array(columns)).cast(pa.binary())


def _fragment(array: Array) -> Array:
    """A column as a column of JSON; what is null stays null."""
    kind: DataType = array.type
    if types.is_string(kind) or types.is_large_string(kind):
        return _quoted(array.cast(pa.string()))
    if types.is_binary(kind):
        return pa.array(
            [None if v is None else f'"{base64.b64encode(v).decode()}"' for v in array.to_pylist()],
            pa.string(),
        )
    if types.is_floating(kind):
        return _numbers(array)
    if types.is_timestamp(kind):
        return _moments(array)
    if types.is_date(kind):
        return _wrapped('"', array.cast(pa.string()), '"')
    if types.is_struct(kind):
        return _objects(array)
    if types.is_map(kind):
        names, items = _quoted(array.keys), _fragment(array.items).fill_null("null")
        return _wrapped("{", _joined(array, _pairs(names, items)), "}")
    if types.is_list(kind) or types.is_large_list(kind):
        return _wrapped("[", _joined(array, _fragment(array.values).fill_null("null")), "]")
    return array.cast(pa.string())


def _objects(array: Array) -> Array:
    parts: list[Array] = []
    for field, column in zip(array.type, array.flatten(), strict=True):
        name = pa.scalar(f",{json.dumps(field.name, ensure_ascii=False)}")
        parts.append(_pairs(name, _fragment(column)).fill_null(""))
    inner = pc.ascii_ltrim(pc.binary_join_element_wise(*parts, ""), characters=",")
    return pc.if_else(array.is_valid(), _wrapped("{", inner, "}"), pa.scalar(None, pa.string()))


def _joined(array: Array, fragments: Array) -> Array:
    """The fragments of the items of lists or maps, joined for each."""
    offsets = array.buffers()[1]
    lists = pa.Array.from_buffers(
        pa.large_list(pa.string()) if types.is_large_list(array.type) else pa.list_(pa.string()),
        len(array),
        [array.buffers()[0], offsets],
        offset=array.offset,
        children=[fragments],
    )
    return pc.binary_join(lists, ",")


def _pairs(names: Array, fragments: Array) -> Array:
    return pc.binary_join_element_wise(names, fragments, ":")


def _wrapped(before: str, array: Array, after: str) -> Array:
    return pc.binary_join_element_wise(before, array, after, "")


def _quoted(array: Array) -> Array:
    careful = pc.match_substring_regex(array, _NEEDS_CARE)
    if pc.any(careful, min_count=0).as_py():
        texts = [
            None if v is None else json.dumps(v, ensure_ascii=False)
            for v in array.filter(careful).to_pylist()
        ]
        # Those without anything to escape are wrapped as a whole; the few others take their places.
        return pc.replace_with_mask(
            _wrapped('"', array, '"'), careful.fill_null(False), pa.array(texts, pa.string())
        )
    return _wrapped('"', array, '"')


def _numbers(array: Array) -> Array:
    texts = array.cast(pa.string())
    strange = pc.invert(pc.is_finite(array))
    if not pc.any(strange, min_count=0).as_py():
        return texts
    names = pc.if_else(
        pc.is_nan(array), '"NaN"', pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"')
    )
    return pc.if_else(strange, names, texts)


def _moments(array: Array) -> Array:
    """ISO 8601 with all the digits that the unit has; those that have a zone are written in UTC."""
    if array.type.tz is None:
        return _wrapped('"', pc.strftime(array, "%Y-%m-%dT%H:%M:%S"), '"')
    in_utc = array.cast(pa.timestamp(array.type.unit, "UTC"))
    return _wrapped('"', pc.strftime(in_utc, "%Y-%m-%dT%H:%M:%SZ"), '"')

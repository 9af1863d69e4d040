"""Which types JSON is read as, and the way from there to the types that were asked for, by column.

Arrow's JSON reader knows fewer types than a schema may have, and takes dates and times in fewer ways than
Spark's `from_json`: so a column is read as a shape (mostly strings in place of moments and bytes), and whole
columns of it are turned into what was asked for. Whatever does not fit raises `pa.ArrowInvalid`: the records
in question are then read one by one.
"""

import binascii

from everlog.values.arrow import Array, DataType, pa, pc, types
from everlog.values.decoded import BadSetting


def check_json_type(kind: DataType, path: str) -> None:
    """Refuse a type that JSON values cannot be read as."""
    if _is_list(kind):
        check_json_type(kind.value_type, f"{path}[]")
    elif types.is_struct(kind):
        for field in kind:
            check_json_type(field.type, f"{path}.{field.name}")
    elif types.is_map(kind):
        if not types.is_string(kind.key_type):
            raise BadSetting(f"field {path!r} is of type {kind}: JSON has strings as keys only")
        check_json_type(kind.item_type, f"{path}{{}}")
    elif not _is_plain(kind) and not _is_moment(kind) and not types.is_binary(kind):
        raise BadSetting(f"field {path!r} is of type {kind}, which JSON values cannot be read as")


def shape_of(kind: DataType) -> DataType | None:
    """The type that Arrow's reader is asked for; None if it has no way to read this one."""
    if _is_plain(kind):
        return kind
    if _is_moment(kind) or types.is_binary(kind):
        return pa.string()
    if types.is_list(kind):
        inner = shape_of(kind.value_type)
        return None if inner is None else pa.list_(inner)
    if types.is_struct(kind):
        fields = [(field.name, shape_of(field.type)) for field in kind]
        return None if any(shape is None for _, shape in fields) else pa.struct(fields)
    return None


def in_shape(array: Array, kind: DataType, zone: str) -> Array:
    """A column that was read as `shape_of(kind)`, as that type; times without a zone are in `zone`."""
    if types.is_decimal(kind):
        array.validate(full=True)  # The reader lets numbers pass that have too many digits before the point.
        return array
    if _is_plain(kind):
        return array
    if types.is_date(kind):
        return array.cast(kind)
    if types.is_timestamp(kind):
        return _moments(array, kind, zone)
    if types.is_binary(kind):
        return _from_base64(array)
    if types.is_list(kind):
        inner = in_shape(array.values, kind.value_type, zone)
        return pa.Array.from_buffers(
            kind, len(array), array.buffers()[:2], array.null_count, array.offset, children=[inner]
        )
    fields = [in_shape(array.field(i), kind.field(i).type, zone) for i in range(kind.num_fields)]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())


def _moments(array: Array, kind: DataType, zone: str) -> Array:
    if kind.tz is None:
        return array.cast(kind)
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        # Times without a zone: all of the column then, or it is read record by record.
        local = array.cast(pa.timestamp(kind.unit))
        return pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest").cast(kind)


def _from_base64(array: Array) -> Array:
    try:
        decoded = [None if text is None else binascii.a2b_base64(text) for text in array.to_pylist()]
    except binascii.Error as error:
        raise pa.ArrowInvalid(str(error)) from None
    return pa.array(decoded, pa.binary())


def _is_plain(kind: DataType) -> bool:
    """Whether Arrow's reader gives this type as it is."""
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_decimal128(kind)
        or types.is_null(kind)
    )


def _is_moment(kind: DataType) -> bool:
    return bool(types.is_date32(kind) or types.is_timestamp(kind))


def _is_list(kind: DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))

"""Columns of any Arrow type that will do, cast to those that the kernels read (P1).

Arrow casts whole columns; nothing here looks at a row. A column that will not do is UnsendableType with its
name and type, and a number that no record can have is Unsendable.
"""

from typing import Any

from everlog.client.core.columns.columns import arrow_compute, load_arrow
from everlog.client.core.errors import Unsendable, UnsendableType
from everlog.model.errors import ErrorCode
from everlog.ports.files import Buffer
from everlog.records.column_buffers import BinarySource, HeaderSource, NumberSource

_HEADERS = "list<struct<key: string, value: binary>> or map<string, binary>"
_NOTHING = b""


def as_bytes(array: Any, name: str, expected: str = "binary or string") -> Any:
    """A column of bytes: binary or string, large or not."""
    types = load_arrow().types
    array = _storage(array)
    kind = array.type
    if types.is_binary(kind) or types.is_string(kind):
        return array
    if types.is_large_binary(kind) or types.is_large_string(kind):
        return array
    if types.is_binary_view(kind) or types.is_string_view(kind) or types.is_fixed_size_binary(kind):
        return array.cast(load_arrow().large_binary())
    if types.is_dictionary(kind):
        return as_bytes(array.cast(kind.value_type), name, expected)
    raise _wrong_type(name, kind, expected)


def as_times(array: Any, name: str) -> Any:
    """A column of milliseconds since 1970, in 64 bits."""
    pa = load_arrow()
    array = _storage(array)
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # Not safe: microseconds and nanoseconds are cut off, as records have none.
        moments = array.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    elif pa.types.is_integer(kind):
        moments = _cast_numbers(array, pa.int64(), name, "milliseconds since 1970")
    else:
        raise _wrong_type(name, kind, "timestamp, or int64 for milliseconds since 1970")
    first = arrow_compute().min(moments).as_py()
    if first is not None and first < 0:
        raise Unsendable(
            ErrorCode.INVALID_TIMESTAMP,
            f"column {name!r}: a timestamp is {first} ms, expected none before 1970",
        )
    return moments


def as_partitions(array: Any, name: str) -> Any:
    """A column of partitions, in 32 bits."""
    pa = load_arrow()
    array = _storage(array)
    if not pa.types.is_integer(array.type):
        raise _wrong_type(name, array.type, "an integer")
    return _cast_numbers(array, pa.int32(), name, "numbers of partitions")


def as_headers(array: Any, name: str) -> Any:
    """A column of lists of headers, as list or map; None if no row can have any."""
    pa = load_arrow()
    types = pa.types
    array = _storage(array)
    kind = array.type
    if types.is_fixed_size_list(kind) or types.is_list_view(kind) or types.is_large_list_view(kind):
        return as_headers(array.cast(pa.list_(kind.value_field)), name)
    is_list = types.is_list(kind) or types.is_large_list(kind)
    if is_list and types.is_null(kind.value_type):
        return None
    if not types.is_map(kind) and not (is_list and _pair_fields(kind.value_type) is not None):
        raise _wrong_type(name, kind, _HEADERS)
    for part in _pairs_of(array):
        try:
            as_bytes(part[:0], name)
        except UnsendableType:
            raise _wrong_type(name, kind, _HEADERS) from None
    return array


def binary_source(array: Any) -> BinarySource | None:
    """The buffers of what `as_bytes` returned."""
    if array is None:
        return None
    validity, offsets, data = array.buffers()
    types = load_arrow().types
    wide = types.is_large_binary(array.type) or types.is_large_string(array.type)
    bitmap = None if validity is None or not array.null_count else _memory(validity)
    return BinarySource(_memory(offsets), _memory(data), bitmap, array.offset, wide)


def number_source(array: Any) -> NumberSource | None:
    """The buffers of what `as_times` or `as_partitions` returned."""
    if array is None:
        return None
    validity, numbers = array.buffers()
    bitmap = None if validity is None or not array.null_count else _memory(validity)
    return NumberSource(_memory(numbers), bitmap, array.offset)


def header_source(array: Any, name: str) -> HeaderSource | None:
    """The buffers of what `as_headers` returned."""
    if array is None:
        return None
    names, contents = (as_bytes(part, name) for part in _pairs_of(array))
    name_source, content_source = binary_source(names), binary_source(contents)
    assert name_source is not None
    assert content_source is not None
    validity, offsets = array.buffers()[:2]
    return HeaderSource(
        _memory(offsets),
        None if validity is None else _memory(validity),
        array.offset,
        load_arrow().types.is_large_list(array.type),
        len(names),
        name_source,
        content_source,
    )


def _pairs_of(array: Any) -> tuple[Any, Any]:
    """Names and contents of all the headers that the lists of an array point to."""
    if load_arrow().types.is_map(array.type):
        return array.keys, array.items
    pairs = array.values
    fields = _pair_fields(pairs.type)
    assert fields is not None
    # A pair that is null comes out with a null name, which is refused by its row.
    flat = pairs.flatten()
    return flat[fields[0]], flat[fields[1]]


def _pair_fields(kind: Any) -> tuple[int, int] | None:
    """Where in a struct the name and the content of a header are, if it is one."""
    if not load_arrow().types.is_struct(kind) or kind.num_fields != 2:
        return None
    name = max(kind.get_field_index("key"), kind.get_field_index("name"))
    content = kind.get_field_index("value")
    return (name, content) if name >= 0 and content >= 0 else None


def _storage(array: Any) -> Any:
    """What an array of an extension type is made of; others as they are."""
    return getattr(array, "storage", array)


def _cast_numbers(array: Any, kind: Any, name: str, what: str) -> Any:
    try:
        return array.cast(kind)
    except ValueError as error:
        raise Unsendable(
            ErrorCode.INVALID_RECORD, f"column {name!r} of type {array.type}: expected {what}: {error}"
        ) from None


def _memory(buffer: Any) -> Buffer:
    """A buffer of Arrow as memory; columns without rows may have none."""
    return _NOTHING if buffer is None else memoryview(buffer)


def _wrong_type(name: str, kind: Any, expected: str) -> UnsendableType:
    return UnsendableType(ErrorCode.INVALID_RECORD, f"column {name!r} is of type {kind}: expected {expected}")

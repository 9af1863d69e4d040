"""Protobuf values, with or without the prefix that schema registries have them written with.

The prefix of Confluent's serializers is a zero byte, the number of the schema in four bytes, and where the
message stands in its file. No message begins with a zero byte, so a value tells by itself whether it has one.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any, NamedTuple, cast

from everlog.values.arrow import Array, DataType, Schema, StructArray, one_array, pa, types
from everlog.values.decoded import BadSetting, Decoded
from everlog.values.protobuf_schemas import DURATION, TIMESTAMP, Field, Message, is_map, message_descriptor
from everlog.values.row_columns import Convert, decode_rows, python_rows

# protobuf has no types of its own.
_factory: Any = import_module("google.protobuf.message_factory")
_messages: Any = import_module("google.protobuf.message")

_ID_BYTES = 5
_LONGEST_PATH = 32
"""How deep messages are declared within messages, at the most: a prefix that says more is none."""


class _Read(NamedTuple):
    """How one field of a message is read."""

    name: str
    is_optional: bool
    """Whether a message knows that it has none."""
    convert: Convert | None
    """None where the field's value is taken as it is."""


class ProtobufDecoder:
    """One message a value, of the type that the settings name."""

    def __init__(self, schema: Schema, settings: Mapping[str, str]) -> None:
        message = message_descriptor(settings)
        self._name = message.full_name
        self._path = _path(message)
        self._class = _factory.GetMessageClass(message)
        self._schema = schema
        self._reads = _reads(message, list(schema))

    def decode(self, values: Array) -> Decoded:
        """Read a column of messages; see `Decoded`."""
        return decode_rows(values, self._read, self._schema, {})

    def _read(self, value: bytes) -> dict[str, Any]:
        start = self._after_prefix(value) if value[:1] == b"\0" else 0
        try:
            message = self._class.FromString(value[start:] if start else value)
            return _row(message, self._reads)
        except (_messages.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"not a message {self._name}: {error}") from None

    def _after_prefix(self, value: bytes) -> int:
        """Where the message begins behind a prefix; ValueError if it is a prefix of another one."""
        count, at = _varint(value, _ID_BYTES)
        if not 0 <= count <= _LONGEST_PATH:
            raise _no_prefix(value)
        path: tuple[int, ...] = ()
        for _ in range(count):
            index, at = _varint(value, at)
            path += (index,)
        # What comes first in its file is written as no path at all.
        if (path or (0,)) != self._path:
            raise ValueError(
                f"schema id {int.from_bytes(value[1:_ID_BYTES])} of its prefix, message {list(path or (0,))} "
                f"of its file: expected {self._name}, which is {list(self._path)}"
            )
        return at


class ProtobufEncoder:
    """One message a row, after the prefix of Confluent's serializers if `schemaId` is a number."""

    def __init__(self, schema: Schema, settings: Mapping[str, str]) -> None:
        message = message_descriptor(settings)
        number = settings.get("schemaId")
        if number is not None and not (number.isdigit() and int(number) < 1 << 31):
            raise BadSetting(f"schemaId is {number!r}: expected the number of a schema")
        self._prefix = b"" if number is None else b"\0" + int(number).to_bytes(4) + _packed(_path(message))
        self._name = message.full_name
        self._class = _factory.GetMessageClass(message)
        self._fields = _known_fields(message, schema.names)

    def encode(self, columns: StructArray) -> Array:
        """Make a column of messages; ValueError names the first row that the message has no room for."""
        columns = one_array(columns)
        valid = columns.is_valid().to_pylist()
        values: list[bytes | None] = []
        for at, row in enumerate(python_rows(columns)):
            values.append(self._write(at, row) if valid[at] else None)
        return pa.array(values, pa.binary())

    def _write(self, at: int, row: tuple[Any, ...]) -> bytes:
        message = self._class()
        where = f"record {at} does not fit message {self._name}"
        for field, value in zip(self._fields, row, strict=True):
            try:
                _set(message, field, value)
            except (TypeError, ValueError, KeyError) as error:
                raise ValueError(f"{where}, field {field.name!r}: {type(error).__name__}: {error}") from None
        try:
            return self._prefix + bytes(message.SerializeToString())
        except _messages.EncodeError as error:
            raise ValueError(f"{where}: {error}") from None


def _known_fields(message: Message, names: list[str]) -> list[Field]:
    fields = message.fields_by_name
    for name in names:
        if name not in fields:
            known = ", ".join(field.name for field in message.fields)
            raise BadSetting(f"column {name!r} is not in message {message.full_name}, which has {known}")
    return [fields[name] for name in names]


def _reads(message: Message, columns: list[Any]) -> list[_Read]:
    fields = _known_fields(message, [column.name for column in columns])
    return [
        _Read(field.name, bool(field.has_presence), _reader(field, column.type))
        for field, column in zip(fields, columns, strict=True)
    ]


def _row(message: Any, reads: list[_Read]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, is_optional, convert in reads:
        if is_optional and not message.HasField(name):
            row[name] = None
        else:
            value = getattr(message, name)
            row[name] = value if convert is None else convert(value)
    return row


def _reader(field: Field, kind: DataType) -> Convert | None:
    if is_map(field):
        if not types.is_map(kind):
            raise BadSetting(f"column {field.name!r} is {kind}: expected a map, as {field.full_name} is")
        convert = _one_reader(field.message_type.fields_by_name["value"], kind.item_type)
        if convert is None:
            return lambda found: list(found.items())
        return lambda found: [(key, convert(found[key])) for key in found]
    if field.is_repeated:
        if not types.is_list(kind):
            raise BadSetting(f"column {field.name!r} is {kind}: expected an array, as {field.full_name} is")
        each = _one_reader(field, kind.value_type)
        return list if each is None else lambda found: [each(value) for value in found]
    return _one_reader(field, kind)


def _one_reader(field: Field, kind: DataType) -> Convert | None:
    if field.enum_type is not None and not types.is_integer(kind):
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        # A number that came to the enumeration later stays readable.
        return lambda number: names.get(number, str(number))
    if field.message_type is None:
        return None
    if field.message_type.full_name in (TIMESTAMP, DURATION) and not types.is_struct(kind):
        return lambda found: found.seconds * 1_000_000 + found.nanos // 1_000
    if not types.is_struct(kind):
        raise BadSetting(f"column {field.name!r} is {kind}: expected a struct, as {field.full_name} is")
    reads = _reads(field.message_type, [kind.field(at) for at in range(kind.num_fields)])
    return lambda found: _row(found, reads)


def _set(message: Any, field: Field, value: Any) -> None:
    """Give a message's field a value of a row; null leaves it as it is."""
    if value is None:
        return
    if is_map(field):
        _set_map(getattr(message, field.name), field.message_type.fields_by_name["value"], value)
    elif field.is_repeated:
        items = getattr(message, field.name)
        for item in value:
            if field.message_type is None:
                items.append(_plain(field, item))
            else:
                _fill(items.add(), field, item)
    elif field.message_type is None:
        setattr(message, field.name, _plain(field, value))
    else:
        inner = getattr(message, field.name)
        inner.SetInParent()
        _fill(inner, field, value)


def _set_map(found: Any, field: Field, value: Mapping[Any, Any]) -> None:
    for key, item in value.items():
        if field.message_type is None:
            found[key] = _plain(field, item)
        else:
            _fill(found[key], field, item)


def _fill(message: Any, field: Field, value: Any) -> None:
    match value:
        case datetime():
            message.FromDatetime(value)
        case timedelta():
            message.FromTimedelta(value)
        case dict():
            row = cast("dict[str, Any]", value)
            for inner in _known_fields(field.message_type, list(row)):
                _set(message, inner, row[inner.name])
        case _:
            raise TypeError(f"found {value!r}, expected {field.message_type.full_name}")


def _plain(field: Field, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        return int(value) if known is None else known.number
    if isinstance(value, Decimal):
        if value != int(value):
            raise ValueError(f"{value} is not whole")
        return int(value)
    return value


def _path(message: Message) -> tuple[int, ...]:
    """Where a message stands: its number in its file, or in the message that it is declared in, and so on."""
    outer = message.containing_type
    siblings = message.file.message_types_by_name if outer is None else outer.nested_types_by_name
    # By the order in the file, which these mappings have.
    index = list(siblings).index(message.name)
    return (index,) if outer is None else (*_path(outer), index)


def _packed(path: tuple[int, ...]) -> bytes:
    if path == (0,):
        return b"\0"
    return b"".join(_zigzag(number) for number in (len(path), *path))


def _zigzag(number: int) -> bytes:
    left, packed = number << 1, bytearray()
    while left >= 0x80:
        packed.append(left & 0x7F | 0x80)
        left >>= 7
    packed.append(left)
    return bytes(packed)


def _varint(value: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint and where it ends; ValueError if the value ends within it."""
    found = 0
    for shift in range(0, 35, 7):
        if at >= len(value):
            break
        found |= (value[at] & 0x7F) << shift
        at += 1
        if value[at - 1] < 0x80:
            return (found >> 1) ^ -(found & 1), at
    raise _no_prefix(value)


def _no_prefix(value: bytes) -> ValueError:
    return ValueError(f"it begins with a zero byte, and with no prefix of a registry: 0x{value[:10].hex()}")

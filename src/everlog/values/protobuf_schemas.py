"""Protobuf messages: found in a descriptor set, and the Arrow schema that each one means."""

import base64
import binascii
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from everlog.values.arrow import DataType, Schema, pa
from everlog.values.decoded import BadSetting

# protobuf has no types of its own.
_descriptors: Any = import_module("google.protobuf.descriptor")
_pools: Any = import_module("google.protobuf.descriptor_pool")
_sets: Any = import_module("google.protobuf.descriptor_pb2")
_messages: Any = import_module("google.protobuf.message")

Message = Any
"""The descriptor of a message."""
Field = Any
"""The descriptor of a field."""

INLINE = "base64:"
"""What a descriptor set begins with that is given itself, and not by the path of its file."""
TIMESTAMP = "google.protobuf.Timestamp"
DURATION = "google.protobuf.Duration"

# Files that protoc brings along itself: a descriptor set is often made without them.
_WELL_KNOWN = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
_type: Any = _descriptors.FieldDescriptor
_PLAIN = {
    _type.TYPE_BOOL: pa.bool_(),
    _type.TYPE_INT32: pa.int32(),
    _type.TYPE_SINT32: pa.int32(),
    _type.TYPE_SFIXED32: pa.int32(),
    _type.TYPE_INT64: pa.int64(),
    _type.TYPE_SINT64: pa.int64(),
    _type.TYPE_SFIXED64: pa.int64(),
    # Spark has no numbers without a sign; these hold all of them.
    _type.TYPE_UINT32: pa.int64(),
    _type.TYPE_FIXED32: pa.int64(),
    _type.TYPE_UINT64: pa.decimal128(20, 0),
    _type.TYPE_FIXED64: pa.decimal128(20, 0),
    _type.TYPE_FLOAT: pa.float32(),
    _type.TYPE_DOUBLE: pa.float64(),
    _type.TYPE_STRING: pa.string(),
    _type.TYPE_BYTES: pa.binary(),
    _type.TYPE_ENUM: pa.string(),
}


def message_descriptor(settings: Mapping[str, str]) -> Message:
    """The message that the settings `protobufDescriptors` and `protobufMessage` name; else BadSetting."""
    text, name = settings.get("protobufDescriptors"), settings.get("protobufMessage")
    if text is None or name is None:
        missing = "protobufDescriptors" if text is None else "protobufMessage"
        raise BadSetting(
            f"setting {missing} is missing: expected a file of `protoc --descriptor_set_out` in "
            "protobufDescriptors, and the full name of a message in protobufMessage"
        )
    files = _read_set(text)
    pool = _pool(files)
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        known = [f"{file.package}.{each.name}".lstrip(".") for file in files for each in file.message_type]
        raise BadSetting(
            f"protobufMessage is {name!r}, which protobufDescriptors does not have: expected a message such "
            f"as {', '.join(known[:10]) or 'none, it is empty'}"
        ) from None


def inlined(text: str) -> str:
    """A descriptor set that needs no file: read here, for processes on other machines; else BadSetting."""
    if text.startswith(INLINE):
        return text
    try:
        with open(text, "rb") as file:
            return INLINE + base64.b64encode(file.read()).decode()
    except OSError as error:
        raise BadSetting(
            f"protobufDescriptors is {text!r}: expected a file that `protoc --descriptor_set_out` wrote "
            f"({error.strerror})"
        ) from None


def message_columns(settings: Mapping[str, str]) -> Schema:
    """The columns of a message's values. Moments are in microseconds, as Spark has them."""
    return pa.schema(_fields(message_descriptor(settings), ()))


def is_map(field: Field) -> bool:
    """Whether a field is a map, which the wire has as a list of pairs."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _read_set(text: str) -> Any:
    try:
        content = base64.b64decode(inlined(text).removeprefix(INLINE), validate=True)
        return _sets.FileDescriptorSet.FromString(content).file
    except (binascii.Error, _messages.DecodeError) as error:
        raise BadSetting(
            f"protobufDescriptors is no descriptor set, such as `protoc --descriptor_set_out` writes: {error}"
        ) from None


def _pool(files: Any) -> Any:
    pool = _pools.DescriptorPool()
    given = {file.name: file for file in files}
    for name in _WELL_KNOWN:
        module = import_module(f"google.protobuf.{name}_pb2")
        if module.DESCRIPTOR.name not in given:
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    added: set[str] = set()

    def add(file: Any) -> None:
        # What a file imports comes before it, in whatever order they were written.
        if file.name in added:
            return
        added.add(file.name)
        for imported in file.dependency:
            if imported in given:
                add(given[imported])
        pool.AddSerializedFile(file.SerializeToString())

    try:
        for file in files:
            add(file)
    except TypeError as error:
        raise BadSetting(
            f"protobufDescriptors is not whole: {error}; `protoc --include_imports` writes all that it needs"
        ) from None
    return pool


def _fields(message: Message, within: tuple[str, ...]) -> list[Any]:
    if message.full_name in within:
        raise BadSetting(
            f"message {message.full_name} has itself within, by {' and '.join(within)}: no columns can be "
            "made of that; name those that are wanted in the schema"
        )
    return [
        pa.field(field.name, _field_type(field, (*within, message.full_name))) for field in message.fields
    ]


def _field_type(field: Field, within: tuple[str, ...]) -> DataType:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(_one_type(key, within), _one_type(value, within))
    one = _one_type(field, within)
    return pa.list_(one) if field.is_repeated else one


def _one_type(field: Field, within: tuple[str, ...]) -> DataType:
    if field.message_type is None:
        return _PLAIN[field.type]
    match field.message_type.full_name:
        case name if name == TIMESTAMP:
            return pa.timestamp("us", "UTC")
        case name if name == DURATION:
            return pa.duration("us")
        case _:
            return pa.struct(_fields(field.message_type, within))

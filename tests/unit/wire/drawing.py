"""Messages for tests: all kinds there are, random ones of each, and what remains of one in an old version."""

from functools import cache
from importlib import import_module
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from everlog.model.ids import NO_UUID
from everlog.wire.generate import module_of
from everlog.wire.message import Message
from everlog.wire.schema import Field, Schema, Struct
from everlog.wire.schemas import all_schemas

SCHEMAS: dict[str, Schema] = {schema.name: schema for _, schema in all_schemas()}
NAMES = sorted(SCHEMAS)

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}

_ZERO: dict[str, object] = {"string": "", "bytes": b"", "records": b"", "uuid": NO_UUID}


def a_few(examples: int) -> settings:
    """Return settings for a test that runs for each of hundreds of messages: few examples, of any size."""
    unbothered = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
    return settings(max_examples=examples, deadline=None, suppress_health_check=unbothered)


def versions_of(schema: Schema) -> range:
    return range(schema.versions.first, schema.versions.last + 1)


def class_of(schema: Schema, name: str | None = None) -> type[Any]:
    """Return the class of a message, or of a struct within it."""
    module = import_module(f"everlog.wire.messages.{module_of(schema)}")
    found: type[Any] = getattr(module, name or schema.name)
    return found


def message_type(schema: Schema) -> type[Message]:
    kind = class_of(schema)
    assert issubclass(kind, Message)
    return kind


@cache
def messages(name: str, tame: bool = False) -> st.SearchStrategy[Any]:
    """Return messages with the fields of all versions; tame ones keep to what every library can hold."""
    schema = SCHEMAS[name]
    return _structs(schema, schema.body, tame)


def _structs(schema: Schema, struct: Struct, tame: bool) -> st.SearchStrategy[Any]:
    kind = class_of(schema, struct.name)
    return st.builds(kind, **{field.name: _values(schema, field, tame) for field in struct.fields})


def _values(schema: Schema, field: Field, tame: bool) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        one = _structs(schema, field.struct, tame)
    else:
        one = _primitives(field, tame)
    if field.array:
        one = st.lists(one, max_size=2)
        if field.type in _BITS and not tame:
            # One hundred and thirty elements have a count of two bytes in flexible versions.
            one = st.one_of(one, st.just([1] * 130))
    return one if field.nullable is None else st.one_of(st.none(), one)


def _primitives(field: Field, tame: bool) -> st.SearchStrategy[Any]:
    bits = _BITS.get(field.type)
    if bits is not None:
        return _integers(field.name, bits, tame)
    match field.type:
        case "bool":
            return st.booleans()
        case "uint16":
            return st.integers(0, 65535)
        case "uint32":
            return st.integers(0, 2**32 - 1)
        case "float64":
            return st.floats(allow_nan=False, allow_infinity=not tame)
        case "uuid":
            return st.binary(min_size=16, max_size=16)
        case "string":
            return st.one_of(st.text(max_size=6), st.just("ä" * 70))
        case _:
            return st.one_of(st.binary(max_size=6), st.just(bytes(range(256))))


def _integers(name: str, bits: int, tame: bool) -> st.SearchStrategy[int]:
    if tame and name.endswith("error_code"):
        return st.integers(-1, 133)
    if tame and bits == 64 and ("time" in name or name.endswith("_ms")):
        # Some libraries make dates and durations of these.
        return st.integers(0, 2**42)
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def in_version(schema: Schema, message: Any, version: int) -> Any:
    """Return what of the message there is in this version, all else at its default."""
    return _cut(schema, schema.body, message, version)


def _cut(schema: Schema, struct: Struct, value: Any, version: int) -> Any:
    kept: dict[str, object] = {}
    for field in struct.fields:
        if not field.versions.has(version):
            continue
        found = getattr(value, field.name)
        if found is None:
            if field.may_be_null(version):
                kept[field.name] = None
            elif field.default == "None":
                # The default cannot be written here, so that the nearest value that can takes its place.
                kept[field.name] = _not_null(schema, field)
        elif field.struct is None:
            kept[field.name] = found
        elif field.array:
            kept[field.name] = [_cut(schema, field.struct, element, version) for element in found]
        else:
            kept[field.name] = _cut(schema, field.struct, found, version)
    return class_of(schema, struct.name)(**kept)


def _not_null(schema: Schema, field: Field) -> object:
    if field.array:
        return []
    return _ZERO[field.type] if field.struct is None else class_of(schema, field.struct.name)()

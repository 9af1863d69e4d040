"""Requests that are full: every array of every API in turn, with as many elements as a request may have."""

from collections.abc import Iterator
from importlib import import_module
from itertools import count
from typing import NamedTuple

from everlog.wire import schemas
from everlog.wire.apis import APIS
from everlog.wire.message import Message
from everlog.wire.schema import Field, Struct

_MEANT = {
    "acks": 1,
    "resource_type": 2,
    "timeout_ms": 1_000,
    "max_wait_ms": 0,
    "replica_id": -1,
    "key_type": 0,
}
_ZEROS = frozenset({'""', "NO_UUID", "0"})
_LARGEST = {"int8": 127, "int16": 32_767, "uint16": 32_767}


class Known(NamedTuple):
    """What is there: a name that a topic has, and a group, and the topic's id."""

    name: str
    topic_id: bytes


def full_requests(
    key: int, versions: tuple[int, int], elements: int, known: Known | None
) -> Iterator[tuple[str, int, Message]]:
    """The name of an array, a version, and a request in which this array has so many elements.

    All elements name what is `known`, or each something else that is not there. What is around an array is
    there once.
    """
    api = APIS[key]
    kind: type[Message] = getattr(import_module(f"everlog.wire.messages.{api.module}"), f"{api.name}Request")
    body = schemas.find(kind.FAMILY, kind.__name__).body
    for version in range(versions[1], versions[0] - 1, -1):
        for path in _arrays(body, version):
            if version < versions[1] and path in set(_arrays(body, version + 1)):
                continue
            made = _Maker(kind, version, path, elements - len(path) + 1, known).struct(body, ())
            assert isinstance(made, Message)
            yield ".".join(path), version, made


def _arrays(struct: Struct, version: int, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for field in struct.fields:
        if not field.versions.has(version):
            continue
        path = (*above, field.name)
        if field.array:
            yield path
        if field.struct is not None:
            yield from _arrays(field.struct, version, path)


class _Maker:
    """Makes one such request."""

    def __init__(
        self, kind: type[Message], version: int, path: tuple[str, ...], elements: int, known: Known | None
    ) -> None:
        self._module = import_module(kind.__module__)
        self._version = version
        self._path = path
        self._elements = elements
        self._known = known
        self._numbers = count()

    def struct(self, struct: Struct, above: tuple[str, ...]) -> object:
        """A struct whose arrays are empty, apart from those on the way to the one that is full."""
        made: object = getattr(self._module, struct.name)()
        for field in struct.fields:
            if field.versions.has(self._version):
                self._fill(made, field, (*above, field.name))
        return made

    def _fill(self, made: object, field: Field, path: tuple[str, ...]) -> None:
        on_the_way = path == self._path[: len(path)]
        if field.name in _MEANT:
            setattr(made, field.name, _MEANT[field.name])
            return
        if field.array:
            times = self._elements if path == self._path else int(on_the_way)
            setattr(made, field.name, [self._element(field, path) for _ in range(times)])
        elif field.struct is not None and on_the_way:
            setattr(made, field.name, self.struct(field.struct, path))
        elif field.default in _ZEROS and field.may_be_null(self._version) is False:
            setattr(made, field.name, self._value(field))

    def _element(self, field: Field, path: tuple[str, ...]) -> object:
        return self._value(field) if field.struct is None else self.struct(field.struct, path)

    def _value(self, field: Field) -> object:
        known = self._known
        if known is not None:
            return {"string": known.name, "bytes": b"", "uuid": known.topic_id}.get(field.type, 0)
        number = next(self._numbers)
        match field.type:
            case "string":
                return f"n{number}"
            case "bytes":
                return b"%d" % number
            case "uuid":
                return (number + 1).to_bytes(16, "big")
            case _:
                return number % _LARGEST.get(field.type, 1 << 30)

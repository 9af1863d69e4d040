"""Schema: what one message has on the wire, read from the notation of `wire.schemas` by a strict parser."""

import re
from keyword import iskeyword
from typing import Final, NamedTuple

from everlog.model.errors import EverlogError


class SchemaError(EverlogError):
    """A schema text breaks the notation; the message names the line."""


class Versions(NamedTuple):
    """A range of versions, both ends included."""

    first: int
    last: int

    def has(self, version: int) -> bool:
        """Whether the version is in the range."""
        return self.first <= version <= self.last


class Field(NamedTuple):
    """One field of a struct."""

    name: str
    type: str
    """A primitive, or the name of a struct; for an array, of its elements."""
    array: bool
    struct: "Struct | None"
    """What `type` names, if it is a struct."""
    versions: Versions
    """Where the field is, given that what holds it is there."""
    nullable: Versions | None
    tag: int | None
    classic: bool
    ignorable: bool
    default: str
    """The default as Python source: `-1`, `False`, `""`, `NO_UUID`, `None`, `[]`, `SnapshotId()`."""

    def may_be_null(self, version: int) -> bool:
        """Whether null can be written in this version."""
        return self.nullable is not None and self.nullable.has(version)


class Struct(NamedTuple):
    """A named group of fields, in the order of the wire."""

    name: str
    fields: tuple[Field, ...]


class Schema(NamedTuple):
    """One message: a struct with what makes it a request, an answer or a record."""

    name: str
    kind: str
    key: int | None
    """The API key, or the type id of a record."""
    versions: Versions
    flexible: int | None
    """The first flexible version."""
    last_unstable: bool
    listeners: tuple[str, ...]
    body: Struct
    structs: tuple[Struct, ...]
    """Those within the body, each once, in the order of the text."""

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields."""
        return self.flexible is not None and version >= self.flexible


ZERO: Final = {
    "bool": "False",
    "int8": "0",
    "int16": "0",
    "int32": "0",
    "int64": "0",
    "uint16": "0",
    "uint32": "0",
    "float64": "0.0",
    "string": '""',
    "bytes": 'b""',
    "records": 'b""',
    "uuid": "NO_UUID",
}
"""The primitives, each with the default it has when none is written."""

_INT_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
_KINDS_WITH_KEY: Final = frozenset({"request", "response", "record", "key", "value"})
_KINDS: Final = _KINDS_WITH_KEY | {"data", "header"}
_ANY: Final = Versions(0, 32767)
_RANGE: Final = r"\d+(?:\+|-\d+)?"
_NAME: Final = r"[a-z][a-z0-9_]*"
_TYPE_NAME: Final = r"[A-Za-z][A-Za-z0-9]*"

_HEAD: Final = re.compile(
    r"(?P<name>[A-Z][A-Za-z0-9]*): (?P<kind>[a-z]+)(?: (?P<key>\d+))?, versions (?P<versions>\d+(?:-\d+)?)"
    r"(?:, flexible (?P<flexible>\d+)\+)?(?P<unstable>, last unstable)?"
    r"(?:, on (?P<listeners>broker|controller|broker and controller))?"
)
_FIELD: Final = re.compile(
    rf"(?P<name>{_NAME}): (?:\[(?P<element>{_TYPE_NAME})\]|(?P<type>{_TYPE_NAME}))"
    rf"(?P<null>\?(?P<nullable>{_RANGE})?)?(?: (?P<versions>{_RANGE}))?(?: tag (?P<tag>\d+))?"
    r"(?P<classic> classic)?(?P<ignorable> ignorable)?(?: = (?P<default>\S+))?"
)


def split(text: str) -> dict[str, str]:
    """Return the block of each message in a family's text, by name."""
    blocks: dict[str, str] = {}
    for block in text.strip("\n").split("\n\n"):
        name = block.partition(":")[0]
        if name in blocks:
            raise SchemaError(f"message {name} stands twice in its family")
        blocks[name] = block
    return blocks


def parse(block: str) -> Schema:
    """Read one message; anything that is not the notation, or cannot be on the wire, is a SchemaError."""
    head, *lines = block.split("\n")
    match = _HEAD.fullmatch(head)
    if (
        match is None
        or match["kind"] not in _KINDS
        or (match["kind"] in _KINDS_WITH_KEY) != bool(match["key"])
    ):
        raise SchemaError(f"not the head of a message: {head!r}")
    versions = _parse_versions(match["versions"], _ANY, head)
    flexible = None if match["flexible"] is None else int(match["flexible"])
    body = _Body(match["name"], versions, flexible, lines)
    fields = body.fields(1)
    if body.at != len(lines):
        raise SchemaError(f"{match['name']}: not in the place of a field: {lines[body.at]!r}")
    return Schema(
        name=match["name"],
        kind=match["kind"],
        key=None if match["key"] is None else int(match["key"]),
        versions=versions,
        flexible=flexible,
        last_unstable=match["unstable"] is not None,
        listeners=tuple(match["listeners"].split(" and ")) if match["listeners"] else (),
        body=Struct(match["name"], fields),
        structs=tuple(body.structs.values()),
    )


def _parse_versions(text: str, within: Versions, line: str) -> Versions:
    first, plus, _ = text.partition("+")
    first, dash, last = first.partition("-")
    top = within.last if plus else int(last) if dash else int(first)
    found = Versions(int(first), top)
    if not within.first <= found.first <= found.last <= within.last:
        raise SchemaError(f"versions {text} are not within {within.first}-{within.last}: {line!r}")
    return found


class _Body:
    """The lines below a head, and how far they are read."""

    def __init__(self, name: str, versions: Versions, flexible: int | None, lines: list[str]) -> None:
        self.name = name
        self.versions = versions
        self.flexible = flexible
        self.lines = lines
        self.at = 0
        self.structs: dict[str, Struct] = {}
        self._within: list[str] = [name]
        """The structs whose fields are being read, from the message inwards."""

    def fields(self, depth: int) -> tuple[Field, ...]:
        """Read the fields at this depth, with all that is below them."""
        indent = "    " * depth
        found: list[Field] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.startswith(indent):
                break
            match = _FIELD.fullmatch(line, len(indent))
            if match is None:
                raise SchemaError(f"{self.name}: not a field: {line!r}")
            self.at += 1
            found.append(self._field(match, depth, line))
        for what in (
            [field.name for field in found],
            [field.tag for field in found if field.tag is not None],
        ):
            if len(set(what)) != len(what):
                raise SchemaError(f"{self.name}: a name or a tag stands twice among {what}")
        return tuple(found)

    def _field(self, match: re.Match[str], depth: int, line: str) -> Field:
        name: str = match["name"]
        if iskeyword(name):
            raise SchemaError(f"{self.name}: {name} is a keyword of Python")
        # A struct may be used in several places: its fields are bounded by the message, not by the place.
        versions = self.versions
        if match["versions"] is not None:
            versions = _parse_versions(match["versions"], versions, line)
        nullable = None
        if match["null"]:
            nullable = (
                versions if match["nullable"] is None else _parse_versions(match["nullable"], versions, line)
            )
        tag = None if match["tag"] is None else int(match["tag"])
        if tag is not None and (tag > 127 or self.flexible is None or versions.first < self.flexible):
            raise SchemaError(f"{self.name}: a tag is below 128 and in flexible versions only: {line!r}")
        type_name: str = match["element"] or match["type"]
        array = match["element"] is not None
        struct = None if type_name in ZERO else self._struct(type_name, depth, line)
        if (
            nullable is not None
            and not array
            and struct is None
            and type_name not in ("string", "bytes", "records")
        ):
            raise SchemaError(f"{self.name}: a {type_name} cannot be null: {line!r}")
        return Field(
            name=name,
            type=type_name,
            array=array,
            struct=struct,
            versions=versions,
            nullable=nullable,
            tag=tag,
            classic=match["classic"] is not None,
            ignorable=match["ignorable"] is not None,
            default=_default(type_name, array, nullable is not None, match["default"], line),
        )

    def _struct(self, name: str, depth: int, line: str) -> Struct:
        if name in self._within:
            # A frame could nest it as deep as it likes; as it is, a schema's depth bounds the decoder's.
            raise SchemaError(f"{self.name}: {name} holds itself: {line!r}")
        below = self.at < len(self.lines) and self.lines[self.at].startswith("    " * (depth + 1))
        if not name[0].isupper() or below == (name in self.structs):
            raise SchemaError(
                f"{self.name}: {name} is no primitive, and not spelled out exactly once: {line!r}"
            )
        if below:
            # Taken up first, so that structs stand in the order in which the text names them.
            self.structs[name] = Struct(name, ())
            self._within.append(name)
            self.structs[name] = Struct(name, self.fields(depth + 1))
            self._within.pop()
        return self.structs[name]


def _default(type_name: str, array: bool, nullable: bool, text: str | None, line: str) -> str:
    """Return the default as Python source."""
    if text is None:
        return "[]" if array else ZERO.get(type_name, f"{type_name}()")
    if text == "null" and nullable:
        return "None"
    if type_name == "bool" and not array and text == "true":
        return "True"
    bits = _INT_BITS.get(type_name)
    if bits is not None and not array and re.fullmatch(r"-?[1-9]\d*", text):
        low, high = (0, 1 << bits) if type_name[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
        if low <= int(text) < high:
            return text
    raise SchemaError(f"no default for this type, or the one it has anyway: {line!r}")

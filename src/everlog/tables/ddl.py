"""Columns written as Spark and SQL write them: `id long, name string, tags array<string>`."""

import re
from collections.abc import Callable

from everlog.tables.arrow import DataType, Field, Schema, pa
from everlog.tables.errors import TableMisdeclared

_SIMPLE: dict[str, Callable[[], DataType]] = {
    "boolean": pa.bool_,
    "bool": pa.bool_,
    "tinyint": pa.int32,
    "byte": pa.int32,
    "smallint": pa.int32,
    "short": pa.int32,
    "int": pa.int32,
    "integer": pa.int32,
    "bigint": pa.int64,
    "long": pa.int64,
    "float": pa.float32,
    "real": pa.float32,
    "double": pa.float64,
    "string": pa.string,
    "varchar": pa.string,
    "binary": pa.binary,
    "date": pa.date32,
    "timestamp": lambda: pa.timestamp("us", "UTC"),
    "timestamp_ntz": lambda: pa.timestamp("us"),
}
"""Types below 32 bits become ints: no lake format but Parquet has them."""

_TOKEN = re.compile(r"\s*(`[^`]*`|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[<>(),:])")


def parse_ddl(text: str) -> Schema:
    """Read the columns; TableMisdeclared names what is not understood."""
    parser = _Parser(text)
    columns = parser.fields(end=None)
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise TableMisdeclared(f"schema {text!r}: column {name!r} is there twice")
    return pa.schema(columns)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            if (match := _TOKEN.match(text, at)) is None:
                raise self._wrong(text[at:].strip()[:20], "a column such as `name string`")
            self._tokens.append(match.group(1))
            at = match.end()
        self._at = 0

    def fields(self, end: str | None) -> list[Field]:
        columns: list[Field] = []
        while True:
            name = self._name()
            if self._peek() == ":":
                self._take()
            kind = self._type()
            nullable = True
            if self._peek().lower() == "not":
                self._take()
                self._expect("null")
                nullable = False
            columns.append(pa.field(name, kind, nullable=nullable))
            if self._peek() == ",":
                self._take()
                continue
            if end is not None:
                self._expect(end)
            elif self._peek():
                raise self._wrong(self._peek(), "a comma or the end")
            return columns

    def _name(self) -> str:
        token = self._take()
        if token.startswith("`"):
            return token[1:-1]
        if not (token[:1].isalpha() or token[:1] == "_"):
            raise self._wrong(token, "the name of a column")
        return token

    def _type(self) -> DataType:
        name = self._take().lower()
        if name == "array":
            self._expect("<")
            inner = self._type()
            self._expect(">")
            return pa.list_(inner)
        if name == "map":
            self._expect("<")
            key = self._type()
            self._expect(",")
            value = self._type()
            self._expect(">")
            return pa.map_(key, value)
        if name == "struct":
            self._expect("<")
            return pa.struct(self.fields(end=">"))
        if name in ("decimal", "numeric"):
            precision, scale = self._numbers()
            return pa.decimal128(precision, scale)
        if name in _SIMPLE:
            if name == "varchar" and self._peek() == "(":
                self._numbers()
            return _SIMPLE[name]()
        raise self._wrong(
            name, f"a type: {', '.join(sorted(_SIMPLE))}, decimal(p,s), array<…>, map<…>, struct<…>"
        )

    def _numbers(self) -> tuple[int, int]:
        if self._peek() != "(":
            return 10, 0
        self._take()
        numbers = [self._number()]
        if self._peek() == ",":
            self._take()
            numbers.append(self._number())
        self._expect(")")
        return numbers[0], numbers[1] if len(numbers) > 1 else 0

    def _number(self) -> int:
        token = self._take()
        if not token.isdigit():
            raise self._wrong(token, "a number")
        return int(token)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        if not token:
            raise self._wrong("its end", "more: a name and a type for each column")
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        if (found := self._take()).lower() != token:
            raise self._wrong(found, repr(token))

    def _wrong(self, found: str, expected: str) -> TableMisdeclared:
        return TableMisdeclared(f"schema {self._text!r}: found {found!r}, expected {expected}")

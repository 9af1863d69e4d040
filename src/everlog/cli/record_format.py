r"""How `consume` prints a record: a format with `%` for fields and `\` for bytes that are hard to type.

%v value   %k key   %o offset   %p partition   %t topic   %T timestamp in ms   %D time, ISO 8601
%h headers as key=value,…       %V bytes of the value     %K bytes of the key  %% a percent sign
\n \t \r \0 \\ and \xHH
"""

from collections.abc import Callable

from everlog.cli.shapes import time_text
from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition
from everlog.records.reader import Record

Formatter = Callable[[TopicPartition, Record], bytes]
DEFAULT_FORMAT = "%v\\n"

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def _headers(_place: TopicPartition, record: Record) -> bytes:
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (value or b"") for name, value in record.headers
    )


_FIELDS: dict[str, Formatter] = {
    "v": lambda _place, record: record.value or b"",
    "s": lambda _place, record: record.value or b"",
    "k": lambda _place, record: record.key or b"",
    "o": lambda _place, record: b"%d" % record.offset,
    "p": lambda place, _record: b"%d" % place.partition,
    "t": lambda place, _record: place.topic.encode(),
    "T": lambda _place, record: b"%d" % record.timestamp,
    "D": lambda _place, record: time_text(record.timestamp).encode(),
    "h": _headers,
    "V": lambda _place, record: b"%d" % (-1 if record.value is None else len(record.value)),
    "K": lambda _place, record: b"%d" % (-1 if record.key is None else len(record.key)),
}


def compile_format(text: str) -> Formatter:
    """Turn a format into a function; ConfigError names what it does not know."""
    parts: list[bytes | Formatter] = []
    at = 0
    while at < len(text):
        if text[at] == "%":
            parts.append(_field(text, at))
            at += 2
        elif text[at] == "\\":
            literal, at = _escape(text, at)
            parts.append(literal)
        else:
            parts.append(text[at].encode())
            at += 1
    joined = _join_literals(parts)
    if len(joined) == 2 and callable(joined[0]) and isinstance(joined[1], bytes):
        field, tail = joined[0], joined[1]
        return lambda place, record: field(place, record) + tail

    def write(place: TopicPartition, record: Record) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(place, record) for part in joined])

    return write


def _field(text: str, at: int) -> bytes | Formatter:
    letter = text[at + 1 : at + 2]
    if letter == "%":
        return b"%"
    field = _FIELDS.get(letter)
    if field is None:
        known = ", ".join(f"%{name}" for name in _FIELDS)
        raise ConfigError(f"format {text!r} has '%{letter}': expected one of {known} or %%")
    return field


def _escape(text: str, at: int) -> tuple[bytes, int]:
    letter = text[at + 1 : at + 2]
    if letter == "x":
        try:
            return bytes.fromhex(text[at + 2 : at + 4]) if len(text) >= at + 4 else bytes.fromhex("?"), at + 4
        except ValueError:
            raise ConfigError(f"format {text!r} has '\\x' without two hexadecimal digits behind it") from None
    if letter not in _ESCAPES:
        known = ", ".join(f"\\{name}" for name in _ESCAPES)
        raise ConfigError(f"format {text!r} has '\\{letter}': expected one of {known} or \\xHH")
    return _ESCAPES[letter], at + 2


def _join_literals(parts: list[bytes | Formatter]) -> list[bytes | Formatter]:
    joined: list[bytes | Formatter] = []
    for part in parts:
        if isinstance(part, bytes) and joined and isinstance(joined[-1], bytes):
            joined[-1] += part
        else:
            joined.append(part)
    return joined

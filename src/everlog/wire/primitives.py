"""What generated code calls when the common case does not hold: long varints, tagged fields, refusals.

One-byte varints and runs of fixed-size fields are handled in the generated functions themselves; what is here
may be slow. Readers raise Malformed, which `wire.codec` turns into a ProtocolError with the field's name.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, cast

from everlog.model.errors import EverlogError

MAX_TAGS: Final = 1000
"""Tagged fields in one struct; more than this is an attack, no protocol (CVE-2026-111115)."""

MAX_STRING: Final = 32767
"""Bytes of a string; Kafka keeps to what an int16 can say in flexible versions too."""

_PACKERS_KEPT: Final = 256
_LARGEST_UINT32: Final = 0xFFFFFFFF


class UnencodableError(EverlogError):
    """A message of ours cannot be written in this version: a value is out of range, or has no field."""


class Malformed(ValueError):
    """Bytes that cannot be read; becomes a ProtocolError that names the field."""


def read_uvarint(buffer: bytes | memoryview, position: int, first: int) -> tuple[int, int]:
    """Return the value that begins with `first`, the byte before `position`, and the position after it."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _LARGEST_UINT32:
                raise Malformed(f"a varint is {value}, which has more than 32 bits")
            return value, position
    raise Malformed("a varint is longer than 5 bytes")


def uvarint(value: int) -> bytes:
    """Return the value as an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_tag_count(
    buffer: bytes | memoryview, position: int, first: int, budget: int
) -> tuple[int, int, int]:
    """Return the count that begins with `first`, the position after it, and what budget is left."""
    count = first
    if first > 0x7F:
        count, position = read_uvarint(buffer, position, first)
    if count > MAX_TAGS:
        raise Malformed(f"{count} tagged fields in one struct, at most {MAX_TAGS} are read")
    if count * 2 > len(buffer) - position or count > budget:
        raise too_many(count, len(buffer) - position)
    return count, position, budget - count


def read_tag(buffer: bytes | memoryview, position: int, previous: int) -> tuple[int, int, int]:
    """Return a tag, where its data begins and where they end; tags must go up."""
    tag = buffer[position]
    position += 1
    if tag > 0x7F:
        tag, position = read_uvarint(buffer, position, tag)
    if tag <= previous:
        raise Malformed(f"tag {tag} comes after tag {previous}")
    size = buffer[position]
    position += 1
    if size > 0x7F:
        size, position = read_uvarint(buffer, position, size)
    if size > len(buffer) - position:
        raise Malformed(f"tag {tag} has {size} bytes, {len(buffer) - position} are left")
    return tag, position, position + size


def skip_tags(buffer: bytes | memoryview, position: int, first: int, budget: int) -> tuple[int, int]:
    """Pass over a section of unknown tagged fields; return the position after it and what budget is left."""
    count, position, budget = read_tag_count(buffer, position, first, budget)
    previous = -1
    for _ in range(count):
        previous, _, position = read_tag(buffer, position, previous)
    return position, budget


def too_many(count: int, left: int) -> Malformed:
    """Return the refusal of a count."""
    if count < 0:
        return Malformed(f"count {count} is negative")
    return Malformed(f"count {count} is more than {left} bytes can hold, or than the message may have in all")


def bad_length(length: int, left: int) -> Malformed:
    """Return the refusal of a length."""
    if length < 0:
        return Malformed(f"length {length} is negative")
    return Malformed(f"length {length} is too long: {left} bytes are left, a string has at most {MAX_STRING}")


def unexpected_null() -> Malformed:
    """Return the refusal of a null where the version has none."""
    return Malformed("null, where this version has no null")


def pack_long(form: str, *values: object) -> bytes:
    """Pack what a single `struct` call cannot, as some length takes more than one byte as a varint.

    In `form` a letter is one of `struct`'s, `u` a uuid, `U` a varint, `S` a varint that is the length of a
    string plus one, and `#` stands before the letter of an array: its length plus one, then its elements.
    """
    out: list[bytes] = []
    letters = iter(form)
    at = 0
    for letter in letters:
        if letter == "x":
            out.append(b"\0")
            continue
        value = values[at]
        at += 1
        if letter == "#":
            element = next(letters)
            if value is None:
                out.append(b"\0")
                continue
            array = cast(Sequence[object], value)
            out += (uvarint(len(array) + 1), struct.pack(f">{len(array)}{element}", *array))
        elif letter in "US":
            assert isinstance(value, int)
            if letter == "S" and value > MAX_STRING + 1:
                raise UnencodableError(f"a string of {value - 1} bytes, at most {MAX_STRING} can be written")
            out.append(uvarint(value))
        else:
            out.append(struct.pack(f">{letter}" if letter != "u" else "16s", value))
    return b"".join(out)


class ArrayPackers(dict[tuple[int, ...], Callable[..., bytes]]):
    """The `struct` calls for a run that holds arrays, by the counts of these; each is made when it is missed.

    `plus` is what a count has more than its array, as compact ones do. A null array has no elements.
    """

    def __init__(self, form: str, plus: int) -> None:
        super().__init__()
        self._form = form
        self._plus = plus

    def __missing__(self, counts: tuple[int, ...]) -> Callable[..., bytes]:
        if len(self) >= _PACKERS_KEPT:
            self.clear()
        form = self._form.format(*(max(0, count - self._plus) for count in counts))
        packer = self[counts] = struct.Struct(">" + form).pack
        return packer


def explained(text: str) -> bytes:
    """What explains an error, as UTF-8 and cut to what a string may have: it may quote what was sent."""
    raw = text.encode()
    return raw if len(raw) <= MAX_STRING else raw[:MAX_STRING].decode(errors="ignore").encode()


def no_such_field(value: object) -> UnencodableError:
    """Return the refusal to drop a value on the way to a version that lacks its field."""
    return UnencodableError(f"is {value!r}, but this version has no such field")

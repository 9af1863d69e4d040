"""What both hot readers need: strings, counts and tagged fields at a position in a frame."""

from struct import Struct

from everlog.model.errors import ProtocolError

INT16 = Struct(">h")
INT32 = Struct(">i")

MAX_TAGGED_FIELDS = 1000
"""Tagged fields in one struct."""
MAX_ELEMENTS = 50_000
"""Topics, and partitions, that one request may name, and tagged fields in all of them: above any client."""

_NO_TAG = -1


def uvarint(frame: memoryview, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits; returns it and the position behind it."""
    value = frame[at]
    if value < 0x80:
        return value, at + 1
    byte = frame[at + 1]
    if byte < 0x80:
        return value & 0x7F | byte << 7, at + 2
    byte_2 = frame[at + 2]
    if byte_2 < 0x80:
        return value & 0x7F | (byte & 0x7F) << 7 | byte_2 << 14, at + 3
    value = 0
    for shift in range(0, 35, 7):
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, at
    raise ProtocolError("a varint is longer than 32 bits")


def count(found: int, frame: memoryview, at: int, minimum_bytes: int, what: str) -> int:
    """Return `found` if the rest of the frame could hold that many elements; none of ours may be null."""
    if found < 0:
        raise ProtocolError(f"the count of {what} is {found}")
    if found * minimum_bytes > len(frame) - at or found > MAX_ELEMENTS:
        raise ProtocolError(f"the count of {what} is {found}, more than {len(frame) - at} bytes can hold")
    return found


def within_budget(total: int, what: str) -> int:
    """Return `total` if one request may name that many; arrays inside arrays add up."""
    if total > MAX_ELEMENTS:
        raise ProtocolError(f"a request names {total} {what}, at most {MAX_ELEMENTS} are read")
    return total


def classic_count(frame: memoryview, at: int, minimum_bytes: int, what: str) -> tuple[int, int]:
    """Read an int32 array count."""
    found = INT32.unpack_from(frame, at)[0]
    return count(found, frame, at + 4, minimum_bytes, what), at + 4


def compact_count(frame: memoryview, at: int, minimum_bytes: int, what: str) -> tuple[int, int]:
    """Read a compact array count."""
    found = frame[at]
    at += 1
    if found >= 0x80:
        found, at = uvarint(frame, at - 1)
    return count(found - 1, frame, at, minimum_bytes, what), at


def classic_text(frame: memoryview, at: int, what: str) -> tuple[str | None, int]:
    """Read a nullable string with an int16 length."""
    length = INT16.unpack_from(frame, at)[0]
    return _text(frame, at + 2, length, what)


def compact_text(frame: memoryview, at: int, what: str) -> tuple[str | None, int]:
    """Read a nullable compact string."""
    length = frame[at]
    at += 1
    if length >= 0x80:
        length, at = uvarint(frame, at - 1)
    return _text(frame, at, length - 1, what)


def _text(frame: memoryview, at: int, length: int, what: str) -> tuple[str | None, int]:
    if length < 0:
        if length < -1:
            raise ProtocolError(f"the length of {what} is {length}")
        return None, at
    end = at + length
    if end > len(frame):
        raise ProtocolError(f"{what} has {length} bytes, {len(frame) - at} are left in the frame")
    try:
        return str(frame[at:end], "utf-8"), end
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{what} is not UTF-8: {error.reason} at byte {error.start}") from None


def skip_tags(frame: memoryview, at: int, budget: int) -> tuple[int, int]:
    """Pass over a section of tagged fields that nobody here reads: the position behind it, and what is left.

    All sections of a request share one budget of fields; it begins as `MAX_ELEMENTS`.
    """
    _, at, budget = find_tag(frame, at, _NO_TAG, budget)
    return at, budget


def find_tag(frame: memoryview, at: int, wanted: int, budget: int) -> tuple[memoryview | None, int, int]:
    """Read one field of a section of tagged fields and pass over the others, which may be unknown.

    Returns it, or None if it is not there, the position behind the section, and what is left of the budget.
    Nothing is kept of the others. Tags must rise, and a struct has no more of them than allowed.
    """
    found, at = uvarint(frame, at)
    if found > MAX_TAGGED_FIELDS:
        raise ProtocolError(f"a struct has {found} tagged fields, at most {MAX_TAGGED_FIELDS} are read")
    if found > budget:
        raise ProtocolError(f"the structs of a request have more than {MAX_ELEMENTS} tagged fields in all")
    field: memoryview | None = None
    last = -1
    for _ in range(found):
        tag, at = uvarint(frame, at)
        size, at = uvarint(frame, at)
        if tag <= last:
            raise ProtocolError(f"tagged field {tag} follows {last}: tags must rise")
        if size > len(frame) - at:
            raise ProtocolError(
                f"tagged field {tag} has {size} bytes, {len(frame) - at} are left in the frame"
            )
        if tag == wanted:
            field = frame[at : at + size]
        last = tag
        at += size
    return field, at, budget - found

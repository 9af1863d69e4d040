"""What both hot writers need: sizes and strings as bytes."""

from struct import Struct

_INT16 = Struct(">h")
_SMALL_SIZES = tuple(bytes((size,)) for size in range(0x80))


def compact_size(size: int) -> bytes:
    """Return an unsigned varint."""
    if size < 0x80:
        return _SMALL_SIZES[size]
    out = bytearray()
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)


def nullable_text(text: str | None) -> bytes:
    """Return a classic nullable string."""
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw


def compact_nullable_text(text: str | None) -> bytes:
    """Return a compact nullable string."""
    if text is None:
        return b"\x00"
    raw = text.encode()
    return compact_size(len(raw) + 1) + raw

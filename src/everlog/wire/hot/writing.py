"""What both hot writers need: sizes and strings as bytes."""

from collections.abc import Sequence
from struct import Struct

_INT16 = Struct(">h")
_INT32 = Struct(">i")
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


NodeEndpoint = tuple[int, str, int, str | None]
"""A broker's id, host and port, and its rack."""


def node_endpoints_tags(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Return the tagged fields of an answer that tells where leaders are (KIP-951), if there are any."""
    if not endpoints:
        return b"\x00"
    field = bytearray(compact_size(len(endpoints) + 1))
    for node_id, host, port, rack in endpoints:
        field += _INT32.pack(node_id)
        field += compact_nullable_text(host)
        field += _INT32.pack(port)
        field += compact_nullable_text(rack)
        field.append(0)
    return b"\x01\x00" + compact_size(len(field)) + bytes(field)


def compact_nullable_text(text: str | None) -> bytes:
    """Return a compact nullable string."""
    if text is None:
        return b"\x00"
    raw = text.encode()
    return compact_size(len(raw) + 1) + raw

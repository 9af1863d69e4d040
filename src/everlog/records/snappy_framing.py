"""Snappy in its two dialects: bare blocks, as librdkafka writes, and xerial's stream, as Java writes.

Both bear the same codec number, so the reader goes by the stream's magic. We write the stream: every
reader that knows only one dialect knows that one, and Java's library cannot tell a bare block from a
damaged stream.
"""

from struct import Struct

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer

_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_LENGTH = Struct(">i")
_BLOCK_BYTES = 32 * 1024
"""How much goes into one block of a stream; Java's default."""

_MAX_RATIO = 22
"""No block unpacks to more than that many times its size: three bytes copy 64 at the most."""


def compress(data: Buffer) -> bytes:
    """Return `data` as a xerial stream of blocks of 32 KiB."""
    import cramjam

    view = memoryview(data)
    parts: list[bytes] = [_HEADER]
    for start in range(0, len(view), _BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _BLOCK_BYTES]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def decompress(data: Buffer, max_bytes: int) -> bytes:
    """Return what a stream or a bare block unpacks to; CorruptDataError if damaged or above `max_bytes`."""
    view = memoryview(data)
    if bytes(view[: len(_MAGIC)]) != _MAGIC:
        return _unpack_block(view, max_bytes, max_bytes)
    parts: list[bytes] = []
    room = max_bytes
    position = 0
    while position < len(view):
        if bytes(view[position : position + len(_MAGIC)]) == _MAGIC:
            # A stream's header may come again: streams may be strung together.
            position += len(_HEADER)
            if position > len(view):
                raise CorruptDataError("the snappy data is damaged: its header is cut off")
            continue
        block = _block_at(view, position)
        parts.append(_unpack_block(block, room, max_bytes))
        room -= len(parts[-1])
        position += _LENGTH.size + len(block)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _block_at(view: memoryview, position: int) -> memoryview:
    """Return the block whose length stands at `position`."""
    start = position + _LENGTH.size
    if start > len(view):
        raise CorruptDataError("the snappy data is damaged: a block's length is cut off")
    length: int = _LENGTH.unpack_from(view, position)[0]
    if not 0 <= length <= len(view) - start:
        raise CorruptDataError(
            f"the snappy data is damaged: a block of {length} bytes where {len(view) - start} are left"
        )
    return view[start : start + length]


def _unpack_block(block: memoryview, room: int, max_bytes: int) -> bytes:
    """Return what one block unpacks to, up to `room` bytes, which is what is left of `max_bytes`.

    What the block says of its size is weighed before room is made for it.
    """
    import cramjam

    claimed = _claimed_bytes(block)
    if claimed > room:
        raise CorruptDataError(f"the snappy data unpacks to more than {max_bytes} bytes")
    if claimed > _MAX_RATIO * len(block):
        raise CorruptDataError(f"the snappy data is damaged: {len(block)} bytes claim to unpack to {claimed}")
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptDataError(f"the snappy data is damaged: {error}") from None


def _claimed_bytes(block: memoryview) -> int:
    """Return the size that a block's first bytes, a varint of at most 32 bits, say it unpacks to."""
    claimed = 0
    for index, byte in enumerate(block[:5]):
        claimed |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return claimed
    raise CorruptDataError("the snappy data is damaged: its first bytes are no length")

"""Zstandard frames, measured before they are unpacked.

Most clients write frames that do not say how much they unpack to, and the library then either wants
the room named in advance or grows without bound. The headers of a frame's blocks bound it closely:
walking them costs nothing next to unpacking, gives the frame's end, and shows a frame that is cut off.
"""

from collections.abc import Iterator
from typing import NamedTuple

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer

_DEFAULT_LEVEL = 3
_FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
"""The last three bytes of the magic of a frame that is to be stepped over; the first is 0x50 to 0x5f."""

_BLOCK_HEADER_BYTES = 3
_MAX_BLOCK_BYTES = 128 * 1024
_RAW_BLOCK, _RLE_BLOCK, _COMPRESSED_BLOCK = range(3)

_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_CHECKSUM_BYTES = 4


class _Frame(NamedTuple):
    data: memoryview
    content_bytes: int | None
    """What the frame says it unpacks to, if it says so."""
    most_bytes: int
    """What its blocks could unpack to at the most."""


def compress(data: Buffer, level: int | None = None) -> bytes:
    """Return `data` as one frame that says its size, so that readers can make room for it at once."""
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=_DEFAULT_LEVEL if level is None else level).compress(data)


def decompress(data: Buffer, max_bytes: int) -> bytes:
    """Return what the frames in `data` unpack to; CorruptDataError if damaged or above `max_bytes`."""
    from zstandard import ZstdDecompressor, ZstdError

    unpacker = ZstdDecompressor()
    parts: list[bytes] = []
    room = max_bytes
    for frame in _frames(memoryview(data)):
        allowed = min(room, frame.most_bytes)
        if frame.content_bytes is not None and frame.content_bytes > allowed:
            raise _too_large(max_bytes) if frame.content_bytes > room else _damaged("its size is impossible")
        if frame.most_bytes == 0:
            continue
        try:
            # One byte more than is allowed tells too much apart from just enough.
            part = unpacker.decompress(frame.data, max_output_size=allowed + 1)
        except ZstdError as error:
            if room < frame.most_bytes and "too small" in str(error):
                raise _too_large(max_bytes) from None
            raise _damaged(error) from None
        room -= len(part)
        if room < 0:
            raise _too_large(max_bytes)
        if not part and frame.content_bytes is not None:
            raise _damaged("a frame says it is empty and is not")
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(max_bytes: int) -> CorruptDataError:
    return CorruptDataError(f"the zstd data unpacks to more than {max_bytes} bytes")


def _damaged(why: object) -> CorruptDataError:
    return CorruptDataError(f"the zstd data is damaged: {why}")


def _frames(view: memoryview) -> Iterator[_Frame]:
    """Yield the frames that lie back to back in a buffer, which must be nothing but frames."""
    if not len(view):
        raise _damaged("it is empty")
    position = 0
    while position < len(view):
        magic = bytes(view[position : position + 4])
        if magic[1:] == _SKIPPABLE_MAGIC and 0x50 <= magic[0] <= 0x5F:
            position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
        elif magic == _FRAME_MAGIC:
            frame = _frame_at(view, position)
            yield frame
            position += len(frame.data)
        else:
            raise _damaged(f"{len(view) - position} bytes at {position} are no frame")
    if position > len(view):
        raise _damaged("it is cut off")


def _frame_at(view: memoryview, start: int) -> _Frame:
    """Return the frame that begins at `start` (RFC 8878 section 3.1.1); CorruptDataError if it is cut off."""
    descriptor = _byte(view, start + 4)
    single_segment = descriptor & 0x20 != 0
    position = start + (5 if single_segment else 6) + _DICTIONARY_ID_BYTES[descriptor & 0x03]
    size_bytes = _CONTENT_SIZE_BYTES[descriptor >> 6] or int(single_segment)
    content_bytes = int.from_bytes(view[position : position + size_bytes], "little") if size_bytes else None
    if content_bytes is not None and size_bytes == 2:
        content_bytes += 256
    position += size_bytes

    most_bytes = 0
    last = False
    while not last:
        header = int.from_bytes(view[position : position + _BLOCK_HEADER_BYTES], "little")
        last = header & 1 != 0
        kind, size = header >> 1 & 3, header >> 3
        position += _BLOCK_HEADER_BYTES + (1 if kind == _RLE_BLOCK else size)
        if position > len(view):
            raise _damaged("it is cut off")
        most_bytes += _MAX_BLOCK_BYTES if kind == _COMPRESSED_BLOCK else size
    if descriptor & 0x04:
        position += _CHECKSUM_BYTES
    if position > len(view):
        raise _damaged("it is cut off")
    return _Frame(view[start:position], content_bytes, most_bytes)


def _byte(view: memoryview, position: int) -> int:
    if position >= len(view):
        raise _damaged("it is cut off")
    return view[position]

"""The four codecs of record batches behind one face, with a bound on what comes out.

A batch arrives from whoever may produce, so a few kilobytes of it may claim to be gigabytes. No call
here keeps more than `max_bytes` of output, plus a copy of it while the pieces are joined; what would
grow beyond is refused before that copy is made. The codecs' libraries are imported when first used.

Concatenated streams are read as Kafka's own reader does: gzip members, zstd frames and xerial streams
may follow one another, an lz4 frame stands alone. A byte that is left over is an error.
"""

from collections.abc import Callable
from enum import IntEnum

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer
from everlog.records import gzip_members, lz4_frames, snappy_framing, zstd_frames

DEFAULT_MAX_BYTES = 100 * 1024 * 1024
"""The most that one batch may unpack to where the caller has no smaller bound."""


class Codec(IntEnum):
    """The compression codecs, by their number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` packed as a batch's records section; `level` is the codec's own, None its default."""
    pack = _COMPRESSORS.get(codec)
    if pack is None:
        raise ValueError(f"compression codec {codec} does not exist, expected 0 to 4")
    return pack(data, level)


def decompress(codec: int, data: Buffer, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """Return what `data` unpacks to; CorruptDataError if it is damaged, cut off or above `max_bytes`."""
    unpack = _DECOMPRESSORS.get(codec)
    if unpack is None:
        raise CorruptDataError(f"compression codec {codec} does not exist, expected 0 to 4")
    return unpack(data, max_bytes)


def _none_pack(data: Buffer, level: int | None) -> bytes:
    return bytes(data)


def _none_unpack(data: Buffer, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise CorruptDataError(f"the records have {len(data)} bytes, more than {max_bytes}")
    return bytes(data)


def _snappy_pack(data: Buffer, level: int | None) -> bytes:
    return snappy_framing.compress(data)  # Snappy has no levels.


_COMPRESSORS: dict[int, Callable[[Buffer, int | None], bytes]] = {
    Codec.NONE: _none_pack,
    Codec.GZIP: gzip_members.compress,
    Codec.SNAPPY: _snappy_pack,
    Codec.LZ4: lz4_frames.compress,
    Codec.ZSTD: zstd_frames.compress,
}
_DECOMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    Codec.NONE: _none_unpack,
    Codec.GZIP: gzip_members.decompress,
    Codec.SNAPPY: snappy_framing.decompress,
    Codec.LZ4: lz4_frames.decompress,
    Codec.ZSTD: zstd_frames.decompress,
}

"""The four codecs of record batches behind one face, with a bound on what comes out.

A batch arrives from whoever may produce, so a few kilobytes of it may claim to be gigabytes. No call
here keeps more than `max_bytes` of output, plus a copy of it while the pieces are joined; what would
grow beyond is refused before that copy is made. The codecs' libraries are imported when first used.

Concatenated streams are read as Kafka's own reader does: gzip members, zstd frames and xerial streams
may follow one another, an lz4 frame stands alone. A byte that is left over is an error.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer
from everlog.records import snappy_framing, zstd_frames

DEFAULT_MAX_BYTES = 100 * 1024 * 1024
"""The most that one batch may unpack to where the caller has no smaller bound."""

_FIRST_PIECE = 1 << 16
_LARGEST_PIECE = 1 << 22

_GZIP_WINDOW_BITS = 31  # 15 bits of window, plus 16: a gzip header and trailer around it.
_GZIP_FASTEST_LEVELS = range(4)

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_INDEPENDENT_BLOCKS = 0x20
_LZ4_DEFAULT_LEVEL = 9


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


def _too_large(codec: Codec, max_bytes: int) -> CorruptDataError:
    return CorruptDataError(f"the {codec.name.lower()} data unpacks to more than {max_bytes} bytes")


def _damaged(codec: Codec, why: object) -> CorruptDataError:
    return CorruptDataError(f"the {codec.name.lower()} data is damaged: {why}")


def _none_pack(data: Buffer, level: int | None) -> bytes:
    return bytes(data)


def _none_unpack(data: Buffer, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise _too_large(Codec.NONE, max_bytes)
    return bytes(data)


class _Inflater(Protocol):
    """What zlib's and isal's decompression objects have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: Buffer, max_length: int = ..., /) -> bytes: ...


def _gzip_pack(data: Buffer, level: int | None) -> bytes:
    if level is None or level in _GZIP_FASTEST_LEVELS:
        try:
            from isal import isal_zlib
        except ImportError:
            pass
        else:
            # Its level 2 lands near zlib's 4 in size, at several times the speed.
            return isal_zlib.compress(data, 2 if level is None else level, _GZIP_WINDOW_BITS)
    import zlib

    packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return packer.compress(data) + packer.flush()


def _gzip_tools() -> tuple[Callable[[], _Inflater], type[Exception]]:
    try:
        from isal import isal_zlib
    except ImportError:
        import zlib

        return lambda: zlib.decompressobj(_GZIP_WINDOW_BITS), zlib.error
    return lambda: isal_zlib.decompressobj(_GZIP_WINDOW_BITS), isal_zlib.error


def _gzip_unpack(data: Buffer, max_bytes: int) -> bytes:
    new_inflater, error_type = _gzip_tools()
    pieces: list[bytes] = []
    room = max_bytes
    piece_bytes = max(_FIRST_PIECE, 4 * len(data))
    rest = data
    while True:  # once a member
        inflater = new_inflater()
        while not inflater.eof:
            try:
                piece = inflater.decompress(rest, min(room + 1, piece_bytes))
            except error_type as error:
                raise _damaged(Codec.GZIP, error) from None
            room -= len(piece)
            if room < 0:
                raise _too_large(Codec.GZIP, max_bytes)
            if not piece and not inflater.eof:
                raise _damaged(Codec.GZIP, "it is cut off")
            pieces.append(piece)
            rest = inflater.unconsumed_tail
            piece_bytes = _LARGEST_PIECE
        rest = inflater.unused_data
        if not rest:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _snappy_pack(data: Buffer, level: int | None) -> bytes:
    return snappy_framing.compress(data)  # Snappy has no levels.


def _lz4_pack(data: Buffer, level: int | None) -> bytes:
    import lz4.frame

    # As Kafka counts: 9 is its default and means the plain fast compressor, every other level the slow
    # one. Its reader knows neither linked blocks nor much else, so the frame is the plainest there is.
    fast = level is None or level == _LZ4_DEFAULT_LEVEL
    return lz4.frame.compress(
        data,
        compression_level=0 if fast or level is None else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        content_checksum=False,
        block_checksum=False,
        store_size=False,
    )


def _lz4_unpack(data: Buffer, max_bytes: int) -> bytes:
    import lz4.frame

    if len(data) < 7 or bytes(data[:4]) != _LZ4_MAGIC:
        raise _damaged(Codec.LZ4, "it does not begin with a frame")
    if not data[4] & _LZ4_INDEPENDENT_BLOCKS:
        # Kafka's brokers and Java clients cannot read such a frame, so nobody may store one.
        raise _damaged(Codec.LZ4, "its blocks depend on each other")
    unpacker = lz4.frame.LZ4FrameDecompressor()
    pieces: list[bytes] = []
    room = max_bytes
    piece_bytes = max(_FIRST_PIECE, 4 * len(data))
    rest = data
    while not unpacker.eof:
        try:
            piece: bytes = unpacker.decompress(rest, min(room + 1, piece_bytes))
        except RuntimeError as error:
            raise _damaged(Codec.LZ4, error) from None
        room -= len(piece)
        if room < 0:
            raise _too_large(Codec.LZ4, max_bytes)
        if not piece and not unpacker.eof:
            raise _damaged(Codec.LZ4, "it is cut off")
        pieces.append(piece)
        rest = b""
        piece_bytes = _LARGEST_PIECE
    if unpacker.unused_data:
        raise _damaged(Codec.LZ4, f"{len(unpacker.unused_data)} bytes follow its frame")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


_COMPRESSORS: dict[int, Callable[[Buffer, int | None], bytes]] = {
    Codec.NONE: _none_pack,
    Codec.GZIP: _gzip_pack,
    Codec.SNAPPY: _snappy_pack,
    Codec.LZ4: _lz4_pack,
    Codec.ZSTD: zstd_frames.compress,
}
_DECOMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    Codec.NONE: _none_unpack,
    Codec.GZIP: _gzip_unpack,
    Codec.SNAPPY: snappy_framing.decompress,
    Codec.LZ4: _lz4_unpack,
    Codec.ZSTD: zstd_frames.decompress,
}

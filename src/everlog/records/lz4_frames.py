"""LZ4 frames: written as plainly as Java writes them, read with every flag that Java can read."""

from functools import cache
from importlib import import_module
from typing import Protocol, cast

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer

_MAGIC = b"\x04\x22\x4d\x18"
_SMALLEST_FRAME_BYTES = 11  # magic, two bytes of flags, their checksum, the end mark
_INDEPENDENT_BLOCKS = 0x20
_BLOCKS_OF_64_KIB = 4
_KAFKA_DEFAULT_LEVEL = 9

_SLICE_BYTES = 1 << 18
"""How much is put in at once: what a piece leaves over of it is copied, so it is not the whole input."""
_FIRST_PIECE_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20
"""How much is taken out at once: the most by which the output may pass its bound before that is seen."""


class _Unpacker(Protocol):
    eof: bool
    needs_input: bool
    unused_data: bytes | None

    def decompress(self, data: Buffer, max_length: int) -> bytes: ...


class _Library(Protocol):
    """The part of lz4.frame that is used here."""

    def LZ4FrameDecompressor(self) -> _Unpacker: ...
    def compress(
        self, data: Buffer, compression_level: int, block_size: int, *, block_linked: bool, store_size: bool
    ) -> bytes: ...


@cache
def _library() -> _Library:
    return cast("_Library", import_module("lz4.frame"))  # The library has no types.


def compress(data: Buffer, level: int | None = None) -> bytes:
    """Return `data` as one frame of independent blocks of 64 KiB, without sizes and checksums.

    Levels are as Kafka counts: 9, its default, is the plain fast compressor, any other the thorough one.
    """
    fast = level is None or level == _KAFKA_DEFAULT_LEVEL
    return _library().compress(
        data,
        compression_level=0 if level is None or fast else max(3, level),
        block_size=_BLOCKS_OF_64_KIB,
        block_linked=False,
        store_size=False,
    )


def decompress(data: Buffer, max_bytes: int) -> bytes:
    """Return what the one frame in `data` unpacks to; CorruptDataError if damaged or above `max_bytes`."""
    if len(data) < _SMALLEST_FRAME_BYTES or bytes(data[: len(_MAGIC)]) != _MAGIC:
        raise _damaged("it does not begin with a frame")
    if not data[len(_MAGIC)] & _INDEPENDENT_BLOCKS:
        # Kafka's brokers and Java clients cannot read such a frame, so nobody may store one.
        raise _damaged("its blocks depend on each other")
    view = memoryview(data)
    unpacker = _library().LZ4FrameDecompressor()
    pieces: list[bytes] = []
    room = max_bytes
    # The library makes room for a whole piece each time; four times the input suits most batches.
    piece_bytes = min(max(_FIRST_PIECE_BYTES, 4 * len(view)), _PIECE_BYTES)
    position = 0
    while not unpacker.eof:
        fed = view[position : position + _SLICE_BYTES] if unpacker.needs_input else b""
        position += len(fed)
        try:
            piece = unpacker.decompress(fed, min(room + 1, piece_bytes))
        except RuntimeError as error:
            raise _damaged(error) from None
        room -= len(piece)
        if room < 0:
            raise CorruptDataError(f"the lz4 data unpacks to more than {max_bytes} bytes")
        if piece:
            pieces.append(piece)
        elif position == len(view) and not fed and not unpacker.eof:
            raise _damaged("it is cut off")
        piece_bytes = _PIECE_BYTES
    left_over = len(unpacker.unused_data or b"") + len(view) - position
    if left_over:
        raise _damaged(f"{left_over} bytes follow its frame")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _damaged(why: object) -> CorruptDataError:
    return CorruptDataError(f"the lz4 data is damaged: {why}")

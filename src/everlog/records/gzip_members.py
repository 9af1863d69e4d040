"""Gzip, by ISA-L where it is installed and by zlib otherwise; both read what the other writes."""

from functools import cache
from importlib import import_module
from typing import Protocol, cast

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer

_WINDOW_BITS = 31  # 15 bits of window, plus 16: a gzip header and trailer around it.
_ISAL_LEVELS = range(4)
_ISAL_DEFAULT_LEVEL = 2
"""About as small as zlib's default, at several times the speed."""

_SLICE_BYTES = 1 << 18
"""How much is put in at once: what a piece leaves over of it is copied, so it is not the whole input."""
_PIECE_BYTES = 1 << 20
"""How much is taken out at once: the most by which the output may pass its bound before that is seen."""


class _Inflater(Protocol):
    eof: bool
    unused_data: bytes
    unconsumed_tail: bytes

    def decompress(self, data: Buffer, max_length: int = ..., /) -> bytes: ...


class _Deflater(Protocol):
    def compress(self, data: Buffer, /) -> bytes: ...
    def flush(self) -> bytes: ...


class _Library(Protocol):
    """What zlib and isal_zlib have in common."""

    error: type[Exception]

    def decompressobj(self, wbits: int) -> _Inflater: ...
    def compressobj(self, level: int, method: int, wbits: int) -> _Deflater: ...


_DEFLATED = 8


@cache
def _library(name: str) -> _Library | None:
    try:
        return cast("_Library", import_module(name))  # One has no types, and the other has others.
    except ImportError:
        return None


def compress(data: Buffer, level: int | None = None) -> bytes:
    """Return `data` as one gzip member. Levels are zlib's; ISA-L, if it is there, does those from 0 to 3."""
    library = _library("isal.isal_zlib") if level is None or level in _ISAL_LEVELS else None
    if library is not None:
        packer = library.compressobj(_ISAL_DEFAULT_LEVEL if level is None else level, _DEFLATED, _WINDOW_BITS)
    else:
        library = _library("zlib")
        assert library is not None, "Python comes with zlib"
        packer = library.compressobj(-1 if level is None else level, _DEFLATED, _WINDOW_BITS)
    return packer.compress(data) + packer.flush()


def decompress(data: Buffer, max_bytes: int) -> bytes:
    """Return what the members in `data` unpack to; CorruptDataError if damaged or above `max_bytes`."""
    library = _library("isal.isal_zlib") or _library("zlib")
    assert library is not None, "Python comes with zlib"
    return decompress_by(library, data, max_bytes)


def decompress_by(library: _Library, data: Buffer, max_bytes: int) -> bytes:
    """As `decompress`, by the library given."""
    view = memoryview(data)
    pieces: list[bytes] = []
    room = max_bytes
    position = 0
    while True:
        inflater = library.decompressobj(_WINDOW_BITS)
        pending: Buffer = b""
        while not inflater.eof:
            if not pending:
                pending = view[position : position + _SLICE_BYTES]
                position += len(pending)
            try:
                piece = inflater.decompress(pending, min(room + 1, _PIECE_BYTES))
            except library.error as error:
                raise CorruptDataError(f"the gzip data is damaged: {error}") from None
            pending = inflater.unconsumed_tail
            room -= len(piece)
            if room < 0:
                raise CorruptDataError(f"the gzip data unpacks to more than {max_bytes} bytes")
            if piece:
                pieces.append(piece)
            elif position == len(view) and not pending and not inflater.eof:
                raise CorruptDataError("the gzip data is damaged: it is cut off")
        position -= len(inflater.unused_data)
        if position == len(view):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)

"""A byte stream to frames: an int32 size, then that many bytes.

The broker's edge has its own buffers and only asks `check_frame_size`; clients and the simulator use
FrameSplitter.
"""

from struct import Struct
from typing import Final

from everlog.model.errors import ProtocolError
from everlog.ports.files import Buffer

MAX_FRAME_BYTES: Final = 104_857_600
"""What a frame may have where nothing else is set: Kafka's `socket.request.max.bytes`."""

SIZE_BYTES: Final = 4

_SIZE: Final = Struct(">i")

_METHODS: Final = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")
"""The first four bytes of an HTTP request, by method; `PRI ` opens HTTP/2."""

_HTTP_SIZES: Final = frozenset(int.from_bytes(method, "big") for method in _METHODS)


def check_frame_size(size: int, limit: int) -> None:
    """Refuse a size that no frame can have, before anything is allocated for it.

    The ProtocolError says so where the bytes are not Kafka's protocol but those of TLS or HTTP.
    """
    if 0 <= size <= limit:
        return
    if size >> 8 & 0xFFFFFF in _TLS_HANDSHAKES:
        raise ProtocolError(
            "the peer speaks TLS, but this port does not: a ClientHello came where a frame's size is expected"
        )
    if size in _HTTP_SIZES:
        raise ProtocolError("the peer speaks HTTP, but this port speaks the Kafka protocol")
    if size < 0:
        raise ProtocolError(f"a frame cannot have {size} bytes")
    raise ProtocolError(f"a frame of {size} bytes is more than the limit of {limit}")


_TLS_HANDSHAKES: Final = frozenset(0x160300 + minor for minor in range(5))
"""The first three bytes of a TLS record that holds a handshake: type 22, version 3.0 to 3.4 (KIP-498)."""


class FrameSplitter:
    """Bytes in as they come, whole frames out; keeps at most one frame and what came with its last bytes.

    `feed` allocates for bytes that are there, never for bytes that a size announces.
    """

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self._limit = limit
        self._buffer = bytearray()

    @property
    def buffered(self) -> int:
        """Bytes of a frame that is not yet whole, its size field included."""
        return len(self._buffer)

    def feed(self, data: Buffer) -> list[bytes]:
        """Take in bytes and return the frames they complete, without their sizes, in order.

        A ProtocolError ends the stream: the splitter cannot tell where the next frame would begin.
        """
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        at = 0
        while len(buffer) - at >= SIZE_BYTES:
            (size,) = _SIZE.unpack_from(buffer, at)
            check_frame_size(size, self._limit)
            end = at + SIZE_BYTES + size
            if end > len(buffer):
                break
            frames.append(bytes(buffer[at + SIZE_BYTES : end]))
            at = end
        if at:
            del buffer[:at]
        return frames

"""The size before each frame of a byte stream: an int32, then that many bytes.

Whoever reads a stream has buffers of its own, and asks here what a size can be.
"""

from typing import Final

from everlog.model.errors import ProtocolError

SIZE_BYTES: Final = 4

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

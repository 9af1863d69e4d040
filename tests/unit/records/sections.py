"""Records sections made by hand, right and wrong, for the tests of what reads them."""

from collections.abc import Sequence

from everlog.records.varint import append_varint

NOON = 1_700_000_000_000


def varint(value: int) -> bytes:
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


def field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def a_record(
    offset_delta: int = 0,
    *,
    timestamp_delta: int = 0,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    headers: Sequence[tuple[bytes, bytes | None]] = (),
) -> bytes:
    """One record with its size in front."""
    header_fields = b"".join(field(name) + field(content) for name, content in headers)
    return sized(
        b"\x00"
        + varint(timestamp_delta)
        + varint(offset_delta)
        + field(key)
        + field(value)
        + varint(len(headers))
        + header_fields
    )


def sized(body: bytes) -> bytes:
    return varint(len(body)) + body

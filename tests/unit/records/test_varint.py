"""Varints of records: their bytes, and the ones that are refused (L1, O5)."""

import pytest

from everlog.model.errors import CorruptDataError
from everlog.records.varint import append_varint, read_varint, read_varlong, varint_bytes

KNOWN = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (8192, "808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
KNOWN_LONG = [
    (2**63 - 1, "feffffffffffffffff01"),
    (-(2**63), "ffffffffffffffffff01"),
    (2**34, "808080808001"),
]


@pytest.mark.parametrize(("value", "encoded"), KNOWN)
def test_a_value_has_the_bytes_that_kafka_gives_it(value: int, encoded: str) -> None:
    out = bytearray()
    append_varint(out, value)

    assert out.hex() == encoded
    assert varint_bytes(value) == len(out)
    assert read_varint(out, 0) == (value, len(out))
    assert read_varlong(out, 0) == (value, len(out))


@pytest.mark.parametrize(("value", "encoded"), KNOWN_LONG)
def test_a_long_value_is_read_as_varlong_and_refused_as_varint(value: int, encoded: str) -> None:
    out = bytearray()
    append_varint(out, value)

    assert out.hex() == encoded
    assert varint_bytes(value) == len(out)
    assert read_varlong(out, 0) == (value, len(out))
    with pytest.raises(CorruptDataError, match="more than 32 bits"):
        read_varint(out, 0)


def test_needless_zero_bits_are_read_as_kafka_reads_them() -> None:
    assert read_varint(b"\x82\x80\x00", 0) == (1, 3)


def test_bits_beyond_32_are_refused() -> None:
    assert read_varint(b"\xff\xff\xff\xff\x0f", 0) == (-(2**31), 5)
    with pytest.raises(CorruptDataError, match="more than 32 bits"):
        read_varint(b"\xff\xff\xff\xff\x1f", 0)


def test_bits_beyond_64_are_refused() -> None:
    with pytest.raises(CorruptDataError, match="more than 64 bits"):
        read_varlong(b"\xff" * 9 + b"\x03", 0)
    with pytest.raises(CorruptDataError, match="more than 64 bits"):
        read_varlong(b"\xff" * 11, 0)


@pytest.mark.parametrize("cut", [b"", b"\x80", b"\xff\xff\xff"])
def test_bytes_that_end_in_the_middle_are_refused(cut: bytes) -> None:
    with pytest.raises(CorruptDataError, match="cut off"):
        read_varint(cut, 0)

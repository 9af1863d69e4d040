"""Varints as records use them: zigzag, seven bits a byte, the low bits first.

The reference that the compiled twin is held to. A value has at most 32 bits where the format says
varint and 64 where it says varlong; more bits, or bytes that end in the middle, are a CorruptDataError.
"""

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer

VARINT_BITS = 32
VARLONG_BITS = 64

SMALLEST_INT64 = -(1 << 63)
LARGEST_INT64 = (1 << 63) - 1
"""What a varlong, and the fields of a batch, can hold."""


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Return the 32-bit value at `position`, and the position behind it."""
    # Nearly all are of one byte or two.
    try:
        if (low := data[position]) < 0x80:
            return (low >> 1) ^ -(low & 1), position + 1
        if (high := data[position + 1]) < 0x80:
            return (low & 0x7F | high << 7) >> 1 ^ -(low & 1), position + 2
    except IndexError:
        pass  # Said in words below.
    return _read(data, position, VARINT_BITS)


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """Return the 64-bit value at `position`, and the position behind it."""
    # Nearly all are of one byte or two.
    try:
        if (low := data[position]) < 0x80:
            return (low >> 1) ^ -(low & 1), position + 1
        if (high := data[position + 1]) < 0x80:
            return (low & 0x7F | high << 7) >> 1 ^ -(low & 1), position + 2
    except IndexError:
        pass  # Said in words below.
    return _read(data, position, VARLONG_BITS)


def _read(data: Buffer, position: int, bits: int) -> tuple[int, int]:
    raw = 0
    end = len(data)
    for shift in range(0, bits, 7):
        if position >= end:
            raise CorruptDataError(f"a varint is cut off at byte {position}")
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> bits:
                break
            return (raw >> 1) ^ -(raw & 1), position
    raise CorruptDataError(f"the varint that ends at byte {position} has more than {bits} bits")


def append_varint(out: bytearray, value: int) -> None:
    """Append a value of at most 64 bits; a varlong of the same value has the same bytes."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def varint_bytes(value: int) -> int:
    """How many bytes a value takes."""
    raw = (value << 1) ^ (value >> 63)
    return max(1, (raw.bit_length() + 6) // 7)

"""Record batches of format 2, made once and sent many times."""

import random
import time
from struct import Struct

from crc32c import crc32c

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
_CRC_START = 21
_LENGTH_OVERHEAD = 12
_AFTER_CRC = Struct(">hiqqqhii")
_BEFORE_CRC = Struct(">qiibI")
VALUE_BYTES = 100


def batch_of(count: int, value_bytes: int = VALUE_BYTES) -> bytes:
    """Return a valid batch of `count` records without keys, from no idempotent producer.

    Offset and epoch are left to the broker, and without a producer id there are no sequence numbers, so the
    same bytes can be sent any number of times.
    """
    chance = random.Random(count)
    value = chance.randbytes(value_bytes)
    records = bytearray()
    for delta in range(count):
        body = b"\x00\x00" + _varint(delta) + b"\x01" + _varint(value_bytes) + value + b"\x00"
        records += _varint(len(body)) + body
    now = int(time.time() * 1000)
    checked = _AFTER_CRC.pack(0, count - 1, now, now, -1, -1, -1, count) + records
    length = HEADER_BYTES - _LENGTH_OVERHEAD + len(records)
    return _BEFORE_CRC.pack(0, length, -1, 2, crc32c(checked)) + checked


def batch_of_size(max_bytes: int) -> tuple[bytes, int]:
    """Return the largest batch of 100-byte records within `max_bytes`, and how many records it has."""
    most = len(batch_of(2)) - len(batch_of(1))
    count = max(1, (max_bytes - HEADER_BYTES) // most)
    while count > 1 and len(batch := batch_of(count)) > max_bytes:
        count -= max(1, (len(batch) - max_bytes) // (most + 2))
    return batch_of(count), count


def check_batches(data: memoryview, first_offset: int) -> int:
    """Check checksums and offsets of the whole batches in `data`; return the offset after the last."""
    offset = first_offset
    position = 0
    while len(data) - position >= HEADER_BYTES:
        fields = HEADER.unpack_from(data, position)
        base_offset, length, magic, crc, last_delta = fields[0], fields[1], fields[3], fields[4], fields[6]
        size = length + _LENGTH_OVERHEAD
        if size > len(data) - position:
            break
        if magic != 2 or crc32c(data[position + _CRC_START : position + size]) != crc:
            raise RuntimeError(f"a fetched batch at offset {base_offset} is damaged")
        if not base_offset <= offset <= base_offset + last_delta:
            raise RuntimeError(f"fetched offset {base_offset}, expected {offset}")
        offset = base_offset + last_delta + 1
        position += size
    return offset


def _varint(value: int) -> bytes:
    zigzag = value << 1 ^ value >> 63
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)

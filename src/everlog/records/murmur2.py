"""The hash of keys that Kafka's clients agree on, and the partition that it gives (P1).

`murmur2_plainly` is the reference that compiled twins are held to.
"""

from typing import TYPE_CHECKING

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2_plainly(data: bytes) -> int:
    """Return the 32-bit hash of `data` that Kafka's clients agree on, as an unsigned number."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    if whole != length:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


if TYPE_CHECKING:
    murmur2 = murmur2_plainly
else:
    try:
        from everlog.records._rows import murmur2
    except ImportError:
        murmur2 = murmur2_plainly


def partition_of_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key; the same for every client that uses murmur2."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count

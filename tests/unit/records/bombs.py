"""Decompression bombs, a child process that takes each, and what it cost; run by test_bombs.

`python -m tests.unit.records.bombs` prints a line a bomb: name, outcome, and by how many KiB resident
memory rose at its highest. It reads that from Linux, which can be told to forget earlier peaks.
"""

import ctypes
from collections.abc import Callable

from everlog.model.errors import CorruptDataError
from everlog.records.compression import Codec, compress, decompress

MAX_BYTES = 4 << 20
UNPACKED_BYTES = 512 << 20


def gzip_bomb() -> bytes:
    """Members of 4 MiB of zeros, strung together."""
    return compress(Codec.GZIP, bytes(4 << 20), 3) * (UNPACKED_BYTES >> 22)


def snappy_stream_bomb() -> bytes:
    packed = compress(Codec.SNAPPY, bytes(4 << 20))
    return packed + packed[16:] * ((UNPACKED_BYTES >> 22) - 1)


def snappy_claim_bomb() -> bytes:
    """One bare block that says it holds 4 GiB."""
    return b"\xff\xff\xff\xff\x0f" + b"\x00" * 100


def lz4_bomb() -> bytes:
    """One frame whose one compressed block comes again and again."""
    packed = compress(Codec.LZ4, bytes(1 << 16))
    header, block, end = packed[:7], packed[7:-4], packed[-4:]
    return header + block * (UNPACKED_BYTES >> 16) + end


def zstd_bomb() -> bytes:
    """One frame of blocks that are four bytes each and repeat one byte 128 Ki times."""
    block = ((1 << 17) << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = (0 << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * (UNPACKED_BYTES >> 17) + last


def zstd_claim_bomb() -> bytes:
    """One frame that says it holds a tebibyte, and an empty block."""
    return b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00"


def zstd_window_bomb() -> bytes:
    """One frame that asks for a window of 3.75 TiB."""
    return b"\x28\xb5\x2f\xfd\x00\xff" + zstd_bomb()[6:]


BOMBS: dict[str, tuple[Codec, Callable[[], bytes]]] = {
    "gzip": (Codec.GZIP, gzip_bomb),
    "snappy-stream": (Codec.SNAPPY, snappy_stream_bomb),
    "snappy-claim": (Codec.SNAPPY, snappy_claim_bomb),
    "lz4": (Codec.LZ4, lz4_bomb),
    "zstd": (Codec.ZSTD, zstd_bomb),
    "zstd-claim": (Codec.ZSTD, zstd_claim_bomb),
    "zstd-window": (Codec.ZSTD, zstd_window_bomb),
}


def memory_kib(kind: str) -> int:
    """Resident memory now (VmRSS), or the most since the peak was last forgotten (VmHWM)."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(kind))


def forget_peak() -> None:
    # What earlier work has freed is given back first, or the next could use it unseen.
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as control:
        control.write("5")


def main() -> None:
    for codec in Codec:
        decompress(codec, compress(codec, b"warm up"), MAX_BYTES)
    for name, (codec, build) in BOMBS.items():
        bomb = build()
        forget_peak()
        before = memory_kib("VmRSS")
        try:
            decompress(codec, bomb, MAX_BYTES)
            outcome = "unpacked"
        except CorruptDataError:
            outcome = "refused"
        print(name, outcome, memory_kib("VmHWM") - before)


if __name__ == "__main__":
    main()

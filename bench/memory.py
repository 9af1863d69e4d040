"""Memory that a figure can be trusted on: backed by the host before anybody is measured on it.

A hypervisor takes memory back that its guest does not use, and the first touch of it afterwards costs far
more than all the rest of an append: 100 MB/s were seen where the same copy has 4,000.
"""

import mmap
from pathlib import Path

_PAGE_BYTES = mmap.PAGESIZE
_HUGE_BYTES = 2 << 20
_HELD_BYTES = 6 << 30
"""For the files of both brokers; most samples write one GiB."""


class BackedMemory:
    """Free memory that the host does not take back, while this is open.

    Only free blocks of two megabytes are given to the host. So all but the last page of each such block is
    given free here: what is left of it is whole enough for the largest pages of a cached file, is never
    reported as free, and is what the kernel hands out first, as it takes the smallest block that will do.
    """

    def __init__(self, size: int = _HELD_BYTES) -> None:
        blocks = min(size, available_bytes() // 2) // _HUGE_BYTES
        size = blocks * _HUGE_BYTES
        self._held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._held.madvise(mmap.MADV_HUGEPAGE)
        touch = b"\1" * blocks
        self._held[::_HUGE_BYTES] = touch
        last = _HUGE_BYTES - _PAGE_BYTES
        for at in range(0, size, _HUGE_BYTES):
            # Said to be free, a part of a huge page makes the kernel split it; written again, it stays.
            self._held.madvise(mmap.MADV_FREE, at + last, _PAGE_BYTES)
        self._held[last::_HUGE_BYTES] = touch
        self._held.madvise(mmap.MADV_NOHUGEPAGE)  # Else the kernel would join what was split.
        for at in range(0, size, _HUGE_BYTES):
            self._held.madvise(mmap.MADV_DONTNEED, at, last)

    def close(self) -> None:
        """Give the memory back."""
        self._held.close()


def available_bytes() -> int:
    """What the kernel says can be had without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0

"""Memory that a figure can be trusted on: backed by the host before anybody is measured on it.

A hypervisor takes memory back that its guest does not use, and the first touch of it afterwards costs far
more than all the rest of an append: 100 MB/s were seen where the same copy has 4,000.
"""

import mmap
import resource
import socket
from pathlib import Path

_PAGE_BYTES = mmap.PAGESIZE
_HUGE_BYTES = 2 << 20
_HELD_BYTES = 6 << 30
"""For the files of both brokers; most samples write one GiB."""
_SENT_BYTES = 1 << 30
"""For what is on its way between processes: the kernel was seen to take 400 MB in turn for a sample's."""
_CHUNK_BYTES = 64 * 1024


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
        self._sent = SentMemory()

    def close(self) -> None:
        """Give the memory back."""
        self._held.close()
        self._sent.close()


class SentMemory:
    """The same for the memory of what sockets carry, which the kernel takes from blocks that no process has.

    When those run out it breaks up the largest free block there is, which nobody has touched: a loader that
    copied into such memory took 0.55 to 0.8 CPU seconds a GB in place of 0.29, and was the limit. So as many
    sockets as there are to be blocks are filled here, and read again but for their last piece.
    """

    def __init__(self, size: int = _SENT_BYTES) -> None:
        pairs = size // _HUGE_BYTES
        _allow_files(2 * pairs)
        self.pairs = [socket.socketpair() for _ in range(pairs)]
        piece = bytes(_CHUNK_BYTES)
        sent = [_fill(sender, piece) for sender, _ in self.pairs]
        for (_, receiver), left in zip(self.pairs, sent, strict=True):
            while left > _CHUNK_BYTES:
                left -= len(receiver.recv(min(_CHUNK_BYTES, left - _CHUNK_BYTES)))

    def close(self) -> None:
        """Give the memory back."""
        for pair in self.pairs:
            for end in pair:
                end.close()


def _fill(sender: socket.socket, piece: bytes) -> int:
    """Send a block's worth, or as much as the system lets a socket hold; return how much."""
    sender.setblocking(False)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _HUGE_BYTES)
    sent = 0
    try:
        while sent < _HUGE_BYTES:
            sent += sender.send(piece)
    except BlockingIOError:
        pass
    return sent


def _allow_files(more: int) -> None:
    """Let this process have so many more files open, where the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = soft + more if hard == resource.RLIM_INFINITY else min(hard, soft + more)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def available_bytes() -> int:
    """What the kernel says can be had without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0

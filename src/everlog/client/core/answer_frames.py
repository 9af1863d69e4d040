"""A stream of answers, cut into frames: each whole answer in a buffer of its own, read into place."""

import mmap
from typing import Final

from everlog.client.core.memory import KEPT_BYTES, keep_memory
from everlog.model.errors import ProtocolError

MAX_ANSWER_BYTES: Final = 512 * 1024 * 1024
"""Above it the peer does not speak the protocol: an HTTP answer would claim more than a gigabyte."""

MAX_FIRST_ANSWER_BYTES: Final = 1024 * 1024
"""Until versions are agreed on. A TLS record, taken for a size, claims 352 MB (KIP-498)."""

SCRATCH_BYTES: Final = 64 * 1024
SPARE_FROM_BYTES: Final = 64 * 1024
"""Answers below it are no reason to keep memory."""

SPARES_BYTES: Final = 2 * KEPT_BYTES
"""How much memory is kept for large answers. One is on its way, one or two wait, one is being read and one is
with the application: with answers of 8 MiB, the most that our own readers ask for, that is about so much."""

HUGE_PAGE_BYTES: Final = 2 * 1024 * 1024
"""From here on memory is asked for in pages of this size, where the system has them: one of 4 KiB costs
almost as much to be made, and what is read into few pages is read faster too."""

_SIZE_BYTES: Final = 4
_NO_FRAMES: Final[list[memoryview]] = []


class AnswerFrames:
    """Gives out the buffer to read into and takes back how much was read.

    An answer that fits the scratch buffer is copied out of it; the rest of a larger one is read where it
    will stay. Each has a buffer of its own: record batches are used in place and keep it alive. Large
    buffers are used again once nothing points into them, as long as large answers come.
    """

    def __init__(self, peer: str) -> None:
        self.max_bytes = MAX_FIRST_ANSWER_BYTES
        """The largest answer that is believed."""
        self._peer = peer
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._held = 0
        self._frame: memoryview | None = None
        self._filled = 0
        self._spares: list[_Memory] = []

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._frame is not None:
            return self._frame[self._filled :]
        return self._scratch[self._held :]

    def filled(self, count: int) -> list[memoryview]:
        """Take in `count` bytes that were put into `buffer`; return the answers that are whole now.

        ProtocolError if what came cannot be the size of an answer; nothing can be read after it.
        """
        if self._frame is not None:
            self._filled += count
            if self._filled < len(self._frame):
                return _NO_FRAMES
            frame, self._frame = self._frame, None
            return [frame]
        self._held += count
        return self._split()

    def _split(self) -> list[memoryview]:
        at = 0
        frames: list[memoryview] = []
        scratch, held = self._scratch, self._held
        while held - at >= _SIZE_BYTES:
            size = int.from_bytes(scratch[at : at + _SIZE_BYTES], "big", signed=True)
            if not _SIZE_BYTES <= size <= self.max_bytes:
                raise ProtocolError(self._not_a_size(bytes(scratch[at:held][:16]), size))
            at += _SIZE_BYTES
            here = min(size, held - at)
            frame = self._new_frame(size)
            frame[:here] = scratch[at : at + here]
            at += here
            if here < size:
                self._frame, self._filled = frame, here
                break
            frames.append(frame)
        rest = held - at
        if rest and at:
            scratch[:rest] = scratch[at:held]
        self._held = rest
        return frames

    def _new_frame(self, size: int) -> memoryview:
        """A buffer for an answer. New memory is dear: each page of it is made and cleared first."""
        if size < SPARE_FROM_BYTES:
            self._spares.clear()
            return memoryview(bytearray(size))
        for spare in self._spares:
            if size <= len(spare) and _is_free(spare):
                return memoryview(spare)[:size]
        keep_memory()
        # What is free is too small, and would only keep larger ones from being kept.
        self._spares[:] = [spare for spare in self._spares if not _is_free(spare)]
        # Answers of a kind differ a little in size.
        made = _new_memory(size + size // 8)
        if sum(map(len, self._spares)) + len(made) <= SPARES_BYTES:
            self._spares.append(made)
        return memoryview(made)[:size]

    def _not_a_size(self, start: bytes, size: int) -> str:
        if start.startswith(b"HTTP/"):
            return f"broker {self._peer} answered in HTTP: this is not a Kafka listener"
        if start[:1] in (b"\x15", b"\x16") and start[1:2] == b"\x03":
            return f"broker {self._peer} answered in TLS: set security_protocol to SSL or SASL_SSL"
        return (
            f"broker {self._peer} sent an answer of {size} bytes, expected 4 to {self.max_bytes}: "
            "is it a Kafka listener?"
        )


_Memory = bytearray | mmap.mmap


def _new_memory(size: int) -> _Memory:
    if size < HUGE_PAGE_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return bytearray(size)
    made = mmap.mmap(-1, -(-size // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    made.madvise(mmap.MADV_HUGEPAGE)
    return made


def _is_free(memory: _Memory) -> bool:
    """Whether no view of it is left: with one, its size cannot be changed."""
    try:
        if isinstance(memory, mmap.mmap):
            memory.resize(len(memory))
        else:
            memory.append(0)
            memory.pop()
    except BufferError:
        return False
    return True

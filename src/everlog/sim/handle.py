"""An open file of a simulated disk."""

import errno
import os
from collections.abc import Iterable, Sequence
from typing import Protocol

from everlog.ports.files import Buffer
from everlog.sim.faults import Kind
from everlog.sim.platter import Inode


def os_error(number: int, path: str) -> OSError:
    """The error that the system would raise."""
    return OSError(number, os.strerror(number), path)


class Disk(Protocol):
    """What an open file asks of the disk it lies on."""

    def write(self, inode: Inode, path: str, position: int, data: bytes) -> None:
        """Write at the end of a file, as far as faults and the quota allow."""
        ...

    def make_room(self, inode: Inode, path: str, position: int) -> None:
        """Write zeros behind the end where files have room there, if the disk lets us."""
        ...

    def overwrite(self, inode: Inode, path: str, position: int, data: bytes) -> None:
        """Write bytes over the very same ones."""
        ...

    def cut(self, kind: Kind, inode: Inode, path: str, size: int) -> None:
        """Cut a file."""
        ...

    def sync(self, inode: Inode, path: str) -> None:
        """Make a file's bytes durable, or lose track of them where it fails."""
        ...

    def forget(self, file: "SimFile") -> None:
        """Know an open file no more."""
        ...

    def check_read(self, path: str) -> None:
        """Raise what a read at `path` must fail with, if anything."""
        ...

    def check_alive(self) -> None:
        """Raise Crashed where this disk's machine has stopped."""
        ...


class SimFile:
    """One open file of a simulated disk; see `everlog.ports.files.File` for what it promises."""

    def __init__(self, files: Disk, inode: Inode, path: str) -> None:
        self.path = path
        """Where the file is now."""
        self.size = len(inode.data)
        """Bytes in the file, as far as this handle has written or found them."""
        self.broken = False
        """Whether a failed write could not be taken back, or a sync has failed."""
        self.gone = 0
        """The errno of whatever is asked of it: EBADF once closed, ENOENT once removed, 0 before."""
        self._files = files
        self._inode = inode

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all the buffers at the end, or nothing, and return the position of the first byte."""
        self._check(writing=True)
        position = self.size
        data = b"".join(buffers)
        # What a failed cut left behind our end is overwritten by nobody: the handle is broken then.
        try:
            self._files.write(self._inode, self.path, position, data)
        except OSError:
            self._cut_back()
            raise
        self.size = position + len(data)
        self._files.make_room(self._inode, self.path, self.size)
        return position

    def lend(self) -> tuple[object, int] | None:
        """Only `append` will do here, so that faults and crashes reach every write."""
        return None

    def grown_to(self, size: int) -> None:
        """Nothing was lent, so nobody else can have written."""
        assert size == self.size, (self.path, size, self.size)

    def take_back(self) -> None:
        """Nothing was lent."""

    def read(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes from `position`; fewer only at the end of the file."""
        self._check()
        self._files.check_read(self.path)
        return bytes(self._inode.data[position : max(position, min(position + length, self.size))])

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, which are no more than it has."""
        assert 0 <= size <= self.size, (self.path, size, self.size)
        self._check()
        self._files.cut(Kind.TRUNCATE, self._inode, self.path, size)
        self.size = size

    def sync(self) -> None:
        """Make all bytes durable. Once it has failed the file is broken."""
        self._check(writing=True)
        try:
            self._files.sync(self._inode, self.path)
        except OSError:
            self.broken = True
            raise

    def rewrite(self, position: int, buffers: Iterable[Buffer]) -> None:
        """Write the bytes from `position` on again and make them durable; the file is whole after it."""
        self._check()
        self.broken = True
        if len(self._inode.data) != self.size:
            self._files.cut(Kind.CUT_BACK, self._inode, self.path, self.size)
        for buffer in buffers:
            self._files.overwrite(self._inode, self.path, position, bytes(buffer))
            position += len(buffer)
        assert position == self.size, (self.path, position, self.size)
        self._files.sync(self._inode, self.path)
        self.broken = False

    def trim(self) -> None:
        """Give back the room behind the end."""
        if len(self._inode.data) > self.size and not self.broken and not self.gone:
            self._files.cut(Kind.TRUNCATE, self._inode, self.path, self.size)

    def close(self) -> None:
        """Let go of the file; closing twice is harmless."""
        try:
            self.trim()
        except OSError:
            pass
        self._files.forget(self)
        self.gone = errno.EBADF

    def _cut_back(self) -> None:
        if len(self._inode.data) == self.size:
            return
        try:
            self._files.cut(Kind.CUT_BACK, self._inode, self.path, self.size)
        except OSError:
            self.broken = True

    def _check(self, *, writing: bool = False) -> None:
        self._files.check_alive()
        if self.gone:
            raise os_error(self.gone, self.path)
        if writing and self.broken:
            raise os_error(errno.EIO, self.path)

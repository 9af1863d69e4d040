"""The real disk.

Appends and reads are one system call each, at an explicit position: `size` says where the file ends, and
what may lie behind it after a failed write is neither read nor built upon. Every call may be made from
any thread, but one thread at a time appends to and cuts a file, and the loop is that thread.

A file whose descriptor was given back while it had unsynced bytes is opened again to be synced. The
kernel keeps a write-back error for such a late comer (errseq_t, Linux 4.13) as long as it keeps the
inode in memory; `max_open_files` above the number of files in use makes even that certain.
"""

import errno
import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from everlog.edge.descriptors import Descriptor, DescriptorPool, regular_file_size
from everlog.edge.mapping import map_file
from everlog.ports.files import Buffer

try:
    from everlog.edge import _appender
except ImportError:
    _appender = None  # type: ignore[assignment]  # the one module that may be missing

_DIRECTORY_MODE = 0o700
# The most buffers that one writev takes (IOV_MAX).
_BUFFERS_AT_ONCE = 1024
# fdatasync leaves out the times of the file, and keeps all that is needed to read its bytes back.
_RESERVE_FROM_BYTES = 4 << 20
_RESERVE_MOST_BYTES = 16 << 20
_NEVER = 1 << 62
_sync_data = getattr(os, "fdatasync", os.fsync)


class RealFile:
    """One file on the real disk; see `everlog.ports.files.File` for what it promises."""

    __slots__ = ("_broken", "_descriptor", "_lent", "_roomy", "_size", "_until")

    def __init__(self, descriptor: Descriptor, size: int) -> None:
        self._descriptor = descriptor
        self._size = size
        self._broken = False
        self._lent: object | None = None
        """What compiled code appends by; the descriptor is pinned for it."""
        self._roomy = False
        """Whether there may be room behind the end that was made ahead of time, reserved or full of zeros."""
        self._until = size + _RESERVE_FROM_BYTES
        """The size from which on more room is worth asking for: small files and idle ones never get there."""

    @property
    def path(self) -> str:
        """Where the file is now."""
        return self._descriptor.path

    @property
    def size(self) -> int:
        """Bytes in the file, as far as this handle has written or found them."""
        return self._size

    @property
    def broken(self) -> bool:
        """Whether a failed write could not be taken back, or a sync has failed."""
        return self._broken

    def pin(self) -> int:
        """Return a descriptor, for `sendfile`, that is valid until `unpin`, even if the file is removed."""
        return self._descriptor.pin()

    def unpin(self) -> None:
        """Give back one pin."""
        self._descriptor.unpin()

    def hold(self) -> None:
        """Keep the file readable until `release`, even if it is removed; needs no descriptor before that."""
        self._descriptor.hold()

    def release(self) -> None:
        """Give back one hold."""
        self._descriptor.release()

    def pinned(self) -> AbstractContextManager[int]:
        """Pin for the length of a `with`."""
        return self._descriptor.pinned()

    @property
    def pinned_descriptor(self) -> int:
        """The descriptor, for one who has it pinned."""
        return self._descriptor.pinned_number

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all the buffers at the end, or nothing, and return the position of the first byte."""
        position = self._size
        descriptor = self._descriptor
        number = descriptor.pin()
        try:
            if self._broken or descriptor.read_only:
                self._refuse()
            # Nearly always all is taken at once.
            if len(buffers) == 1:
                total = len(buffers[0])
                written = os.pwrite(number, buffers[0], position)
            elif len(buffers) <= _BUFFERS_AT_ONCE:
                total = sum(map(len, buffers))
                written = os.pwritev(number, buffers, position)
            else:
                total, written = -1, 0
            if written != total:
                total = _write_all(number, buffers, position)
            self._size = position + total
            if self._size > self._until:
                self._reserve(number)
        except OSError:
            self._cut_back(number)
            raise
        finally:
            descriptor.unpin()
        return position

    def lend(self) -> tuple[object, int] | None:
        """Let compiled code append, up to where more room is asked for; None if it cannot.

        Nor can it where the half of all descriptors is lent: what is lent cannot be closed to make room.
        """
        if _appender is None or self._broken:
            return None
        if self._lent is None:
            number = self._descriptor.pin_for_long()
            if number is None:
                return None
            if self._descriptor.read_only:
                self._descriptor.unpin_for_long()
                return None
            self._lent = _appender.appender(number)
        return self._lent, self._until

    def grown_to(self, size: int) -> None:
        """Take in that the file has `size` bytes now, written by whoever it is lent to."""
        assert size >= self._size, (self.path, size, self._size)
        self._size = size

    def take_back(self) -> None:
        """End a `lend`; harmless where nothing is lent."""
        if self._lent is not None:
            assert _appender is not None, self.path
            self._roomy = self._roomy or _appender.room_end(self._lent) > self._size
            self._lent = None
            self._descriptor.unpin_for_long()

    def read(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes from `position`; fewer only at the end of the file."""
        # Bytes behind our size are left from a write that failed: they are nobody's.
        length = min(length, self._size - position)
        if length <= 0:
            return b""
        descriptor = self._descriptor
        number = descriptor.pin()
        try:
            data = os.pread(number, length, position)
            if len(data) == length:
                return data
            return _read_the_rest(number, data, position, length)
        finally:
            descriptor.unpin()

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, which are no more than it has."""
        assert 0 <= size <= self._size, (self.path, size, self._size)
        with self._descriptor.pinned() as number:
            if self._descriptor.read_only:
                self._refuse()
            os.ftruncate(number, size)
            self._size = size

    def sync(self) -> None:
        """Make all bytes durable; blocks. Bytes that the loop appends meanwhile belong to the next sync."""
        if self._broken:
            self._refuse()
        with self._descriptor.pinned() as number:
            try:
                _sync_data(number)
            except OSError:
                # The kernel has marked the pages clean although they never reached the disk, so the
                # next fsync would succeed and mean nothing (Rebello et al., USENIX ATC 2020).
                self._broken = True
                raise

    def rewrite(self, position: int, buffers: Iterable[Buffer]) -> None:
        """Write the bytes from `position` on again and make them durable; blocks. See the port."""
        with self._descriptor.pinned() as number:
            if self._descriptor.read_only:
                self._refuse()
            self._broken = True
            os.ftruncate(number, self._size)
            for buffer in buffers:
                position += _write_all(number, (buffer,), position)
            assert position == self._size, (self.path, position, self._size)
            _sync_data(number)
            self._broken = False

    def _reserve(self, number: int) -> None:
        # Imported when first needed: most brokers start long before a file has grown that much.
        from everlog.edge.reserve import reserve

        ahead = min(self._size // 4, _RESERVE_MOST_BYTES)
        if reserve(number, self._size, ahead):
            self._roomy = True
            self._until = self._size + ahead
        else:
            self._until = _NEVER

    def trim(self) -> None:
        """Give back the room behind the end; OSError if the disk does not let us, and the file goes on."""
        if self._roomy and not self._broken:
            with self._descriptor.pinned() as number:
                os.ftruncate(number, self._size)
            self._roomy = False
            self._until = self._size + _RESERVE_FROM_BYTES

    def close(self) -> None:
        """Let go of the file; a pinned descriptor stays valid until it is unpinned, who holds may read."""
        self.take_back()
        try:
            self.trim()
        except OSError:
            pass  # What a start finds behind the last record it cuts off.
        self._descriptor.close()

    def _cut_back(self, number: int) -> None:
        if self._broken or self._descriptor.read_only:
            return
        try:
            os.ftruncate(number, self._size)
        except OSError:
            self._broken = True

    def _refuse(self) -> None:
        problem = errno.EIO if self._broken else self._descriptor.read_only
        raise OSError(problem, os.strerror(problem), self.path)


def _write_all(number: int, buffers: Sequence[Buffer], position: int) -> int:
    """Write all the buffers at `position`, in as many calls as it takes, and return their length in all."""
    left = [memoryview(buffer) for buffer in buffers if len(buffer)]
    at = position
    while left:
        written = os.pwritev(number, left[:_BUFFERS_AT_ONCE], at)
        if written == 0:
            raise OSError(errno.EIO, "the disk took no bytes and gave no reason")
        at += written
        taken = 0
        while taken < len(left) and written >= len(left[taken]):
            written -= len(left[taken])
            taken += 1
        del left[:taken]
        if written:
            left[0] = left[0][written:]
    return at - position


def _read_the_rest(number: int, data: bytes, position: int, length: int) -> bytes:
    """Read on after a short read until `length` bytes are there or the file ends."""
    parts = [data]
    have = len(data)
    while data and have < length:
        data = os.pread(number, length - have, position + have)
        parts.append(data)
        have += len(data)
    return b"".join(parts)


class RealFiles:
    """The real disk; see `everlog.ports.files.Files` for what it promises.

    Files are made for their owner only (0600, directories 0700), and links are not followed. A file that
    is open is known by its path to the pool until it is closed, so that a rename can take it along.
    """

    def __init__(self, max_open_files: int = 4096) -> None:
        self._pool = DescriptorPool(max_open_files)

    @property
    def open_descriptors(self) -> int:
        """How many descriptors are open now; mapped files have none."""
        return self._pool.open_count

    def open(self, path: str, *, create: bool = False) -> RealFile:
        """Open a file to read and append; without `create` it must be there."""
        descriptor = Descriptor(self._pool, path)
        size = 0
        try:
            size = regular_file_size(path)
        except FileNotFoundError:
            if not create:
                raise
            descriptor.create()
        self._pool.enter(descriptor)
        return RealFile(descriptor, size)

    def map(self, path: str) -> memoryview:
        """Return a sealed file's bytes, read-only, without reading them. No descriptor is kept."""
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            size = os.fstat(number).st_size
            return map_file(number, size) if size else memoryview(b"")
        finally:
            os.close(number)

    def read(self, path: str) -> bytes:
        """Return all bytes of a small file."""
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(number, "rb", buffering=0) as file:
            return file.readall()

    def size(self, path: str) -> int:
        """Bytes in the file at `path`."""
        return regular_file_size(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory at `path`."""
        return os.path.lexists(path)

    def modified(self, path: str) -> int:
        """When the file was last written, in milliseconds since 1970."""
        return os.stat(path, follow_symlinks=False).st_mtime_ns // 1_000_000

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        return sorted(os.listdir(directory))

    def make_dir(self, path: str) -> None:
        """Make a directory and the parents that it lacks; one that is there is fine."""
        missing: list[str] = []
        while path and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for directory in reversed(missing):
            os.mkdir(directory, _DIRECTORY_MODE)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, atomically replacing a file at `new`; open files go along."""
        with self._pool.lock:
            # Whoever has the file that is replaced loses it, as if it were unlinked.
            lost = self._pool.lose(new)
            try:
                os.rename(old, new)
            except OSError:
                self._pool.find_again(lost)
                raise
            self._pool.renamed(old, new, is_directory=os.path.isdir(new))

    def unlink(self, path: str) -> None:
        """Remove a file. Who has it open can read it no more, unless it is pinned or held."""
        lost = self._pool.lose(path)
        # Without the lock: freeing the blocks of a large file takes the kernel a while.
        try:
            os.unlink(path)
        except OSError:
            self._pool.find_again(lost)
            raise

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable: new, renamed and removed ones."""
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def total_bytes(self, path: str) -> int:
        """The size of the disk that holds `path`."""
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize

    def free_bytes(self, path: str) -> int:
        """Room left for us on the disk that holds `path`."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

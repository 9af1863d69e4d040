"""Files, as a core may use them.

Paths are plain strings with `/`. Every call may raise OSError with its errno, which is how a full or
failing disk reaches the cores. Nothing is durable before `sync`, and a name in a directory is not
durable before `sync_dir`.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from everlog.model.dataclass import dataclass

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One file that grows at its end and is cut at its end; in between it keeps the bytes that it has."""

    @property
    def path(self) -> str:
        """Where the file is now; a rename through Files.rename keeps an open file usable."""
        ...

    @property
    def size(self) -> int:
        """Bytes in the file, those not yet synced included."""
        ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all the buffers at the end and return the position of the first byte.

        All or nothing: where the write fails half way the file is cut back and the OSError raised.
        Where even that fails the file is `broken` and takes no more appends. The buffers may be
        reused as soon as this returns.
        """
        ...

    def lend(self) -> tuple[object, int] | None:
        """Let compiled code append (ports/appender.h): a capsule for it, and up to which position it may.

        It may keep room behind the end, zeros that count for nothing and that a crash leaves there.
        None where only `append` will do. Whoever borrows says `grown_to` before anybody else uses the file,
        and `take_back` in the end; lending again before that only asks for the bounds anew.
        """
        ...

    def grown_to(self, size: int) -> None:
        """Take in that the file has `size` bytes now, written by whoever it is lent to."""
        ...

    def take_back(self) -> None:
        """End a `lend`; harmless where nothing is lent."""
        ...

    @property
    def broken(self) -> bool:
        """Whether bytes may lie behind `size`, or before it, that nobody vouches for: until `rewrite`."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, which are no more than it has."""
        ...

    def sync(self) -> None:
        """Make all bytes durable. It blocks: the edge calls it off the loop, at a core's request.

        After it has failed once the file is `broken`: a later success would mean nothing.
        """
        ...

    def rewrite(self, position: int, buffers: Iterable[Buffer]) -> None:
        """Write the bytes from `position` to the end again, the very same ones, and make them durable.

        After a failed sync the system may call bytes clean that never reached the disk, and would not write
        them again: so they are put there anew. What lies behind `size` is cut off. Then the file is `broken`
        no more; an OSError leaves it so. It blocks, and nobody may append to or cut the file meanwhile.
        """
        ...

    def trim(self) -> None:
        """Nothing more is appended for now: give back what was set aside on disk for it.

        The file ends with its last byte then. OSError if the disk refuses; appending may go on all the same.
        """
        ...

    def close(self) -> None:
        """Let go of the file; closing twice is harmless."""
        ...


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A range of a file that is to be sent as it is, by `sendfile` where the edge can."""

    file: File
    position: int
    length: int

    def read(self) -> bytes:
        """Return the bytes, for whoever cannot send from the file itself."""
        return self.file.read(self.position, self.length)


class Files(Protocol):
    """A tree of files and directories."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file to read and append; without `create` it must be there (FileNotFoundError).

        Opening is cheap and may be late: descriptors are taken when needed and given back when many
        are in use, so a core may hold thousands of files open.
        """
        ...

    def map(self, path: str) -> memoryview:
        """Return a sealed file's bytes, read-only, without reading them; empty files give an empty view."""
        ...

    def read(self, path: str) -> bytes:
        """Return all bytes of a small file."""
        ...

    def size(self, path: str) -> int:
        """Bytes in the file at `path`."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory at `path`."""
        ...

    def modified(self, path: str) -> int:
        """When the file was last written, in milliseconds since 1970."""
        ...

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def make_dir(self, path: str) -> None:
        """Make a directory and the parents that it lacks; one that is there is fine."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, atomically replacing a file at `new`."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable: new, renamed and removed ones."""
        ...

    def total_bytes(self, path: str) -> int:
        """The size of the disk that holds `path`."""
        ...

    def free_bytes(self, path: str) -> int:
        """Room left for us on the disk that holds `path`."""
        ...

"""A table's directory: Parquet files written, read, listed and removed there, local or remote."""

import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from everlog.tables.arrow import Rows, fs, pq
from everlog.tables.errors import TableError
from everlog.tables.location import for_libraries, local_path, local_uri

STAGED = "_staged"
"""Changes, bad records and graves; readers of directories pass over names that begin with `_`."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it lies there."""

    path: str
    """Relative to the directory."""
    size_bytes: int
    modified_ms: int


class Directory:
    """Files below one location. Paths that go in and come out are relative, with `/`.

    Who may open a remote one is told by the process's environment, as by `AWS_ACCESS_KEY_ID` for S3.
    """

    def __init__(self, location: str) -> None:
        path = local_path(location)
        self.is_local = path is not None
        if path is not None:
            self.root = str(path.absolute())
            self._fs: Any = fs.LocalFileSystem()
            self.uri = local_uri(path.absolute())
        else:
            self.uri = for_libraries(location).rstrip("/")
            try:
                self._fs, self.root = fs.FileSystem.from_uri(self.uri)
            except (ValueError, OSError) as error:
                reason = str(error).partition("\n")[0]
                raise TableError(f"location {location!r}: expected a directory or a URI: {reason}") from error

    def make(self) -> None:
        """Have the directory there."""
        self._fs.create_dir(self.root, recursive=True)

    def absolute(self, path: str) -> str:
        """Where a file is, as the file system names it."""
        return f"{self.root}/{path}"

    def relative(self, path: str) -> str:
        """The way back, from an absolute path or a URI."""
        spelled = for_libraries(path)
        for root in (self.uri, self.root):
            if spelled.startswith(f"{root}/"):
                return spelled[len(root) + 1 :]
        return path

    def read_text(self, path: str) -> str:
        """Read a small file; OSError if it is not there, or may not be read."""
        with self._fs.open_input_file(self.absolute(path)) as source:
            return bytes(source.read()).decode()

    def write_rows(self, path: str, rows: Rows) -> int:
        """Write a Parquet file, down to the disk if it is local; returns its size."""
        absolute = self.absolute(path)
        self._fs.create_dir(absolute.rpartition("/")[0], recursive=True)
        pq.write_table(rows, absolute, filesystem=self._fs, compression="zstd")
        if self.is_local:
            sync_file(absolute)
        return int(self._fs.get_file_info(absolute).size)

    def read_rows(self, path: str, columns: Sequence[str] | None = None) -> Rows:
        """Read a Parquet file, or those of its columns that it has."""
        with self._fs.open_input_file(self.absolute(path)) as source:
            file = pq.ParquetFile(source)
            if columns is not None:
                columns = [name for name in columns if name in file.schema_arrow.names]
            return file.read(columns=columns)

    def exists(self, path: str) -> bool:
        """Whether the file is there."""
        return bool(self._fs.get_file_info(self.absolute(path)).type == fs.FileType.File)

    def remove(self, path: str) -> None:
        """Remove a file; one that is gone is fine."""
        try:
            self._fs.delete_file(self.absolute(path))
        except FileNotFoundError:
            pass

    def remove_all(self, below: str) -> None:
        """Remove a directory and all in it; one that is gone is fine."""
        try:
            self._fs.delete_dir(self.absolute(below) if below else self.root)
        except FileNotFoundError:
            pass

    def walk(self, below: str = "") -> Iterator[Found]:
        """All files below a directory."""
        top = self.absolute(below) if below else self.root
        selector = fs.FileSelector(top, allow_not_found=True, recursive=True)
        for info in self._fs.get_file_info(selector):
            if info.type == fs.FileType.File:
                yield Found(self.relative(info.path), int(info.size), (info.mtime_ns or 0) // 1_000_000)


def fresh_name(folder: str, suffix: str = ".parquet") -> str:
    """A path that no other writer has, on any machine."""
    return f"{folder}/{uuid.uuid4().hex}{suffix}"


def sync_file(path: str) -> None:
    """Have a file, and its name in its directory, on disk."""
    for each, flags in ((path, os.O_RDONLY), (os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)):
        descriptor = os.open(each, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

"""Lines from a pipe, a terminal or a file, with word of when nothing more is there for now."""

import os
import select
from collections.abc import Iterator

from everlog.model.errors import ConfigError

CHUNK_BYTES = 256 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is no record; without a limit a stream without line ends would fill the memory."""


def lines_from(descriptor: int) -> Iterator[tuple[list[bytes], bool]]:
    """Yield lines without their ends as they arrive, and with each lot whether the source is quiet now.

    A quiet source may stay so for hours, so what has come from it should not wait. The last line needs no
    end. A carriage return before the end belongs to it.
    """
    rest = b""
    while chunk := os.read(descriptor, CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise ConfigError(f"a line has more than {MAX_LINE_BYTES} bytes: expected records, one a line")
        yield [line.removesuffix(b"\r") for line in whole], not _is_readable(descriptor)
    if rest:
        yield [rest.removesuffix(b"\r")], True


def _is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])

"""A try whether a log directory can be used: whether it takes a file, keeps it and lets go of it."""

import errno
from typing import Final

from everlog.ports.files import Files

PROBE: Final = ".probe.tmp"
_CONTENT: Final = b"0\n"
PASSING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
"""A disk without room, or a process without descriptors: neither says anything about the disk."""


def probe_directory(files: Files, directory: str) -> None:
    """Return where a directory can be written to, or lacks nothing but room; else OSError. It blocks."""
    path = f"{directory}/{PROBE}"
    try:
        file = files.open(path, create=True)
        try:
            file.append((_CONTENT,))
            file.sync()
        finally:
            file.close()
        files.unlink(path)
        files.sync_dir(directory)
    except OSError as error:
        if error.errno not in PASSING:
            raise

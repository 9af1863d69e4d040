"""Room on disk for bytes to come.

A file system that finds room for one write at a time does so again and again while a segment grows; told
ahead, it does so once. The size of the file stays what it is, so whoever reads it sees no difference, after a
crash either.
"""

import ctypes
import functools
import sys
from collections.abc import Callable

_KEEP_SIZE = 0x01


def reserve(descriptor: int, position: int, length: int) -> bool:
    """Ask for room behind the end of a file; False where that cannot be had, which is no error."""
    fallocate = _fallocate()
    return fallocate is not None and fallocate(descriptor, _KEEP_SIZE, position, length) == 0


@functools.cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    if sys.platform != "linux":
        return None
    try:
        found = ctypes.CDLL(None).fallocate64
    except (OSError, AttributeError):
        return None
    found.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    found.restype = ctypes.c_int
    return found

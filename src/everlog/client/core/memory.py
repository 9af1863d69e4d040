"""The memory of what is large and short-lived: answers, columns, batches of columns."""

from functools import cache
from typing import Final

KEPT_BYTES: Final = 24 * 1024 * 1024
"""About what a client of columns has in use. A block above 32 MiB would tell the C library nothing."""


@cache
def keep_memory() -> None:
    """Have the C library give less memory back to the system at a time, in this process from now on.

    It does so once it has seen a block of this size come and go. New memory is dear, each page of it is made
    and cleared first: what is made and dropped again and again then finds its memory at hand.
    """
    bytearray(KEPT_BYTES)

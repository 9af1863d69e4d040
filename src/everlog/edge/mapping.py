"""Files in memory without a descriptor each.

`mmap.mmap` keeps a duplicate of the descriptor for as long as the mapping lives, unless it is told not to,
which it can be from Python 3.13 on. Thousands of mapped indexes must not cost thousands of descriptors
(L11), so on older Pythons we take anonymous memory of the right size and let the kernel put the file in
its place. The `mmap` object goes on to own the addresses and unmaps them when the last view is gone.
"""

import errno
import mmap
import os
import sys

_MAP_FIXED = 0x10  # The same on Linux, macOS and the BSDs; the mmap module does not name it.


def map_file(descriptor: int, size: int) -> memoryview:
    """Return `size` > 0 bytes of the file, read-only; they are unmapped when no view is left.

    The file must not be cut while it is mapped: touching a page behind its end kills the process.
    """
    if sys.version_info >= (3, 13):
        return memoryview(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ, trackfd=False))
    return _map_over_anonymous(descriptor, size)


def _map_over_anonymous(descriptor: int, size: int) -> memoryview:
    # Imported when first needed: a broker that maps nothing does not pay for it at its start.
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong
    ]  # fmt: skip
    memory = mmap.mmap(-1, size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    found = libc.mmap(address, size, mmap.PROT_READ, mmap.MAP_SHARED | _MAP_FIXED, descriptor, 0)
    if found != address:
        problem = ctypes.get_errno() or errno.ENOMEM
        raise OSError(problem, os.strerror(problem))
    return memoryview(memory).toreadonly()

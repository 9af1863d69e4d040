"""CRC-32C, the checksum of record batches and of producer snapshots, by the `crc32c` package.

The package's own front looks up its version and loads a command line, which takes longer than all else
at the start of a broker. What counts is one compiled module inside, so that is loaded by itself.
"""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING

__all__ = ["crc32c"]

if TYPE_CHECKING:
    from crc32c import crc32c
else:

    def _load() -> object:
        package = PathFinder.find_spec("crc32c")
        kernel = package and PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if not kernel or not kernel.loader:
            # Laid out in another way than we know; its front is slow and always there.
            from crc32c import crc32c

            return crc32c
        module = module_from_spec(kernel)
        kernel.loader.exec_module(module)
        return module.crc32c

    crc32c = _load()

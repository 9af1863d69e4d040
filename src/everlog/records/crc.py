"""CRC-32C, the checksum of batches and of producer snapshots: ours where it is faster, else a package's.

Ours takes large pieces with the widest carry-less multiplication that processors have, which the `crc32c`
package does not know. The package's own front looks up its version and loads a command line, which takes
longer than all else at the start of a broker. What counts is one compiled module inside: it is loaded alone.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Any, cast

__all__ = ["crc32c", "folding", "packaged"]

Checksum = Callable[..., int]
"""Takes data, and the checksum of what came before it."""


def packaged() -> Checksum:
    """The function of the package, which serves on any processor."""
    package = PathFinder.find_spec("crc32c")
    kernel = package and PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    if not kernel or not kernel.loader:
        # Laid out in another way than we know; its front is slow and always there.
        from crc32c import crc32c

        return crc32c
    module: Any = module_from_spec(kernel)
    kernel.loader.exec_module(module)
    return cast(Checksum, module.crc32c)


def folding() -> Checksum | None:
    """Our own function; None where it is not built, or the processor lacks what it needs."""
    try:
        from everlog.records import _kernel
    except ImportError:
        return None
    return _kernel.crc32c if _kernel.can_fold() else None


if TYPE_CHECKING:
    from crc32c import crc32c
else:
    crc32c = folding() or packaged()

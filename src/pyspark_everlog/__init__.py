"""What Spark finds by its name: `spark.read.format("everlog")` needs no jar and no registration.

Spark imports every module called `pyspark_…` in its Python workers and asks for `DefaultSource`. All of it
lives in `everlog.spark`; it is imported only when Spark asks for it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlog.spark.source.data_source import EverlogDataSource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from everlog.spark.source.data_source import EverlogDataSource

        return EverlogDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

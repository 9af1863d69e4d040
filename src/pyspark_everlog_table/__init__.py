"""What Spark finds by its name: `stream.writeStream.format("everlog_table")`, a topic kept as a lake table.

See `pyspark_everlog`; all of it lives in `everlog.spark.table`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlog.spark.table.data_source import TableDataSource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from everlog.spark.table.data_source import TableDataSource

        return TableDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

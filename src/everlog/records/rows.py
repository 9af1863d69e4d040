"""Records one by one: into a batch as they come, and out of a batch as objects (P1, C1).

Compiled where a compiler was at hand at installation, and plain Python otherwise; this module picks
which, and EVERLOG_PURE_PYTHON=1 in the environment keeps the compiled one from loading. Both do the same;
`rows_plain` says what that is.
"""

from typing import TYPE_CHECKING, Any

from everlog.records import rows_plain

__all__ = [
    "BatchBuffer",
    "ConsumerRecord",
    "RowRun",
    "read_rows",
    "read_run",
    "rebuild_record",
    "rows_are_compiled",
]

if TYPE_CHECKING:
    from everlog.records.rows_plain import BatchBuffer, ConsumerRecord, RowRun, read_rows, read_run
else:
    try:
        from everlog.records._rows import BatchBuffer, ConsumerRecord, RowRun, read_rows, read_run
    except ImportError:
        from everlog.records.rows_plain import BatchBuffer, ConsumerRecord, RowRun, read_rows, read_run


def rows_are_compiled() -> bool:
    """Whether the compiled twins serve in this process."""
    return ConsumerRecord is not rows_plain.ConsumerRecord


def rebuild_record(*fields: Any) -> ConsumerRecord:
    """Return the record of a pickle, which may have been made by the other twin."""
    return ConsumerRecord(*fields)

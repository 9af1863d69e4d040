"""Which offsets a batch of a query covers, as its rows tell and as the query's checkpoint tells."""

import logging
from functools import lru_cache

from everlog.spark.offset_log import NotedOffsets, read_offset_log
from everlog.tables.directory import Directory
from everlog.tables.errors import TableError
from everlog.tables.offsets import OffsetRanges, Span

_log = logging.getLogger("everlog.spark.table")


def batch_covers(seen: OffsetRanges, checkpoint: str | None, batch_id: int) -> OffsetRanges | None:
    """What a batch covers, as its checkpoint says; None where that cannot be read here or has no topics.

    Rows alone, which were `seen`, do not tell of records that were filtered out, nor of the markers of
    transactions at the end of a partition, which would look like lag for ever. Where two sources of the query
    read one partition, only what both have delivered is covered: a table leaves out rows that are.
    """
    noted = _noted(checkpoint, batch_id) if checkpoint else None
    if noted is None:
        return None
    if not noted.ends:
        if seen.spans:
            _log.warning(
                "checkpoint %s has no offsets of topics for batch %d: ranges are those of the rows",
                checkpoint, batch_id,
            )  # fmt: skip
        return None
    before = _noted(checkpoint, batch_id - 1) if checkpoint and batch_id > 0 else None
    starts = (before or NotedOffsets()).ends
    covered: dict[tuple[str, int], Span] = {}
    for place, end in noted.ends.items():
        first, last = seen.spans.get(place, (end, end))
        # Where the first batch began is in no checkpoint. A start behind the end: the topic was made anew.
        start = min(starts.get(place, first), first, end)
        covered[place] = (start, end if place in noted.shared else max(end, last))
    return OffsetRanges.of(covered)


def _noted(checkpoint: str, batch_id: int) -> NotedOffsets | None:
    try:
        return noted_offsets(checkpoint, batch_id)
    except (OSError, TableError):
        return None


def noted_offsets(checkpoint: str, batch_id: int) -> NotedOffsets:
    """The ends that a checkpoint has for a batch; OSError or TableError says why it cannot be read here."""
    return read_offset_log(_opened(checkpoint).read_text(f"offsets/{batch_id}"))


# A remote one has connections, which the next batch uses again.
_opened = lru_cache(8)(Directory)

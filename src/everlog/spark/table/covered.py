"""Which offsets a batch of a query covers, as its rows tell and as the query's checkpoint tells."""

import json
from functools import lru_cache
from typing import cast

from everlog.model.topics import TopicPartition
from everlog.tables.directory import Directory
from everlog.tables.errors import TableError
from everlog.tables.offsets import OffsetRanges, Span


def batch_covers(seen: OffsetRanges, checkpoint: str | None, batch_id: int) -> OffsetRanges | None:
    """What a batch covers, as its checkpoint says; None where that cannot be read here or has no topics.

    Rows alone, which were `seen`, do not tell of records that were filtered out, nor of the markers of
    transactions at the end of a partition, which would look like lag for ever.
    """
    ends = _noted(checkpoint, batch_id) if checkpoint else None
    if not ends:
        return None
    starts = (_noted(checkpoint, batch_id - 1) if checkpoint and batch_id > 0 else None) or {}
    covered: dict[tuple[str, int], Span] = {}
    for place, end in ends.items():
        first, last = seen.spans.get(place, (end, end))
        # Where the first batch began is in no checkpoint. A start behind the end: the topic was made anew.
        start = min(starts.get(place, first), first)
        covered[place] = (min(start, end), max(end, last))
    return OffsetRanges.of(covered)


def _noted(checkpoint: str, batch_id: int) -> dict[TopicPartition, int] | None:
    try:
        return noted_offsets(checkpoint, batch_id)
    except (OSError, TableError):
        return None


def noted_offsets(checkpoint: str, batch_id: int) -> dict[TopicPartition, int]:
    """The ends that a checkpoint has for a batch; OSError or TableError says why it cannot be read here."""
    return read_offsets(_opened(checkpoint).read_text(f"offsets/{batch_id}"))


# A remote one has connections, which the next batch uses again.
_opened = lru_cache(8)(Directory)


def read_offsets(text: str) -> dict[TopicPartition, int]:
    """The offsets of topics in a file of a checkpoint's `offsets`: a line for each source, after two others.

    Sources of other kinds, and those without an offset (`-`), are passed over.
    """
    found: dict[TopicPartition, int] = {}
    for line in text.splitlines()[2:]:
        try:
            topics = json.loads(line)
        except ValueError:
            continue
        if not isinstance(topics, dict):
            continue
        for topic, partitions in cast("dict[str, object]", topics).items():
            if isinstance(partitions, dict):
                for index, offset in cast("dict[str, object]", partitions).items():
                    if index.isdecimal() and isinstance(offset, int):
                        found[TopicPartition(topic, int(index))] = offset
    return found

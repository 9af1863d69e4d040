"""Which offsets a batch of a query covers, as its rows tell and as the query's checkpoint tells."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

from everlog.model.topics import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Covered = dict[TopicPartition, tuple[int, int]]
"""For each partition the first offset, and the one behind the last."""

COLUMNS = ("topic", "partition", "offset")


def rows_cover(batch: "pa.RecordBatch") -> Covered:
    """From the smallest to the largest offset of each partition in a batch; empty without such columns."""
    import pyarrow as pa

    if not batch.num_rows or not set(COLUMNS) <= set(batch.schema.names):
        return {}
    rows = pa.Table.from_batches([batch.select(list(COLUMNS))])
    found = rows.group_by(["topic", "partition"]).aggregate([("offset", "min"), ("offset", "max")])
    return {
        TopicPartition(str(row["topic"]), int(row["partition"])): (
            int(row["offset_min"]),
            int(row["offset_max"]) + 1,
        )
        for row in found.to_pylist()
        if None not in row.values()
    }


def united(parts: Iterable[Mapping[TopicPartition, tuple[int, int]]]) -> Covered:
    """The smallest ranges that hold all of these."""
    whole: Covered = {}
    for part in parts:
        for place, (start, end) in part.items():
            first, last = whole.get(place, (start, end))
            whole[place] = (min(first, start), max(last, end))
    return whole


def batch_covers(rows: Covered, checkpoint: str | None, batch_id: int) -> Covered:
    """What a batch covers: as its checkpoint says where that can be read, else as its rows do.

    Rows alone do not tell of records that were filtered out, nor of the markers of transactions at the end of
    a partition, which would look like lag for ever.
    """
    ends = _noted(checkpoint, batch_id) if checkpoint else None
    if not ends:
        return rows
    starts = (_noted(checkpoint, batch_id - 1) if checkpoint and batch_id > 0 else None) or {}
    covered: Covered = {}
    for place, end in ends.items():
        seen = rows.get(place, (end, end))
        # Where the first batch began is in no checkpoint. A start behind the end: the topic was made anew.
        start = min(starts.get(place, seen[0]), seen[0])
        covered[place] = (min(start, end), max(end, seen[1]))
    return covered


def _noted(checkpoint: str, batch_id: int) -> dict[TopicPartition, int] | None:
    """The ends that a checkpoint has for a batch; None if it cannot be read here, or has none of topics."""
    folder = local_path(checkpoint)
    if folder is None:
        return None
    try:
        text = (folder / "offsets" / str(batch_id)).read_text()
    except OSError:
        return None
    return read_offsets(text)


def local_path(location: str) -> Path | None:
    """The path of a place in this machine's files; None for one elsewhere, such as `s3://…`."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(location) if len(parts.scheme) < 2 else None


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

"""Which change of a key counts: decided on columns, without files.

Of two records of one key the later in a partition counts, whatever order they come in. Records of a key lie
in one partition unless partitions were added; across partitions the later timestamp counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from everlog.model.topics import TopicPartition
from everlog.tables.arrow import Array, Rows, one_array, pa, pc, types
from everlog.tables.offsets import Coverage
from everlog.tables.schema import DELETED, OFFSET, PARTITION, TIMESTAMP, TOPIC

ORDER = (TOPIC, PARTITION, OFFSET, TIMESTAMP)
"""What is compared."""
IDENTITY = "_identity"

GRAVES = pa.schema(
    [
        pa.field(IDENTITY, pa.binary()),
        pa.field(TOPIC, pa.string()),
        pa.field(PARTITION, pa.int32()),
        pa.field(OFFSET, pa.int64()),
        pa.field(TIMESTAMP, pa.timestamp("us", "UTC")),
    ]
)
"""Keys that are gone, and since when."""


def identity(rows: Rows, key: Sequence[str]) -> Array:
    """One column of bytes that is equal for rows of the same key; null where a key column is."""
    parts = [_bytes(one_array(rows.column(name))) for name in key]
    if len(parts) == 1:
        return parts[0]
    # With its length before it, no part can be taken for a piece of its neighbour.
    sized: list[Any] = []
    for part in parts:
        sized += [pc.binary_length(part).cast(pa.string()).cast(pa.binary()), part]
    return pc.binary_join_element_wise(*sized, pa.scalar(b":", pa.binary()))


def _bytes(column: Array) -> Array:
    if types.is_binary(column.type):
        return column
    return column.cast(pa.string()).cast(pa.binary())


def latest(rows: Rows, key: Sequence[str]) -> Rows:
    """The row that counts of each key."""
    if rows.num_rows < 2:
        return rows
    frame = pa.table(
        {
            IDENTITY: identity(rows, key),
            TOPIC: rows.column(TOPIC),
            PARTITION: pc.fill_null(rows.column(PARTITION), -1),
            OFFSET: pc.fill_null(rows.column(OFFSET), -1),
            TIMESTAMP: pc.fill_null(rows.column(TIMESTAMP).cast(pa.int64()), -(1 << 63)),
            "at": pa.array(range(rows.num_rows), pa.int64()),
        }
    )
    # Rows that say no offset count in the order they come in: sorting is stable.
    frame = frame.take(pc.sort_indices(frame, sort_keys=[(OFFSET, "ascending")]))
    frame = frame.group_by([IDENTITY, TOPIC, PARTITION], use_threads=False).aggregate(
        [("at", "last"), (TIMESTAMP, "last")]
    )
    across = [(f"{TIMESTAMP}_last", "ascending"), (PARTITION, "ascending")]
    frame = frame.take(pc.sort_indices(frame, sort_keys=across))
    last = frame.group_by([IDENTITY], use_threads=False).aggregate([("at_last", "last")])
    return rows.take(_sorted(last["at_last_last"]))


def _sorted(column: Any) -> Array:
    values = one_array(column)
    return values.take(pc.sort_indices(values))


@dataclass(frozen=True, slots=True)
class Matched:
    """How rows of a table, or graves, compare with the changes of their keys."""

    beaten: Array
    """For each row whether a newer change has its key."""
    by: Array
    """For each beaten row the place of the change that beats it."""
    stale: Array
    """Places of the changes that are not newer than the row of their key."""

    @property
    def beaten_count(self) -> int:
        """How many rows are beaten."""
        return int(pc.sum(self.beaten).as_py() or 0)


def matched(rows: Rows, identities: Array, changes: Rows, change_identities: Array) -> Matched:
    """Compare rows with changes, of which there is one for each key."""
    at = pc.index_in(identities, value_set=change_identities)
    hit = at.is_valid()
    old = {name: one_array(rows.column(name)) for name in ORDER}
    new = {name: one_array(changes.column(name)).take(at) for name in ORDER}
    same = pc.and_(
        pc.fill_null(pc.equal(old[TOPIC], new[TOPIC]), False),
        pc.fill_null(pc.equal(old[PARTITION], new[PARTITION]), False),
    )
    later_offset = pc.greater(new[OFFSET], old[OFFSET])
    later_time = pc.or_(
        pc.greater(new[TIMESTAMP], old[TIMESTAMP]),
        pc.and_(pc.equal(new[TIMESTAMP], old[TIMESTAMP]), pc.greater(new[PARTITION], old[PARTITION])),
    )
    # Without an offset or a time nothing tells them apart, and what comes later counts.
    newer = pc.fill_null(pc.if_else(same, later_offset, later_time), True)
    beaten = pc.and_(hit, newer)
    return Matched(beaten, at.filter(beaten), at.filter(pc.and_(hit, pc.invert(newer))))


def graves_of(changes: Rows, identities: Array, covered: Coverage) -> Rows:
    """Deletions that must be remembered: below them offsets are missing, whose records may yet come."""
    gone = one_array(changes.column(DELETED))
    frame = pa.table(
        [identities, *(one_array(changes.column(name)) for name in ORDER)], schema=GRAVES
    ).filter(gone)
    return open_graves(frame, covered)


def open_graves(graves: Rows, covered: Coverage) -> Rows:
    """Those graves below which offsets are still missing."""
    keep = [
        topic is not None
        and partition is not None
        and offset is not None
        and covered.missing_below(TopicPartition(topic, partition), offset)
        for topic, partition, offset in zip(
            graves[TOPIC].to_pylist(), graves[PARTITION].to_pylist(), graves[OFFSET].to_pylist(), strict=True
        )
    ]
    return graves.filter(pa.array(keep, pa.bool_()))


def not_covered(rows: Rows, covered: Coverage) -> Rows:
    """Rows whose offsets have not been taken in, and those that name none."""
    mask: Any = None
    for place, spans in covered.spans.items():
        here = pc.and_(pc.equal(rows[TOPIC], place.topic), pc.equal(rows[PARTITION], place.partition))
        for start, end in spans:
            within = pc.and_(pc.greater_equal(rows[OFFSET], start), pc.less(rows[OFFSET], end))
            hit = pc.fill_null(pc.and_(here, within), False)
            mask = hit if mask is None else pc.or_(mask, hit)
    return rows if mask is None else rows.filter(pc.invert(mask))

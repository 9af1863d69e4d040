"""C19: compaction keeps the newest value of each key, and forgets a deleted key as a whole.

That survivors keep their offsets and order is C1 and C7; that aborted records do not come back is C5.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import Operation, Outcome, Polled, Sent


@dataclass(frozen=True, slots=True)
class _Newest:
    """The last write of a key that counts."""

    offset: int
    sent: Sent
    writer: Operation


def check(versions: Versions) -> Iterator[Violation]:
    """Hold what final reads of compacted partitions found against the last write of each key."""
    for partition in versions.promises.compacted:
        if partition not in versions.final_partitions:
            continue
        newest, unclear = _newest(versions, partition)
        for operation in versions.operations:
            if operation.final and operation.outcome is Outcome.OK and partition in operation.partitions:
                found = [polled for polled in operation.polls if polled.partition == partition]
                for key, write in newest.items():
                    if key not in unclear:
                        mine = [polled for polled in found if polled.key == key]
                        yield from _check_key(versions, operation, write, mine)


def _newest(versions: Versions, partition: str) -> tuple[dict[str, _Newest], set[str]]:
    """The newest write by key, and keys of which it is not known: a deletion that nobody saw may count."""
    offsets = {value: offset for offset, values in versions.values[partition].items() for value in values}
    newest: dict[str, _Newest] = {}
    unclear: set[str] = set()
    for (where, value), sent in versions.sent.items():
        if where != partition or sent.key is None:
            continue
        writer = versions.writers[where, value]
        if not versions.visible(writer) or value not in offsets:
            if writer.outcome is not Outcome.FAIL and sent.tombstone:
                unclear.add(sent.key)
            continue
        known = newest.get(sent.key)
        if known is None or offsets[value] > known.offset:
            newest[sent.key] = _Newest(offsets[value], sent, writer)
    return newest, unclear


def _check_key(
    versions: Versions, reader: Operation, newest: _Newest, found: list[Polled]
) -> Iterator[Violation]:
    key, partition = newest.sent.key, newest.sent.partition
    last = max(found, key=lambda polled: polled.offset, default=None)
    what = f"{newest.sent.value!r} at {newest.offset} of {partition}"
    if last is not None and last.offset == newest.offset:
        return
    if not newest.sent.tombstone:
        yield Violation("C19", f"the newest value of key {key!r}, {what}, is gone: {reader}")
    elif last is not None:
        yield Violation("C19", f"key {key!r} was deleted by {what}, {last.value!r} is still there: {reader}")
    elif reader.end is not None:
        kept = versions.promises.delete_retention_ms * versions.promises.ticks_per_ms
        if reader.end - newest.writer.start < kept:
            yield Violation("C19", f"the deletion of key {key!r}, {what}, is gone too early: {reader}")

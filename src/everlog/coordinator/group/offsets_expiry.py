"""Which offsets, and which empty groups, are let go as time passes.

An offset goes `offsets.retention.minutes` after its commit, but not while a member reads the topic, and in a
group that lost its members not before so long after that. An offset of a topic that is no more goes as well.
A group that is empty and has no offsets left goes with them.
"""

from collections import deque
from typing import TYPE_CHECKING

from everlog.coordinator.group.group import Group
from everlog.coordinator.group.offsets_store import NEVER, Committed, OffsetStore, Place, offset_tombstone
from everlog.coordinator.machine import Decision
from everlog.coordinator.records import CoordinatorRecord
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import NO_UUID, Instant, Timestamp
from everlog.model.settings import broker_table as keys

if TYPE_CHECKING:
    from everlog.coordinator.group.shard import GroupShard

_MINUTE_MS = 60_000
_SLICE_OFFSETS = 500
"""Offsets looked at in one go."""
_MOST_RECORDS = 1000
_PAUSE_MS = 5


class Expiry:
    """The look through all groups of a shard, every `offsets.retention.check.interval.ms`, in slices."""

    def __init__(self, shard: "GroupShard", store: OffsetStore) -> None:
        self._shard = shard
        self._store = store
        self.deadline: Instant | None = None
        """When to look next; None before the log is read."""
        self._queue: deque[str] = deque()
        """The groups that are left of this look."""

    def activated(self, now: Instant) -> None:
        """The log is read: the first look is due after one interval."""
        self.deadline = Instant(now + self._interval_ms())

    def tick(self, now: Instant) -> None:
        """Look through some groups if that is due."""
        if self.deadline is None or now < self.deadline:
            return
        if not self._queue:
            known = dict.fromkeys(self._store.group_ids())
            known.update(dict.fromkeys(group.id for group in self._shard.groups))
            self._queue.extend(known)
        budget = _SLICE_OFFSETS
        while self._queue and budget > 0:
            budget -= self._look_at(self._queue.popleft())
        self.deadline = Instant(now + (_PAUSE_MS if self._queue else self._interval_ms()))

    def is_stale(self, topic: str, committed: Committed) -> bool:
        """Whether an offset was committed for a topic that is no more, whatever has its name now."""
        if committed.topic_id == NO_UUID:
            return False
        there = self._shard.world.image().topics.get(topic)
        return there is None or there.id != committed.topic_id

    def _interval_ms(self) -> int:
        return self._shard.world.settings()[keys.OFFSETS_RETENTION_CHECK_INTERVAL_MS]

    def _look_at(self, group_id: str) -> int:
        """Let go what is due of one group; returns how many offsets it has."""
        looked_at = sum(len(partitions) for partitions in self._store.of_group(group_id).values())
        self._shard.machine.run(lambda: Decision(self._due(group_id), None), _ignore)
        return looked_at + 1

    def _due(self, group_id: str) -> tuple[CoordinatorRecord, ...]:
        group = self._shard.group(group_id)
        if group is None:
            return ()
        wall = self._shard.world.clock.wall()
        retention_ms = self._shard.world.settings()[keys.OFFSETS_RETENTION_MINUTES] * _MINUTE_MS
        kept = 0
        records: list[CoordinatorRecord] = []
        for place in self._store.places(group_id):
            committed = self._store.get(*place)
            if committed is None or self._store.is_unstable(place) or len(records) >= _MOST_RECORDS:
                kept += 1
            elif self.is_stale(place.topic, committed) or _is_expired(
                place, committed, group, wall, retention_ms
            ):
                records.append(offset_tombstone(place))
            else:
                kept += 1
        if kept == 0 and group.is_empty:
            records.extend(group.tombstones())
        return tuple(records)


def _is_expired(place: Place, committed: Committed, group: Group, wall: Timestamp, retention_ms: int) -> bool:
    if not group.is_empty and group.subscribes_to(place.topic):
        return False
    if committed.expire_timestamp != NEVER:
        return wall >= committed.expire_timestamp
    since = committed.commit_timestamp
    if group.is_empty and group.empty_since is not None:
        since = max(since, group.empty_since)
    return wall - since >= retention_ms


def _ignore(_reply: Refused | StorageError | None) -> None:
    """What could not be written now is found again at the next look."""

"""GroupShard: one partition of `__consumer_offsets`, with the groups and the offsets in it (C2, C5)."""

from typing import Protocol

from everlog.coordinator.group.classic import ClassicProtocol
from everlog.coordinator.group.consumer import ConsumerProtocol
from everlog.coordinator.group.group import Group, Groups, SimpleGroup
from everlog.coordinator.group.kinds import CLASSIC_GROUP, CONSUMER_TYPES, GROUP_KINDS, OFFSET_TYPES
from everlog.coordinator.group.offsets import Offsets
from everlog.coordinator.machine import Machine, ProducerStamp
from everlog.coordinator.records import CoordinatorRecord
from everlog.coordinator.shards import ShardWorld
from everlog.metadata.delta import Changes
from everlog.model.ids import Instant, Offset


class _Part(Protocol):
    """What the shard asks of its three parts."""

    def activated(self, now: Instant) -> None: ...

    def image_changed(self, changes: Changes) -> None: ...

    def tick(self, now: Instant) -> None: ...

    def deadline(self) -> Instant | None: ...

    def close(self) -> None: ...


class GroupShard:
    """The groups whose names fall into one partition.

    `classic` and `consumer` are the two group protocols, `offsets` what was committed. Each gets the records
    of its own types, and finds the others through the shard that it was made with.
    """

    def __init__(self, world: ShardWorld) -> None:
        self.world = world
        self.machine = Machine(GROUP_KINDS, self, world.journal, world.clock.wall, world.epoch)
        self.groups = Groups()
        self.offsets = Offsets(self)
        self.classic = ClassicProtocol(self)
        self.consumer = ConsumerProtocol(self)
        self._parts: tuple[_Part, ...] = (self.offsets, self.classic, self.consumer)

    def group(self, group_id: str) -> Group | None:
        """The group of that name, if anybody joined it or committed in its name."""
        group = self.groups.get(group_id)
        if group is None and self.offsets.knows(group_id):
            return SimpleGroup(group_id)
        return group

    def all_groups(self) -> list[Group]:
        """Every group, those with offsets alone included."""
        alone = [name for name in self.offsets.store.group_ids() if self.groups.get(name) is None]
        return [*self.groups, *(SimpleGroup(name) for name in alone)]

    # --- the state that records make

    def apply(self, record: CoordinatorRecord, offset: Offset, producer: ProducerStamp | None) -> None:
        """Take in one record, live or in replay."""
        kind = record.type
        if kind in OFFSET_TYPES:
            self.offsets.apply(record, offset, producer)
        elif kind == CLASSIC_GROUP:
            self.classic.apply(record)
        else:
            assert kind in CONSUMER_TYPES, kind
            self.consumer.apply(record)

    def end_transaction(self, producer: ProducerStamp, commit: bool) -> None:
        """Make the offsets of a transaction count, or drop them."""
        self.offsets.end_transaction(producer, commit)

    # --- driven by the broker

    def activated(self, now: Instant) -> None:
        """Begin time-outs."""
        for part in self._parts:
            part.activated(now)

    def image_changed(self, changes: Changes) -> None:
        """Tell all parts of another cluster image."""
        for part in self._parts:
            part.image_changed(changes)

    def tick(self, now: Instant) -> None:
        """Do what is due."""
        for part in self._parts:
            part.tick(now)

    def deadline(self) -> Instant | None:
        """When the first part wants to be woken."""
        deadlines = [part.deadline() for part in self._parts]
        return min((one for one in deadlines if one is not None), default=None)

    def close(self) -> None:
        """Coordinate no more, and tell all who wait."""
        self.machine.close()
        for part in self._parts:
            part.close()

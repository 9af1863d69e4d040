"""Committed offsets and those of open transactions, as the records of a partition make them."""

from collections.abc import Iterator
from sys import intern
from typing import NamedTuple

from everlog.coordinator.group.kinds import OFFSET
from everlog.coordinator.records import CoordinatorRecord
from everlog.model.ids import NO_UUID, Offset, Uuid
from everlog.wire.messages.legacy_offset_commit_record import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from everlog.wire.messages.offset_commit_record import OffsetCommitKey, OffsetCommitValue

NEVER = -1
"""Stands for the time of an offset that has no time of its own to expire at."""
_VERSION = 4
_VERSION_WITH_EXPIRY = 1


class Committed(NamedTuple):
    """What was committed for one partition."""

    offset: int
    leader_epoch: int
    """The epoch of the last record that was read; -1 if the consumer did not say."""
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    """When it expires, if the client asked for a time; -1 if not."""
    topic_id: Uuid
    """The topic it was committed for: another one of the same name does not get it. Zero if nobody said."""
    at: Offset
    """Where its record lies: of two commits the one further on in the log counts."""


class Place(NamedTuple):
    """One partition in the name of one group."""

    group: str
    topic: str
    partition: int


Partitions = dict[int, Committed]
Topics = dict[str, Partitions]


class OffsetStore:
    """The offsets of one shard."""

    def __init__(self) -> None:
        self._committed: dict[str, Topics] = {}
        self._pending: dict[int, dict[Place, Committed]] = {}
        """By producer id: what its open transaction will commit."""
        self._unstable: dict[str, dict[Place, dict[int, None]]] = {}
        """By group: the places that open transactions commit to, with their producers. Mirrors `_pending`."""

    # --- what there is

    def get(self, group: str, topic: str, partition: int) -> Committed | None:
        """What is committed for a partition, transactions that are not over left out."""
        topics = self._committed.get(group)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def of_group(self, group: str) -> Topics:
        """All that is committed in the name of a group, by topic and partition; not to be changed."""
        return self._committed.get(group, {})

    def knows(self, group: str) -> bool:
        """Whether anything was committed in the name of a group, or will be if a transaction commits."""
        return group in self._committed or group in self._unstable

    def group_ids(self) -> Iterator[str]:
        """The groups in whose names there are offsets, pending ones included."""
        yield from self._committed
        for group in self._unstable:
            if group not in self._committed:
                yield group

    def is_unstable(self, place: Place) -> bool:
        """Whether an open transaction commits to this place."""
        unstable = self._unstable.get(place.group)
        return unstable is not None and place in unstable

    def places(self, group: str) -> list[Place]:
        """Every place of a group that has an offset, committed or pending, each once."""
        found = {
            Place(group, topic, partition): None
            for topic, partitions in self.of_group(group).items()
            for partition in partitions
        }
        found.update(dict.fromkeys(self._unstable.get(group, ())))
        return list(found)

    def places_of_topic(self, topic: str) -> list[Place]:
        """Every place of a topic that has an offset in the name of any group, committed or pending."""
        found = {
            Place(group, topic, partition): None
            for group, topics in self._committed.items()
            for partition in topics.get(topic, ())
        }
        for unstable in self._unstable.values():
            found.update((place, None) for place in unstable if place.topic == topic)
        return list(found)

    # --- what records do

    def apply(self, record: CoordinatorRecord, at: Offset, producer_id: int | None) -> None:
        """Take in one record of an offset; with a producer it counts once the transaction commits."""
        key = record.key
        assert isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey), record
        if record.value is None:
            self._remove(Place(key.group, key.topic, key.partition))
        elif producer_id is None:
            self._put(key.group, key.topic, key.partition, _committed(record.value, at))
        else:
            place = Place(intern(key.group), intern(key.topic), key.partition)
            self._pending.setdefault(producer_id, {})[place] = _committed(record.value, at)
            self._unstable.setdefault(place.group, {}).setdefault(place, {})[producer_id] = None

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """Let the offsets of a producer's transaction count, or drop them.

        Of two commits for one partition the later record wins, whenever its transaction ended: one that was
        written after ours stands (KAFKA-5247).
        """
        for place, committed in self._pending.pop(producer_id, {}).items():
            self._forget_pending(place, producer_id)
            if commit:
                there = self.get(place.group, place.topic, place.partition)
                if there is None or there.at < committed.at:
                    self._put(place.group, place.topic, place.partition, committed)

    def _put(self, group: str, topic: str, partition: int, committed: Committed) -> None:
        topics = self._committed.get(group)
        if topics is None:
            topics = self._committed[intern(group)] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[intern(topic)] = {}
        partitions[partition] = committed

    def _remove(self, place: Place) -> None:
        """Forget a place, and with it what transactions had written there before."""
        group, topic, partition = place
        topics = self._committed.get(group)
        if topics is not None and topic in topics:
            topics[topic].pop(partition, None)
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self._committed[group]
        for producer_id in tuple(self._unstable.get(group, {}).get(place, ())):
            self._pending[producer_id].pop(place, None)
            self._forget_pending(place, producer_id)

    def _forget_pending(self, place: Place, producer_id: int) -> None:
        unstable = self._unstable[place.group]
        unstable[place].pop(producer_id, None)
        if not unstable[place]:
            del unstable[place]
        if not unstable:
            del self._unstable[place.group]


def _committed(value: object, at: Offset) -> Committed:
    if isinstance(value, OffsetCommitValue):
        return Committed(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            at,
        )
    assert isinstance(value, LegacyOffsetCommitValue), value
    return Committed(value.offset, -1, value.metadata, value.commit_timestamp, NEVER, NO_UUID, at)


def offset_record(place: Place, committed: Committed) -> CoordinatorRecord:
    """The record of a commit, as Kafka writes it: version 1 where it has a time to expire at, else 4."""
    expires = committed.expire_timestamp != NEVER
    return CoordinatorRecord(
        OFFSET,
        OffsetCommitKey(group=place.group, topic=place.topic, partition=place.partition),
        OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp,
            expire_timestamp=committed.expire_timestamp,
            topic_id=committed.topic_id,
        ),
        _VERSION_WITH_EXPIRY if expires else _VERSION,
    )


def offset_tombstone(place: Place) -> CoordinatorRecord:
    """The record that takes an offset back."""
    key = OffsetCommitKey(group=place.group, topic=place.topic, partition=place.partition)
    return CoordinatorRecord(OFFSET, key, None)

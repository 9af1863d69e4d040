"""Offsets: what groups commit, ask for and give up (C5, C6)."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from everlog.coordinator.group.group import CLASSIC, CONSUMER_PROTOCOL_TYPE, CheckPartition, Group
from everlog.coordinator.group.offsets_expiry import Expiry
from everlog.coordinator.group.offsets_store import (
    NEVER,
    Committed,
    OffsetStore,
    Place,
    offset_record,
    offset_tombstone,
)
from everlog.coordinator.machine import Decision, Done, ProducerStamp
from everlog.coordinator.records import CoordinatorRecord
from everlog.metadata.delta import Changes
from everlog.metadata.image import TopicImage
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import NO_UUID, Instant, Offset, Uuid
from everlog.model.settings import broker_table as keys

if TYPE_CHECKING:
    from everlog.coordinator.group.shard import GroupShard

_FIRST_WITH_MEMBER_EPOCHS = 9
_MOST_TOMBSTONES = 1000
"""Records of one batch, so that it stays well below the largest that the topic takes."""


class NewOffset(NamedTuple):
    """An offset that somebody wants to commit; the topic is known to be there."""

    topic: str
    topic_id: Uuid
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit offsets in the name of a group, as a member or from outside."""

    group_id: str
    offsets: tuple[NewOffset, ...]
    member_id: str = ""
    instance_id: str | None = None
    epoch: int = -1
    """The generation of a classic member, the member epoch of the others; -1 from outside the group."""
    retention_ms: int = -1
    """How long to keep them, if the client is old enough to say."""
    producer: ProducerStamp | None = None
    """The transaction that they belong to, if any."""
    api_version: int = 0


class Fetched(NamedTuple):
    """The answer for one partition: what was committed, or nothing, or why that cannot be told."""

    topic: str
    partition: int
    committed: Committed | None
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """Ask for committed offsets."""

    group_id: str
    partitions: tuple[tuple[str, int], ...] | None
    """Topics by name, with partitions; None asks for all that there is."""
    member_id: str | None = None
    epoch: int = -1
    require_stable: bool = False


class Offsets:
    """The offsets of one shard: commands on them, and what time and the cluster do to them."""

    def __init__(self, shard: "GroupShard") -> None:
        self._shard = shard
        self.store = OffsetStore()
        self._expiry = Expiry(shard, self.store)

    def knows(self, group_id: str) -> bool:
        """Whether anything was committed in the name of the group, pending commits included."""
        return self.store.knows(group_id)

    # --- commands

    def commit(self, command: CommitOffsets, done: Done[list[ErrorCode]]) -> None:
        """Commit what may be; the reply has a code for each offset. Refused if the member may not commit."""
        self._shard.machine.run(lambda: self._decide_commit(command), done)

    def fetch(self, command: FetchOffsets, done: Done[list[Fetched]]) -> None:
        """Tell what is committed; a group that is not there has committed nothing."""
        self._shard.machine.run(lambda: Decision((), self._fetch(command)), done)

    def delete(
        self, group_id: str, partitions: Sequence[tuple[str, int]], done: Done[list[ErrorCode]]
    ) -> None:
        """Take offsets back that no member reads on from; the reply has a code for each."""
        self._shard.machine.run(lambda: self._decide_delete(group_id, partitions), done)

    def delete_group(self, group_id: str, done: Done[None]) -> None:
        """Remove an empty group with all its offsets."""
        places = self.store.places(group_id)
        for at in range(0, len(places) - _MOST_TOMBSTONES, _MOST_TOMBSTONES):
            batch = places[at : at + _MOST_TOMBSTONES]
            self._shard.machine.run(partial(self._decide_clear, group_id, batch), _ignore)
        self._shard.machine.run(partial(self._decide_delete_group, group_id), done)

    def _decide_commit(self, command: CommitOffsets) -> Decision[list[ErrorCode]]:
        check_partition = self._check_commit(command)
        world = self._shard.world
        metadata_max = world.settings()[keys.OFFSET_METADATA_MAX_BYTES]
        now = world.clock.wall()
        expires = NEVER if command.retention_ms < 0 else now + command.retention_ms
        records: list[CoordinatorRecord] = []
        codes: list[ErrorCode] = []
        for new in command.offsets:
            code = _refusal(new, metadata_max, check_partition)
            codes.append(code)
            if code is ErrorCode.NONE:
                committed = Committed(
                    new.offset, new.leader_epoch, new.metadata, now, expires, new.topic_id, Offset(-1)
                )
                place = Place(command.group_id, new.topic, new.partition)
                records.append(offset_record(place, committed))
        return Decision(tuple(records), codes, command.producer)

    def _check_commit(self, command: CommitOffsets) -> CheckPartition | None:
        """Refuse whoever may not commit for the group; else what each partition is checked with, if any."""
        group = self._shard.group(command.group_id)
        transactional = command.producer is not None
        if group is None:
            if command.epoch < 0:
                return None  # From outside any group: its first commit makes it known.
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND
                if command.api_version >= _FIRST_WITH_MEMBER_EPOCHS and not transactional
                else ErrorCode.ILLEGAL_GENERATION,
                f"there is no group {command.group_id!r}",
            )
        try:
            check = group.check_commit(
                command.member_id,
                command.instance_id,
                command.epoch,
                transactional=transactional,
                api_version=command.api_version,
            )
        except Refused as refused:
            if transactional and refused.code is ErrorCode.STALE_MEMBER_EPOCH:
                # Producers do not know the newer code; this one makes them abort, as they should.
                raise Refused(ErrorCode.ILLEGAL_GENERATION, str(refused)) from None
            raise
        if not transactional:
            group.heard_from(command.member_id)
        return check

    def _fetch(self, command: FetchOffsets) -> list[Fetched]:
        group = self._shard.group(command.group_id)
        if group is not None:
            group.check_fetch(command.member_id, command.epoch)
        partitions: Iterable[tuple[str, int]] | None = command.partitions
        if partitions is None:
            topics = self.store.of_group(command.group_id)
            partitions = [(topic, partition) for topic, held in topics.items() for partition in held]
        found = [self._fetch_one(command, topic, partition) for topic, partition in partitions]
        if command.partitions is None:
            return [one for one in found if one.committed is not None or one.error is not ErrorCode.NONE]
        return found

    def _fetch_one(self, command: FetchOffsets, topic: str, partition: int) -> Fetched:
        if command.require_stable and self.store.is_unstable(Place(command.group_id, topic, partition)):
            return Fetched(topic, partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self.store.get(command.group_id, topic, partition)
        if committed is not None and self._expiry.is_stale(topic, committed):
            committed = None
        return Fetched(topic, partition, committed)

    def _decide_delete(
        self, group_id: str, partitions: Sequence[tuple[str, int]]
    ) -> Decision[list[ErrorCode]]:
        group = self._known_group(group_id)
        if group.type == CLASSIC and not group.is_empty and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise Refused(
                ErrorCode.NON_EMPTY_GROUP, f"the group {group_id!r} has members that do not consume"
            )
        records: list[CoordinatorRecord] = []
        codes: list[ErrorCode] = []
        for topic, partition in partitions:
            if group.subscribes_to(topic):
                codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            codes.append(ErrorCode.NONE)
            if self.store.get(group_id, topic, partition) is not None:
                records.append(offset_tombstone(Place(group_id, topic, partition)))
        return Decision(tuple(records), codes)

    def _decide_clear(self, group_id: str, places: Sequence[Place]) -> Decision[None]:
        self._empty_group(group_id)
        return Decision(tuple(offset_tombstone(place) for place in places), None)

    def _decide_delete_group(self, group_id: str) -> Decision[None]:
        group = self._empty_group(group_id)
        left = (offset_tombstone(place) for place in self.store.places(group_id))
        return Decision((*left, *group.tombstones()), None)

    def _known_group(self, group_id: str) -> Group:
        group = self._shard.group(group_id)
        if group is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
        return group

    def _empty_group(self, group_id: str) -> Group:
        group = self._known_group(group_id)
        if not group.is_empty:
            raise Refused(
                ErrorCode.NON_EMPTY_GROUP, f"the group {group_id!r} is {group.state}, expected Empty"
            )
        return group

    # --- the state that records make

    def apply(self, record: CoordinatorRecord, offset: Offset, producer: ProducerStamp | None) -> None:
        """Take in one record, live or in replay."""
        self.store.apply(record, offset, None if producer is None else producer.producer_id)

    def end_transaction(self, producer: ProducerStamp, commit: bool) -> None:
        """Make the offsets of a transaction count, or drop them.

        The marker may bear a newer epoch than the records (KIP-890), so the producer's id alone says whose.
        """
        self.store.end_transaction(producer.producer_id, commit)

    # --- driven by the shard

    def activated(self, now: Instant) -> None:
        """Begin to expire: the log is read."""
        self._expiry.activated(now)

    def image_changed(self, changes: Changes) -> None:
        """Take back what was committed for deleted topics."""
        for topic in changes.deleted:
            self._topic_deleted(topic)

    def tick(self, now: Instant) -> None:
        """Expire what is due."""
        self._expiry.tick(now)

    def deadline(self) -> Instant | None:
        """When `tick` wants to be called next."""
        return self._expiry.deadline

    def close(self) -> None:
        """Nobody waits here."""

    def _topic_deleted(self, topic: TopicImage) -> None:
        gone = [place for place in self.store.places_of_topic(topic.name) if self._was_for(place, topic.id)]
        for at in range(0, len(gone), _MOST_TOMBSTONES):
            records = tuple(offset_tombstone(place) for place in gone[at : at + _MOST_TOMBSTONES])
            # Should the disk refuse, the next look for stale offsets finds them.
            self._shard.machine.run(partial(Decision, records, None), _ignore)

    def _was_for(self, place: Place, topic_id: Uuid) -> bool:
        committed = self.store.get(place.group, place.topic, place.partition)
        return committed is None or committed.topic_id in (topic_id, NO_UUID)


def _refusal(new: NewOffset, metadata_max: int, check: CheckPartition | None) -> ErrorCode:
    if len(new.metadata) > metadata_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    if check is not None:
        try:
            check(new.topic_id, new.partition)
        except Refused as refused:
            return refused.code
    return ErrorCode.NONE


def _ignore(_reply: Refused | StorageError | None) -> None:
    """Nobody waits for it."""

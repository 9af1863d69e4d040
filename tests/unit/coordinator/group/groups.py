"""Shards of groups to test with, and a group that is whatever a test wants it to be."""

from everlog.coordinator.group.group import CheckPartition, DescribedGroup
from everlog.coordinator.group.offsets import CommitOffsets, Fetched, FetchOffsets, NewOffset
from everlog.coordinator.group.offsets_store import Committed
from everlog.coordinator.group.shard import GroupShard
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.records import CoordinatorRecord
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Timestamp
from everlog.wire.messages.group_metadata_record import GroupMetadataKey
from tests.unit.coordinator.worlds import Replies, World


class MadeUpGroup:
    """A group with settable traits."""

    def __init__(self, group_id: str, *, topics: tuple[str, ...] = (), members: tuple[str, ...] = ()) -> None:
        self.id = group_id
        self.type = "classic"
        self.protocol_type = "consumer"
        self.members = members
        self.topics = topics
        self.empty_since: Timestamp | None = None
        self.refusal: Refused | None = None
        self.partition_check: CheckPartition | None = None
        self.heard: list[str] = []

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def subscribes_to(self, topic: str) -> bool:
        return bool(self.members) and topic in self.topics

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, api_version: int
    ) -> CheckPartition | None:
        if self.refusal is not None:
            raise self.refusal
        return self.partition_check

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if self.refusal is not None:
            raise self.refusal

    def heard_from(self, member_id: str) -> None:
        self.heard.append(member_id)

    def describe(self) -> DescribedGroup | None:
        return DescribedGroup(self.state, self.protocol_type, "", ())

    def tombstones(self) -> tuple[CoordinatorRecord, ...]:
        return (CoordinatorRecord(2, GroupMetadataKey(group=self.id), None),)


def a_shard(world: World, epoch: int = 0) -> GroupShard:
    """A shard that has read what the world's journal has."""
    shard = GroupShard(world.given(epoch))
    world.journal.replay_into(shard.machine)
    shard.activated(world.clock.now())
    return shard


def new_offset(
    world: World, topic: str, partition: int, offset: int, metadata: str = "", leader_epoch: int = -1
) -> NewOffset:
    """An offset for a topic of the world."""
    return NewOffset(topic, world.image.topics[topic].id, partition, offset, leader_epoch, metadata)


def committed(
    shard: GroupShard,
    group: str,
    *offsets: NewOffset,
    producer: ProducerStamp | None = None,
    member_id: str = "",
    epoch: int = -1,
    retention_ms: int = -1,
    api_version: int = 9,
) -> Replies[list[ErrorCode]]:
    """Commit, and return the reply, if there is one yet."""
    replies: Replies[list[ErrorCode]] = Replies()
    command = CommitOffsets(
        group,
        offsets,
        member_id,
        epoch=epoch,
        retention_ms=retention_ms,
        producer=producer,
        api_version=api_version,
    )
    shard.offsets.commit(command, replies.append)
    return replies


def fetched(
    shard: GroupShard, group: str, topic: str = "orders", partition: int = 0, *, stable: bool = False
) -> Fetched:
    """What a fetch says of one partition."""
    replies: Replies[list[Fetched]] = Replies()
    command = FetchOffsets(group, ((topic, partition),), require_stable=stable)
    shard.offsets.fetch(command, replies.append)
    return replies.only[0]


def offset_of(shard: GroupShard, group: str, topic: str = "orders", partition: int = 0) -> int | None:
    """The offset that a fetch says is committed; None for none."""
    found: Committed | None = fetched(shard, group, topic, partition).committed
    return None if found is None else found.offset

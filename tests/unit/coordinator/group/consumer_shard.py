"""A shard with consumer groups, and members that behave as clients do."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from everlog.coordinator.group.consumer_commands import ConsumerHeartbeat, HeartbeatReply
from everlog.coordinator.group.consumer_group import ConsumerGroup
from everlog.coordinator.group.consumer_member import NO_PARTITIONS, Partitions, TopicIdPartition
from everlog.coordinator.group.shard import GroupShard
from everlog.metadata.delta import Changes
from everlog.metadata.image import TopicImage
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Instant
from tests.unit.coordinator.worlds import World, a_topic, an_image

GROUP = "readers"
REBALANCE_MS = 60_000


def partitions_of(topic: TopicImage, indexes: Iterable[int] | None = None) -> Partitions:
    """Partitions of a topic; all of them unless some are named."""
    chosen = range(len(topic.partitions)) if indexes is None else indexes
    return frozenset(TopicIdPartition(topic.id, index) for index in chosen)


class ConsumerShard:
    """One shard in a world of its own, and short ways to say things to it."""

    def __init__(self, *topics: TopicImage, **settings: str) -> None:
        self.world = World(*topics, **settings)
        self.shard = GroupShard(self.world.given())
        self.shard.machine.loaded()
        self.shard.activated(self.now)

    @property
    def now(self) -> Instant:
        return self.world.clock.now()

    def group(self, group_id: str = GROUP) -> ConsumerGroup:
        """The group, which must be there and of this type."""
        group = self.shard.groups.get(group_id)
        assert isinstance(group, ConsumerGroup), group
        return group

    def send(self, command: ConsumerHeartbeat) -> HeartbeatReply | Refused | StorageError:
        """One heartbeat and what came of it."""
        replies: list[HeartbeatReply | Refused | StorageError] = []
        self.shard.consumer.heartbeat(command, self.now, replies.append)
        assert len(replies) == 1, replies
        return replies[0]

    def reload(self) -> GroupShard:
        """What the next broker makes of the log."""
        shard = GroupShard(self.world.given(epoch=1))
        self.world.journal.replay_into(shard.machine)
        return shard

    def restart(self) -> None:
        """Go on as the next broker, after `kill -9` of this one."""
        self.shard.close()
        self.shard = self.reload()
        self.shard.activated(self.now)

    def pass_time(self, ms: int) -> None:
        """Let time pass, with a tick whenever one is due."""
        end = self.now + ms
        while (due := self.shard.deadline()) is not None and due <= end:
            self.world.clock.advance(max(0, due - self.now))
            self.shard.tick(self.now)
        self.world.clock.advance(end - self.now)
        self.shard.tick(self.now)

    def set_topics(self, *topics: TopicImage) -> None:
        """Make these the topics of the cluster."""
        before = self.world.image
        after = an_image(*topics)
        self.world.image = replace(after, end_offset=type(after.end_offset)(before.end_offset + 1))
        gone = tuple(one for one in before.topics.values() if after.topics.get(one.name) != one)
        came = tuple(name for name, one in after.topics.items() if before.topics.get(name) != one)
        self.shard.image_changed(Changes(topics=came, deleted=gone))

    def log(self) -> list[tuple[bytes, bytes | None]]:
        """All records written so far."""
        return [record for batch in self.world.journal.batches for record in batch.records]


class Client:
    """A member as clients are: it gives up at once what it is no longer given, and says so."""

    def __init__(
        self, shard: ConsumerShard, member_id: str, *topics: str, group: str = GROUP, **more: Any
    ) -> None:
        self.shard = shard
        self.id = member_id
        self.group_id = group
        self.topics = frozenset(topics)
        self.more = more
        self.epoch = 0
        self.owned: Partitions = NO_PARTITIONS
        self.waits = False

    def join(self) -> "Client":
        """Come, or begin anew; what it had is given up."""
        self.epoch, self.owned = 0, NO_PARTITIONS
        self.take(self.send(self.full()))
        return self

    def full(self) -> ConsumerHeartbeat:
        """A heartbeat that tells everything."""
        return ConsumerHeartbeat(
            self.group_id,
            self.id,
            self.epoch,
            "client",
            "/127.0.0.1",
            rebalance_timeout_ms=REBALANCE_MS,
            topics=self.topics,
            owned=self.owned,
            **self.more,
        )

    def brief(self, owned: Partitions | None = None) -> ConsumerHeartbeat:
        """A heartbeat that only says that it is there, and perhaps what it has."""
        return ConsumerHeartbeat(
            self.group_id,
            self.id,
            self.epoch,
            "client",
            "/127.0.0.1",
            instance_id=self.more.get("instance_id"),
            owned=owned,
        )

    def send(self, command: ConsumerHeartbeat) -> HeartbeatReply:
        """Send, and expect to be told more than a refusal."""
        reply = self.shard.send(command)
        assert isinstance(reply, HeartbeatReply), reply
        return reply

    def take(self, reply: HeartbeatReply) -> bool:
        """Do as told, and say whether anything has changed."""
        changed = reply.epoch != self.epoch
        self.epoch, self.waits = reply.epoch, reply.waits
        if reply.assignment is not None and reply.assignment != self.owned:
            self.owned = reply.assignment
            changed = True
        return changed

    def beat(self) -> bool:
        """One heartbeat; when partitions came or went, another one says so, as real clients do at once."""
        had = self.owned
        changed = self.take(self.send(self.brief()))
        if self.owned != had:
            changed |= self.take(self.send(self.brief(self.owned)))
        return changed

    def leave(self, epoch: int = -1) -> None:
        """Go."""
        self.epoch = epoch
        self.send(self.brief())
        self.owned = NO_PARTITIONS

    def refusal(self, command: ConsumerHeartbeat) -> ErrorCode:
        """Send, and expect to be refused."""
        reply = self.shard.send(command)
        assert isinstance(reply, Refused), reply
        return reply.code


def settle(*clients: Client, rounds: int = 10) -> None:
    """Let everyone send heartbeats until nothing changes any more."""
    for _ in range(rounds):
        # All of them, whether or not one before had news.
        changed = [client.beat() for client in clients]
        if not any(changed):
            return
    raise AssertionError(f"no rest after {rounds} rounds: {[client.owned for client in clients]}")


def a_shard(*counts: int, **settings: str) -> ConsumerShard:
    """A shard in a cluster of topics t0, t1, ... with as many partitions as given."""
    return ConsumerShard(*(a_topic(f"t{at}", count) for at, count in enumerate(counts)), **settings)

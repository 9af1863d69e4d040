"""Whatever members, topics, disks and time do, in any order: nobody's partition is another's too (C16).

Members behave as clients do, at their own pace: they may be slow to give up, miss answers, fall silent, and
go on with another epoch than the coordinator's. After every step the next coordinator makes the same group
of the log, and in the end, when all is quiet, everything is given out.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from everlog.coordinator.group.consumer_commands import ConsumerHeartbeat, HeartbeatReply
from everlog.coordinator.group.consumer_group import ConsumerGroup
from everlog.coordinator.group.consumer_member import NO_PARTITIONS, Partitions, TopicIdPartition
from everlog.coordinator.group.shard import GroupShard
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Uuid
from tests.unit.coordinator.group.consumer_shard import GROUP, REBALANCE_MS, ConsumerShard, partitions_of
from tests.unit.coordinator.worlds import KeptBatch, World, a_topic

TOPICS = ("t0", "t1", "t2")
SUBSCRIPTIONS = st.frozensets(st.sampled_from(TOPICS), min_size=1)
REGEXES = st.sampled_from([None, None, "t[01]", "t.*"])
WHO = st.integers(0, 3)


class Reader:
    """A client: what it reads now, and what it was last told to read."""

    def __init__(self, shard: ConsumerShard, name: str, instance_id: str | None) -> None:
        self.shard = shard
        self.name = name
        self.instance_id = instance_id
        self.lives = 0
        self.joined = False
        self.epoch = 0
        self.topics: frozenset[str] = frozenset()
        self.regex: str | None = None
        self.reads: Partitions = NO_PARTITIONS
        """What it reads at this moment, and will until it has heard otherwise and stopped."""
        self.told: Partitions = NO_PARTITIONS
        self.tells_all = False
        """Whether an answer was missed, so that the next heartbeat tells everything."""

    @property
    def id(self) -> str:
        return f"{self.name}-{self.lives}"

    def join(self, topics: frozenset[str], regex: str | None) -> None:
        """Begin, or begin anew, with nothing."""
        self.topics, self.regex = topics, regex
        self.joined, self.epoch = True, 0
        self.reads = self.told = NO_PARTITIONS
        self.tells_all = True

    def command(self, *, owned: bool) -> ConsumerHeartbeat:
        """The next heartbeat."""
        full = self.tells_all or self.epoch == 0
        return ConsumerHeartbeat(
            GROUP,
            self.id,
            self.epoch,
            "client",
            "/127.0.0.1",
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if full else -1,
            topics=self.topics if full else None,
            regex=(self.regex or "") if full else None,
            owned=self.reads if full or owned else None,
        )

    def send(self, *, owned: bool = False, lost: bool = False) -> bool:
        """One heartbeat; returns whether anything has changed."""
        reply = self.shard.send(self.command(owned=owned))
        if lost:
            self.tells_all = True
            return True
        if isinstance(reply, StorageError):
            self.tells_all = True
            return True
        if isinstance(reply, Refused):
            return self._refused(reply)
        return self._take(reply)

    def _take(self, reply: HeartbeatReply) -> bool:
        changed = reply.epoch != self.epoch
        self.epoch, self.tells_all = reply.epoch, False
        if reply.assignment is not None and reply.assignment != self.told:
            self.told, changed = reply.assignment, True
        return changed

    def _refused(self, refusal: Refused) -> bool:
        """What clients do: the fenced begin anew, with nothing."""
        assert refusal.code in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ), refusal
        self.join(self.topics, self.regex)
        return True

    def stop_reading(self) -> None:
        """Give up what it is no longer to read."""
        self.reads &= self.told

    def start_reading(self) -> None:
        """Read what it was given, once it has given up the rest."""
        if self.reads <= self.told:
            self.reads = self.told

    def leave(self, epoch: int) -> None:
        """Go, and come back, if at all, as another member."""
        reads, self.reads = self.reads, NO_PARTITIONS
        self.epoch = epoch
        reply = self.shard.send(self.command(owned=False))
        assert reads is not None
        assert not isinstance(reply, Refused) or reply.code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ), reply
        self.joined, self.epoch = False, 0
        self.lives += 1


class AnyOrder(RuleBasedStateMachine):
    """One group of up to four members."""

    @initialize()
    def begin(self) -> None:
        self.shard = ConsumerShard(a_topic("t0", 3), a_topic("t1", 2))
        self.readers = [Reader(self.shard, name, "static" if name == "s" else None) for name in "abcs"]
        self.next_id = 0

    def joined(self, who: int) -> Reader | None:
        reader = self.readers[who]
        return reader if reader.joined else None

    # --- what members do

    @rule(who=WHO, topics=SUBSCRIPTIONS, regex=REGEXES)
    def subscribe(self, who: int, topics: frozenset[str], regex: str | None) -> None:
        reader = self.readers[who]
        if not reader.joined:
            reader.join(topics, regex)
        else:
            reader.topics, reader.regex, reader.tells_all = topics, regex, True
        reader.send()

    @rule(who=WHO, owned=st.booleans(), lost=st.booleans())
    def heartbeat(self, who: int, owned: bool, lost: bool) -> None:
        if (reader := self.joined(who)) is not None:
            reader.send(owned=owned, lost=lost)

    @rule(who=WHO)
    def stop_reading(self, who: int) -> None:
        if (reader := self.joined(who)) is not None:
            reader.stop_reading()

    @rule(who=WHO)
    def start_reading(self, who: int) -> None:
        if (reader := self.joined(who)) is not None:
            reader.start_reading()

    @rule(who=WHO, for_good=st.booleans())
    def leave(self, who: int, for_good: bool) -> None:
        if (reader := self.joined(who)) is not None:
            reader.leave(-1 if for_good or reader.instance_id is None else -2)

    # --- what else happens

    @rule(ms=st.integers(1, 50_000))
    def pass_time(self, ms: int) -> None:
        self.shard.pass_time(ms)

    @rule()
    def kill_the_coordinator(self) -> None:
        self.shard.restart()

    @rule(who=WHO)
    def fill_the_disk_for_one_heartbeat(self, who: int) -> None:
        if (reader := self.joined(who)) is not None:
            self.shard.world.journal.refusal = StorageError("the disk is full")
            reader.send()
            self.shard.world.journal.refusal = None

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(0, 5), anew=st.booleans())
    def change_a_topic(self, name: str, partitions: int, anew: bool) -> None:
        topics = dict(self.shard.world.image.topics)
        old = topics.pop(name, None)
        if partitions:
            self.next_id += 1
            topic_id = Uuid(self.next_id.to_bytes(16, "big")) if anew or old is None else old.id
            if not anew and old is not None:
                partitions = max(partitions, len(old.partitions))
            topics[name] = a_topic(name, partitions, topic_id)
        self.shard.set_topics(*topics.values())

    # --- what always holds

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.group()
        if group is None:
            return
        owned: list[TopicIdPartition] = []
        for member in group.members.values():
            owned += [*member.assigned, *member.pending_revocation]
        assert len(owned) == len(set(owned)) == len(group.owners())

    @invariant()
    def no_partition_is_read_by_two_members(self) -> None:
        group = self.group()
        read: list[TopicIdPartition] = []
        for reader in self.readers:
            # Who was let go for being silent or slow may not know yet; a static one that left has stopped.
            if group is not None and reader.joined and reader.id in group.members and reader.epoch > 0:
                read += reader.reads
        assert len(read) == len(set(read))

    @invariant()
    def what_is_read_belongs_to_who_reads_it(self) -> None:
        group = self.group()
        for reader in self.readers:
            if group is None or not reader.joined or reader.epoch <= 0:
                continue
            member = group.members.get(reader.id)
            # One in another epoch than it thinks is fenced with its next heartbeat.
            if member is not None and member.epoch == reader.epoch and not reader.tells_all:
                assert reader.reads <= {*member.assigned, *member.pending_revocation}

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.group()
        if group is not None:
            assert group.target_epoch <= group.epoch
            assert all(member.epoch <= group.target_epoch for member in group.members.values())

    @invariant()
    def the_next_coordinator_sees_the_same(self) -> None:
        self.check_same(self.shard.reload())

    @invariant()
    def the_next_coordinator_sees_the_same_in_a_compacted_log(self) -> None:
        last = {key: (at, value) for at, (key, value) in enumerate(self.shard.log())}
        world = World()
        kept = sorted((at, key, value) for key, (at, value) in last.items())
        world.journal.batches = [KeptBatch(at, ((key, value),), None) for at, key, value in kept]
        shard = GroupShard(world.given())
        world.journal.replay_into(shard.machine)
        self.check_same(shard)

    def check_same(self, after: GroupShard) -> None:
        group = self.group()
        other = after.groups.get(GROUP)
        assert (group is None) == (other is None)
        if group is not None:
            assert isinstance(other, ConsumerGroup)
            assert other.value() == group.value()
            assert after.consumer.member_count == self.shard.shard.consumer.member_count

    @precondition(lambda self: any(reader.joined for reader in self.readers))
    @rule()
    def everything_is_given_out_when_all_is_quiet(self) -> None:
        present = [reader for reader in self.readers if reader.joined]
        # Those who went without a word are let go; those who are there go on saying so.
        for _ in range(8):
            self.shard.pass_time(20_000)
            for reader in present:
                self.act(reader)
        for _ in range(30):
            changed = [self.act(reader) for reader in present]
            if not any(changed):
                break
        else:
            raise AssertionError("no rest")
        self.check_shares(present)

    def act(self, reader: Reader) -> bool:
        changed = reader.send()
        before = reader.reads
        reader.stop_reading()
        reader.start_reading()
        if reader.reads != before or not changed:
            changed |= reader.send(owned=True)
        return changed or reader.reads != before

    def check_shares(self, present: list[Reader]) -> None:
        group = self.group()
        assert group is not None
        assert group.members.keys() == {reader.id for reader in present}
        assert group.state == "Stable"
        image = self.shard.world.image
        read = frozenset[str]().union(
            *(group.topics_of(member.subscription) for member in group.members.values())
        )
        everything = frozenset[TopicIdPartition]().union(
            *(partitions_of(image.topics[name]) for name in read if name in image.topics)
        )
        assert frozenset[TopicIdPartition]().union(*(reader.reads for reader in present)) == everything

    def group(self) -> ConsumerGroup | None:
        group = self.shard.shard.groups.get(GROUP)
        assert group is None or isinstance(group, ConsumerGroup)
        return group


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase

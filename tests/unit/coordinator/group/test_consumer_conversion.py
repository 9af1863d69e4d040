"""Groups that change their protocol while in use, and classic members of consumer groups (C3, C16)."""

from struct import pack

import pytest

from everlog.coordinator.group.classic_commands import (
    GroupProtocol,
    Heard,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Leaver,
    Left,
    Synced,
    SyncGroup,
)
from everlog.coordinator.group.classic_group import ClassicGroup
from everlog.coordinator.group.consumer_commands import HeartbeatReply
from everlog.coordinator.group.consumer_embedded import read_assignment, write_assignment
from everlog.coordinator.group.consumer_member import NO_PARTITIONS, Partitions
from everlog.model.errors import ErrorCode
from everlog.wire.codec import encode_value
from everlog.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from everlog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from tests.unit.coordinator.group.consumer_shard import (
    GROUP,
    REBALANCE_MS,
    Client,
    ConsumerShard,
    a_shard,
    partitions_of,
    settle,
)
from tests.unit.coordinator.worlds import a_topic

SESSION_MS = 10_000


class ClassicClient:
    """A consumer of the classic protocol: cooperative, or eager and without partitions when it joins."""

    def __init__(
        self, shard: ConsumerShard, *topics: str, cooperative: bool = True, instance_id: str | None = None
    ) -> None:
        self.shard = shard
        self.topics = list(topics)
        self.cooperative = cooperative
        self.instance_id = instance_id
        self.id = ""
        self.generation = -1
        self.owned: Partitions = NO_PARTITIONS
        self.joins: list[Joined] = []
        self.assignor = "cooperative-sticky" if cooperative else "range"

    def ask_to_join(self) -> None:
        """Send JoinGroup; the answer may be much later."""
        if not self.cooperative:
            self.owned = NO_PARTITIONS
        command = JoinGroup(
            group_id=GROUP,
            member_id=self.id,
            instance_id=self.instance_id,
            client_id="classic",
            client_host="/127.0.0.1",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=(GroupProtocol(self.assignor, self._subscription()),),
        )
        self.joins = []
        self.shard.shard.classic.join(command, self.shard.now, self.joins.append)

    def join(self) -> Joined:
        """Join, with an id that was given first where that is so, and be told at once."""
        self.ask_to_join()
        if self.joins[0].error is ErrorCode.MEMBER_ID_REQUIRED:
            self.id = self.joins[0].member_id
            self.ask_to_join()
        return self.take_joined()

    def take_joined(self) -> Joined:
        (joined,) = self.joins
        if joined.error is ErrorCode.NONE:
            self.id, self.generation = joined.member_id, joined.generation
        return joined

    def sync(self, *assignments: tuple[str, bytes]) -> Synced:
        command = SyncGroup(
            GROUP, self.id, self.instance_id, self.generation, "consumer", self.assignor, assignments
        )
        replies: list[Synced] = []
        self.shard.shard.classic.sync(command, self.shard.now, replies.append)
        (synced,) = replies
        if synced.error is ErrorCode.NONE:
            self.owned = read_assignment(synced.assignment, self.shard.world.image)
        return synced

    def heartbeat(self) -> ErrorCode:
        command = Heartbeat(GROUP, self.id, self.instance_id, self.generation)
        replies: list[Heard] = []
        self.shard.shard.classic.heartbeat(command, self.shard.now, replies.append)
        (heard,) = replies
        return heard.error

    def leave(self) -> Left:
        return leave(self.shard, Leaver(self.id, self.instance_id))

    def beat(self) -> bool:
        """A heartbeat, and what a client does when told to join again."""
        error = self.heartbeat()
        if error is ErrorCode.NONE:
            return False
        assert error is ErrorCode.REBALANCE_IN_PROGRESS, error
        had = self.owned
        self.join()
        self.sync()
        if self.cooperative and not had <= self.owned:
            # What it had to give up it has given up now, and says so.
            self.join()
            self.sync()
        return True

    def metadata(self) -> bytes:
        return self._subscription()

    def _subscription(self) -> bytes:
        image = self.shard.world.image
        message = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[
                TopicPartition(topic=image.topics_by_id[one.topic_id].name, partitions=[one.partition])
                for one in sorted(self.owned)
            ],
        )
        return pack(">h", 1) + encode_value(message, 1)


def leave(shard: ConsumerShard, *leavers: Leaver) -> Left:
    replies: list[Left] = []
    shard.shard.classic.leave(LeaveGroup(GROUP, leavers), shard.now, replies.append)
    (left,) = replies
    return left


def classic_group(shard: ConsumerShard) -> ClassicGroup:
    group = shard.shard.groups.get(GROUP)
    assert isinstance(group, ClassicGroup), group
    return group


def a_classic_group(
    shard: ConsumerShard, *shares: Partitions, cooperative: bool = True
) -> list[ClassicClient]:
    """A stable classic group, whose members have these shares."""
    clients = [ClassicClient(shard, "t0", cooperative=cooperative) for _ in shares]
    for client in clients:
        client.ask_to_join()
        client.id = client.joins[0].member_id
        client.ask_to_join()
    shard.pass_time(6_000)
    for client in clients:
        assert client.take_joined().error is ErrorCode.NONE
    image = shard.world.image
    assignments = [
        (client.id, write_assignment(share, client.metadata(), image))
        for client, share in zip(clients, shares, strict=True)
    ]
    for client, share in zip(clients, shares, strict=True):
        assert client.sync(*assignments).error is ErrorCode.NONE
        assert client.owned == share
    return clients


def settle_all(*clients: Client | ClassicClient) -> None:
    for _ in range(20):
        changed = [client.beat() for client in clients]
        if not any(changed):
            return
    raise AssertionError([client.owned for client in clients])


@pytest.mark.parametrize("cooperative", [True, False], ids=["cooperative", "eager"])
def test_a_classic_group_becomes_a_consumer_group_and_its_members_go_on(cooperative: bool) -> None:
    shard = a_shard(4)
    everything = partitions_of(a_topic("t0", 4))
    (old,) = a_classic_group(shard, everything, cooperative=cooperative)

    new = Client(shard, "new", "t0").join()

    assert shard.group().members.keys() == {old.id, "new"}
    assert new.owned == NO_PARTITIONS
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    settle_all(old, new)
    assert old.owned | new.owned == everything
    assert len(old.owned) == len(new.owned) == 2
    assert shard.reload().groups.get(GROUP) is not None
    shard.restart()
    assert old.heartbeat() is ErrorCode.NONE
    assert not new.beat()


def test_the_epoch_goes_on_where_the_generation_was() -> None:
    shard = a_shard(2)
    (old,) = a_classic_group(shard, partitions_of(a_topic("t0", 2)))
    generation = old.generation

    new = Client(shard, "new", "t0").join()

    assert new.epoch == generation + 1
    assert shard.group().members[old.id].epoch == generation


def test_members_that_wait_in_a_classic_rebalance_are_told_to_join_again() -> None:
    shard = a_shard(2)
    old, other = a_classic_group(shard, *(partitions_of(a_topic("t0", 2), [one]) for one in range(2)))
    old.topics = ["t0", "t1"]
    old.ask_to_join()
    assert not old.joins

    Client(shard, "new", "t0").join()

    assert [joined.error for joined in old.joins] == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert old.join().error is ErrorCode.NONE
    assert other.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_what_a_classic_member_still_has_nobody_else_gets() -> None:
    shard = a_shard(2)
    (old,) = a_classic_group(shard, partitions_of(a_topic("t0", 2)))
    new = Client(shard, "new", "t0").join()

    old.join()
    synced = old.sync()
    assert synced.error is ErrorCode.NONE
    # It was given one partition less, and has not said yet that it gave that up.
    assert len(old.owned) == 1
    assert not new.beat()
    assert new.owned == NO_PARTITIONS
    old.join()
    new.beat()

    assert len(new.owned) == 1


def test_a_classic_client_joins_a_consumer_group() -> None:
    shard = a_shard(4)
    new = Client(shard, "new", "t0").join()
    old = ClassicClient(shard, "t0")

    joined = old.join()

    assert joined.error is ErrorCode.NONE
    assert joined.leader == ""
    assert old.sync().error is ErrorCode.NONE
    settle_all(new, old)
    assert len(old.owned) == len(new.owned) == 2


def test_the_last_who_speaks_the_consumer_protocol_leaves_a_classic_group_behind() -> None:
    shard = a_shard(2)
    (old,) = a_classic_group(shard, partitions_of(a_topic("t0", 2)))
    new = Client(shard, "new", "t0").join()
    settle_all(old, new)

    new.leave()

    group = classic_group(shard)
    assert [one.id for one in group.members] == [old.id]
    assert read_assignment(next(iter(group.members)).assignment, shard.world.image) == old.owned
    # Its members join again with what they have, and the next coordinator sees the classic group too.
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert old.join().error is ErrorCode.NONE
    shard.restart()
    assert classic_group(shard).members.get(old.id) is not None
    assert shard.shard.consumer.member_count == 0


def test_a_member_that_times_out_can_be_the_last_who_speaks_the_consumer_protocol() -> None:
    shard = a_shard(2)
    (old,) = a_classic_group(shard, partitions_of(a_topic("t0", 2)))
    new = Client(shard, "new", "t0").join()
    settle_all(old, new)
    for _ in range(5):
        shard.pass_time(SESSION_MS - 1)
        old.heartbeat()

    assert [one.id for one in classic_group(shard).members] == [old.id]


def test_a_static_member_that_comes_back_with_the_classic_protocol_takes_the_group_back() -> None:
    shard = a_shard(2)
    Client(shard, "new", "t0", instance_id="one").join().leave(-2)
    old = ClassicClient(shard, "t0", instance_id="one")

    joined = old.join()

    assert joined.error is ErrorCode.NONE
    group = classic_group(shard)
    assert [one.instance_id for one in group.members] == ["one"]
    assert old.sync().error is not ErrorCode.NONE


@pytest.mark.parametrize("policy", ["downgrade", "disabled"])
def test_a_group_stays_classic_where_the_policy_says_so(policy: str) -> None:
    shard = a_shard(2, group_consumer_migration_policy=policy)
    (old,) = a_classic_group(shard, partitions_of(a_topic("t0", 2)))
    new = Client(shard, "new", "t0")

    assert new.refusal(new.full()) == ErrorCode.GROUP_ID_NOT_FOUND
    assert old.heartbeat() is ErrorCode.NONE


def test_a_group_stays_a_consumer_group_where_the_policy_says_so() -> None:
    shard = a_shard(2, group_consumer_migration_policy="upgrade")
    (old,) = a_classic_group(shard, partitions_of(a_topic("t0", 2)))
    new = Client(shard, "new", "t0").join()
    settle_all(old, new)

    new.leave()

    assert shard.group().members.keys() == {old.id}
    settle_all(old)
    assert old.owned == partitions_of(a_topic("t0", 2))


def test_classic_clients_stay_out_of_consumer_groups_where_the_policy_is_disabled() -> None:
    shard = a_shard(2, group_consumer_migration_policy="disabled")
    Client(shard, "new", "t0").join()

    assert ClassicClient(shard, "t0").join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_classic_group_can_be_joined_whatever_the_policy() -> None:
    shard = a_shard(2, group_consumer_migration_policy="disabled")
    (old,) = a_classic_group(shard, partitions_of(a_topic("t0", 2)))
    old.leave()

    assert Client(shard, "new", "t0").join().owned == partitions_of(a_topic("t0", 2))


def test_a_group_of_other_than_consumers_cannot_be_upgraded() -> None:
    shard = a_shard(1)
    (old,) = a_classic_group(shard, partitions_of(a_topic("t0")))
    classic_group(shard).protocol_type = "connect"
    new = Client(shard, "new", "t0")

    assert new.refusal(new.full()) == ErrorCode.GROUP_ID_NOT_FOUND
    assert classic_group(shard).members.get(old.id) is not None


def test_a_group_whose_members_cannot_be_understood_cannot_be_upgraded() -> None:
    shard = a_shard(1)
    (old,) = a_classic_group(shard, partitions_of(a_topic("t0")))
    member = classic_group(shard).members.get(old.id)
    assert member is not None
    member.assignment = b"\0"
    new = Client(shard, "new", "t0")

    assert new.refusal(new.full()) == ErrorCode.GROUP_ID_NOT_FOUND


def test_the_protocol_that_was_chosen_is_the_one_that_counts() -> None:
    shard = a_shard(2)
    (old,) = a_classic_group(shard, partitions_of(a_topic("t0", 2)))
    member = classic_group(shard).members.get(old.id)
    assert member is not None
    member.protocols = (GroupProtocol("mine", b""), *member.protocols)

    new = Client(shard, "new", "t0").join()

    classic = shard.group().members[old.id].subscription.classic
    assert classic is not None
    assert [name for name, _ in classic.protocols] == ["cooperative-sticky", "mine"]
    new.leave()
    assert classic_group(shard).protocol == "cooperative-sticky"


@pytest.mark.parametrize(("assignor", "is_upgraded"), [("cooperative-sticky", True), ("stream", False)])
def test_a_group_with_an_assignor_that_needs_its_own_data_cannot_be_upgraded(
    assignor: str, is_upgraded: bool
) -> None:
    shard = a_shard(1)
    (old,) = a_classic_group(shard, partitions_of(a_topic("t0")))
    group = classic_group(shard)
    group.protocol = assignor
    member = group.members.get(old.id)
    assert member is not None
    member.protocols = (GroupProtocol(assignor, old.metadata()),)
    message = ConsumerProtocolAssignment(user_data=b"state")
    member.assignment = pack(">h", 0) + encode_value(message, 0)
    new = Client(shard, "new", "t0")

    assert isinstance(shard.send(new.full()), HeartbeatReply) == is_upgraded


def test_a_classic_member_without_a_common_protocol_is_refused() -> None:
    shard = a_shard(2)
    Client(shard, "new", "t0").join()
    ClassicClient(shard, "t0").join()

    eager = ClassicClient(shard, "t0", cooperative=False)

    assert eager.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_in_another_generation_is_refused() -> None:
    shard = a_shard(2)
    Client(shard, "new", "t0").join()
    old = ClassicClient(shard, "t0")
    old.join()
    old.generation += 1

    assert old.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert old.sync().error is ErrorCode.ILLEGAL_GENERATION


def test_a_member_of_the_consumer_protocol_is_no_classic_one() -> None:
    shard = a_shard(2)
    new = Client(shard, "new", "t0").join()
    old = ClassicClient(shard, "t0")
    old.id, old.generation = new.id, new.epoch

    assert old.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_does_not_join_again_in_time_is_let_go() -> None:
    shard = a_shard(2)
    (old,) = a_classic_group(shard, partitions_of(a_topic("t0", 2)))
    new = Client(shard, "new", "t0").join()
    for _ in range(REBALANCE_MS // SESSION_MS + 2):
        shard.pass_time(SESSION_MS - 1)
        old.heartbeat()
        new.beat()

    assert shard.group().members.keys() == {"new"}
    settle(new)
    assert new.owned == partitions_of(a_topic("t0", 2))


def test_an_operator_removes_a_static_member_of_either_protocol() -> None:
    shard = a_shard(2)
    Client(shard, "a", "t0", instance_id="one").join()
    other = Client(shard, "b", "t0").join()

    left = leave(shard, Leaver("", "one"), Leaver("", "two"), Leaver("x"))

    assert [one.error for one in left.departures] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    settle(other)
    assert other.owned == partitions_of(a_topic("t0", 2))

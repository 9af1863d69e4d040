"""Random lives of brokers against a ghost of what is committed (reliability 1.4: 2, 5, 6 and 7).

Brokers crash and lose their tail, stop cleanly, are fenced whether they are dead or not, come back; leaders
commit, propose ISRs that arrive late or never; partitions move. The ghost knows up to where each partition is
committed and how far each replica's log reaches. After each step, who may be elected cleanly has all of it.
"""

import os
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everlog.controller.balance import BalanceLeaders
from everlog.controller.brokers import UnfenceBroker, UnregisterBroker
from everlog.controller.configs import ChangeConfigs, ConfigChange, Operation
from everlog.controller.heartbeats import Beat
from everlog.controller.isr import AlterPartitions, IsrMember, IsrProposal
from everlog.controller.leader_election import ElectionType, ElectLeaders
from everlog.controller.partition_changes import PartitionRef
from everlog.controller.reassignment import AlterReassignments, Move
from everlog.metadata.image import ALL_BROKERS, NO_LEADER, PartitionImage
from everlog.model.errors import Refused
from everlog.model.ids import BrokerId
from tests.unit.controller.clusters import Cluster, check_invariants

BROKERS = range(1, 6)
PARTITIONS = range(3)
MIN_ISR = "min.insync.replicas"
EXAMPLES = int(os.environ.get("EVERLOG_CONTROLLER_EXAMPLES", "250"))


@dataclass
class Proposal:
    """An ISR that a leader has proposed, on its way."""

    leader: int
    leader_epoch_of_broker: int
    number: int
    proposal: IsrProposal


@dataclass
class World:
    """The cluster and its ghost."""

    cluster: Cluster
    up: set[int] = field(default_factory=lambda: set(BROKERS))
    lost: set[int] = field(default_factory=set)
    """Brokers that crashed and have not registered since."""
    committed: list[int] = field(default_factory=lambda: [0 for _ in PARTITIONS])
    ends: dict[tuple[int, int], int] = field(default_factory=dict)
    """Where the log of a partition's replica on a broker ends."""
    least: int = 1
    on_the_way: list[Proposal] = field(default_factory=list)

    def end(self, number: int, broker: int) -> int:
        return self.ends.get((number, broker), 0)

    def partition(self, number: int) -> PartitionImage:
        return self.cluster.partition(number=number)

    def known(self, broker: int) -> bool:
        return BrokerId(broker) in self.cluster.image.brokers


def a_world() -> World:
    cluster = Cluster(len(BROKERS))
    cluster.create("orders", (1, 2, 3), (3, 4, 5), (5, 1, 2))
    return World(cluster)


def crash(world: World, broker: int, _: int) -> None:
    world.up.discard(broker)
    world.lost.add(broker)
    for number in PARTITIONS:
        world.ends[number, broker] = world.end(number, broker) // 2


def stop(world: World, broker: int, _: int) -> None:
    world.up.discard(broker)


def fence(world: World, broker: int, _: int) -> None:
    if world.known(broker):
        world.cluster.fence(broker)


def restart(world: World, broker: int, _: int) -> None:
    if broker not in world.up:
        world.cluster.register(broker, clean=broker not in world.lost)
        world.lost.discard(broker)
        world.up.add(broker)


def unfence(world: World, broker: int, _: int) -> None:
    if broker in world.up and world.known(broker):
        world.cluster.do(UnfenceBroker(BrokerId(broker), world.cluster.epoch(broker)))


def leave(world: World, broker: int, limit: int) -> None:
    if broker in world.up and world.known(broker):
        offset = world.cluster.image.end_offset
        beat = Beat(
            BrokerId(broker), world.cluster.epoch(broker), offset, want_shut_down=True, limit=limit % 3 + 1
        )
        world.cluster.do(beat)


def leader_of(world: World, number: int) -> int | None:
    leader = world.partition(number).leader
    return leader if leader in world.up and leader != NO_LEADER else None


def propose(world: World, number: int, choice: int) -> None:
    leader = leader_of(world, number)
    if leader is None:
        return
    partition = world.partition(number)
    caught_up = [
        one
        for one in partition.replicas
        if one in world.up and world.known(one) and world.end(number, one) >= world.committed[number]
    ]
    members = [one for at, one in enumerate(caught_up) if one == leader or choice >> at & 1]
    world.on_the_way.append(
        Proposal(
            leader,
            world.cluster.epoch(leader),
            number,
            IsrProposal(
                PartitionRef(world.cluster.image.topics["orders"].id, number),
                partition.leader_epoch,
                partition.partition_epoch,
                tuple(IsrMember(BrokerId(one), world.cluster.epoch(one)) for one in members),
            ),
        )
    )


def deliver(world: World, at: int, twice: int) -> None:
    if world.on_the_way:
        index = at % len(world.on_the_way)
        one = world.on_the_way[index]
        if twice % 4:
            del world.on_the_way[index]
        if world.known(one.leader):
            world.cluster.do(
                AlterPartitions(BrokerId(one.leader), one.leader_epoch_of_broker, (one.proposal,))
            )


def commit(world: World, number: int, _: int) -> None:
    leader = leader_of(world, number)
    if leader is None:
        return
    partition = world.partition(number)
    if len(partition.isr) < min(world.least, len(partition.replicas)):
        return
    # While a proposal is on its way, its members count as well (KIP-497).
    counted = set(partition.isr)
    for one in world.on_the_way:
        proposal = one.proposal
        if one.number == number and proposal.partition_epoch == partition.partition_epoch:
            counted |= {int(member.broker) for member in proposal.isr}
    if not counted <= world.up:
        return
    world.committed[number] += 1
    for broker in counted:
        world.ends[number, broker] = world.committed[number]


def catch_up(world: World, number: int, broker: int) -> None:
    follower = broker % len(BROKERS) + 1
    if leader_of(world, number) is None or follower not in world.up:
        return
    if follower in world.partition(number).replicas:
        world.ends[number, follower] = world.committed[number]


def move(world: World, number: int, choice: int) -> None:
    replicas = tuple(one for one in BROKERS if choice >> one & 1)
    rotated = replicas[choice % max(1, len(replicas)) :] + replicas[: choice % max(1, len(replicas))]
    world.cluster.do(AlterReassignments((Move("orders", number, rotated if choice % 5 else None),)))


def elect(world: World, number: int, choice: int) -> None:
    kind = ElectionType.UNCLEAN if choice % 4 == 0 else ElectionType.PREFERRED
    world.cluster.do(ElectLeaders(kind, (("orders", number),)))


def set_least(world: World, least: int, _: int) -> None:
    world.least = least
    change = ConfigChange(MIN_ISR, Operation.SET, str(least))
    world.cluster.do(ChangeConfigs(((ALL_BROKERS, (change,)),)))


def forget(world: World, broker: int, _: int) -> None:
    if broker not in world.up and world.known(broker):
        world.cluster.do(UnregisterBroker(BrokerId(broker)))
        # Whoever comes under this number is not known to have stopped cleanly.
        world.lost.add(broker)


def balance(world: World, _: int, __: int) -> None:
    world.cluster.do(BalanceLeaders())


A_BROKER = st.sampled_from(list(BROKERS))
A_PARTITION = st.sampled_from(list(PARTITIONS))
A_CHOICE = st.integers(0, 63)
STEPS = st.one_of(
    *(st.tuples(st.just(one), A_BROKER, A_CHOICE) for one in (crash, stop, fence, restart, unfence, leave)),
    *(st.tuples(st.just(one), A_BROKER, A_CHOICE) for one in (restart, unfence, forget, balance)),
    *(st.tuples(st.just(one), A_PARTITION, A_CHOICE) for one in (propose, commit, catch_up, move, elect)),
    *(st.tuples(st.just(one), A_PARTITION, A_CHOICE) for one in (propose, commit, catch_up)),
    st.tuples(st.just(deliver), A_CHOICE, A_CHOICE),
    st.tuples(st.just(deliver), A_CHOICE, A_CHOICE),
    st.tuples(st.just(set_least), st.integers(1, 3), A_CHOICE),
)


def check_elections(world: World, before: list[PartitionImage], *, proposed: bool) -> None:
    """Who leads anew and had not all of it says so; then the ghost gives up what it lacks.

    A proposed ISR may end a reassignment and bring a leader of its own, which has all of it.
    """
    for number, was in enumerate(before):
        now = world.partition(number)
        assert now.leader_epoch >= was.leader_epoch, (was, now)
        assert now.partition_epoch >= was.partition_epoch, (was, now)
        if now.leader != was.leader:
            assert now.leader_epoch > was.leader_epoch, (was, now)
        if now.leader in (NO_LEADER, was.leader):
            continue
        if now.leader not in (*was.isr, *was.eligible_leaders) and not proposed:
            assert now.recovering, ("an election that may cost records must not look like another", was, now)
            assert now.isr == (now.leader,), now
            world.committed[number] = world.end(number, now.leader)
            for broker in BROKERS:
                world.ends[number, broker] = min(world.end(number, broker), world.committed[number])


def check_completeness(world: World) -> None:
    """Whoever is in sync or eligible, and did not crash since, has all that is committed."""
    for number in PARTITIONS:
        partition = world.partition(number)
        for broker in (*partition.isr, *partition.eligible_leaders):
            if broker not in world.lost:
                assert world.end(number, broker) >= world.committed[number], (number, broker, partition)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=10, max_size=60))
def test_whoever_may_be_elected_has_all_that_is_committed(steps: list[tuple[object, int, int]]) -> None:
    world = a_world()
    for step, first, second in steps:
        before = [world.partition(number) for number in PARTITIONS]
        try:
            step(world, first, second)  # type: ignore[operator]
        except Refused:
            assert [world.partition(number) for number in PARTITIONS] == before
        check_invariants(world.cluster)
        check_elections(world, before, proposed=step is deliver)
        check_completeness(world)

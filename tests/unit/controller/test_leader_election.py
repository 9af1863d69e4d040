"""Leaders that somebody asks for, and those that go back by themselves (KIP-460)."""

from typing import TypeVar

from everlog.controller.balance import BalanceLeaders, Balancer, owed_leads
from everlog.controller.controller import Done
from everlog.controller.decisions import Command, More, Refusal
from everlog.controller.leader_election import ElectionType, ElectLeaders
from everlog.metadata.image import NO_LEADER
from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant
from tests.unit.controller.builders import Machine, some_settings, started
from tests.unit.controller.clusters import Cluster, check_invariants, epochs, shape

R = TypeVar("R")


def codes(reply: dict[tuple[str, int], Refusal | None]) -> dict[tuple[str, int], ErrorCode | None]:
    return {key: None if one is None else one.code for key, one in reply.items()}


def test_the_first_replica_leads_where_it_is_in_sync() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3), (1, 2, 3), (1, 2, 3))
    cluster.put(number=0, leader=2)
    cluster.put(number=1, leader=2, isr=(2, 3))

    reply = cluster.do(
        ElectLeaders(
            ElectionType.PREFERRED,
            (("orders", 0), ("orders", 1), ("orders", 2), ("orders", 3), ("orders", -1), ("none", 0)),
        )
    )

    assert codes(reply) == {
        ("orders", 0): None,
        ("orders", 1): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ("orders", 2): ErrorCode.ELECTION_NOT_NEEDED,
        ("orders", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("orders", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert shape(cluster.partition(number=0)) == (1, (1, 2, 3), ())
    assert epochs(cluster.partition(number=0)) == (1, 1)
    assert cluster.partition(number=1).leader == 2


def test_an_election_for_all_leaves_out_what_needs_none() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2), (2, 3))
    cluster.put(number=1, leader=3)

    assert codes(cluster.do(ElectLeaders(ElectionType.PREFERRED, None))) == {("orders", 1): None}
    assert cluster.do(ElectLeaders(ElectionType.PREFERRED, None)) == {}
    assert cluster.do(ElectLeaders(ElectionType.PREFERRED, ())) == {}


def test_more_than_one_decision_may_change_is_left_for_another_request() -> None:
    cluster = Cluster(2)
    cluster.create("orders", (1, 2), (1, 2))
    cluster.put(number=0, leader=2)
    cluster.put(number=1, leader=2)

    reply = cluster.do(ElectLeaders(ElectionType.PREFERRED, None, limit=1))

    assert codes(reply) == {("orders", 0): None, ("orders", 1): ErrorCode.OPERATION_NOT_ATTEMPTED}


def test_an_unclean_election_gives_a_leader_only_where_there_is_none() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2), (3, 2))
    cluster.create("alone", (1,))
    cluster.put(number=0, isr=(1,))
    cluster.fence(1)
    assert shape(cluster.partition()) == (NO_LEADER, (), (1,))

    reply = cluster.do(ElectLeaders(ElectionType.UNCLEAN, (("orders", 0), ("orders", 1), ("alone", 0))))

    assert codes(reply) == {
        ("orders", 0): None,
        ("orders", 1): ErrorCode.ELECTION_NOT_NEEDED,
        ("alone", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
    assert shape(cluster.partition()) == (2, (2,), ())
    assert cluster.partition().recovering
    check_invariants(cluster)


def test_leads_go_back_once_more_than_a_tenth_are_elsewhere() -> None:
    cluster = Cluster(2)
    cluster.create("orders", *[(1, 2)] * 10)
    cluster.put(number=0, leader=2)
    assert cluster.decide(BalanceLeaders()).records == (), "a tenth may be elsewhere"
    cluster.put(number=1, leader=2)

    assert owed_leads(cluster.image, 10) == {1}
    assert cluster.do(BalanceLeaders()) is None

    assert {cluster.partition(number=number).leader for number in range(10)} == {1}


def test_leads_do_not_go_back_to_who_is_not_in_sync() -> None:
    cluster = Cluster(2)
    cluster.create("orders", (1, 2))
    cluster.fence(1)
    cluster.join(1)

    assert cluster.decide(BalanceLeaders()).records == ()
    cluster.put(isr=(2, 1))
    cluster.do(BalanceLeaders())
    assert cluster.partition().leader == 1


def test_leads_go_back_in_steps_and_not_at_all_where_the_setting_says_so() -> None:
    off = Cluster(2, {"auto_leader_rebalance_enable": "false"})
    on = Cluster(2)
    for cluster in (off, on):
        cluster.create("orders", (1, 2), (1, 2), (1, 2))
        for number in range(3):
            cluster.put(number=number, leader=2)

    assert off.decide(BalanceLeaders()).records == ()
    assert isinstance(on.do(BalanceLeaders(limit=2)), More)
    assert on.do(BalanceLeaders(limit=2)) is None
    assert {on.partition(number=number).leader for number in range(3)} == {1}


def test_the_balance_is_looked_after_once_an_interval_from_the_lead_on() -> None:
    machine = Machine()
    settings = some_settings(leader_imbalance_check_interval_seconds="60")
    controller = started(machine, settings)
    asked: list[Command[object]] = []

    class Counting:
        def submit(self, command: Command[R], done: Done[R]) -> None:
            asked.append(command)
            controller.submit(command, done)

    balancer = Balancer(Counting(), settings)
    assert balancer.deadline() is None
    balancer.begin(Instant(1_000))
    assert balancer.deadline() == 61_000

    balancer.tick(Instant(60_999))
    assert asked == []
    balancer.tick(Instant(61_000))
    machine.aside.run_all()
    assert asked == [BalanceLeaders()]
    balancer.tick(Instant(61_001))
    assert (len(asked), balancer.deadline()) == (1, 121_000)
    off = Balancer(controller, some_settings(auto_leader_rebalance_enable="false"))
    off.begin(Instant(0))
    assert off.deadline() is None

"""How brokers join, are fenced and leave (KIP-631, KIP-841, KIP-966)."""

from dataclasses import replace

import pytest

from everlog.controller.brokers import (
    FenceBroker,
    RegisterBroker,
    UnfenceBroker,
    UnregisterBroker,
)
from everlog.controller.decisions import More
from everlog.controller.fencing import fence
from everlog.controller.partition_changes import CHANGES_PER_DECISION
from everlog.controller.topics import CreateTopics, NewTopic
from everlog.metadata.image import NO_LEADER, Endpoint
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID, BrokerId, Uuid
from tests.unit.controller.builders import Machine, outcome, started
from tests.unit.controller.clusters import Cluster, check_invariants, directory_of, epochs, shape

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
TWO_IN_SYNC = {"min_insync_replicas": "2"}


def a_registration(number: int = 4) -> RegisterBroker:
    return RegisterBroker(
        BrokerId(number),
        Uuid(bytes((9,)) * 16),
        (Endpoint("PLAINTEXT", "127.0.0.1", 9099, 0),),
        (directory_of(number),),
    )


def refusal(cluster: Cluster, command: object) -> ErrorCode:
    with pytest.raises(Refused) as raised:
        cluster.do(command)  # type: ignore[arg-type]
    return raised.value.code


def test_a_broker_epoch_is_the_offset_of_the_registration() -> None:
    cluster = Cluster(1)
    before = cluster.image.end_offset

    epoch = cluster.do(a_registration())

    assert epoch == before
    assert cluster.image.brokers[BrokerId(4)].fenced


def test_the_same_incarnation_registers_again_under_the_same_epoch() -> None:
    cluster = Cluster(1)
    epoch = cluster.do(a_registration())
    cluster.do(UnfenceBroker(BrokerId(4), epoch))

    again = cluster.decide(replace(a_registration(), beating=True))

    assert (again.records, again.reply) == ((), epoch)


def test_the_same_incarnation_may_change_where_it_listens_and_stays_unfenced() -> None:
    cluster = Cluster(1)
    epoch = cluster.do(a_registration())
    cluster.do(UnfenceBroker(BrokerId(4), epoch))
    elsewhere = (Endpoint("PLAINTEXT", "127.0.0.1", 9500, 0),)

    assert cluster.do(replace(a_registration(), endpoints=elsewhere)) == epoch

    known = cluster.image.brokers[BrokerId(4)]
    assert (known.endpoints, known.fenced, known.epoch) == (elsewhere, False, epoch)


def test_another_process_with_the_number_of_a_live_broker_is_refused() -> None:
    cluster = Cluster(2)
    other = replace(a_registration(2), incarnation=Uuid(bytes((8,)) * 16))

    assert refusal(cluster, replace(other, beating=True)) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    # Once it is silent, gone or fenced, its number is free.
    assert cluster.decide(other).reply == cluster.image.end_offset
    cluster.fence(2)
    assert cluster.decide(replace(other, beating=True)).reply == cluster.image.end_offset


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"directories": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"directories": (directory_of(4), directory_of(4))}, ErrorCode.INVALID_REGISTRATION),
        ({"directories": (NO_UUID,)}, ErrorCode.INVALID_REGISTRATION),
        ({"directories": (Uuid(bytes(15) + b"\x63"),)}, ErrorCode.INVALID_REGISTRATION),
        ({"directories": (directory_of(1),)}, ErrorCode.INVALID_REGISTRATION),
        ({"endpoints": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"features": {}}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": {"metadata.version": (1, 7)}}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_broker_that_cannot_be_one_of_us_is_refused(fields: dict[str, object], code: ErrorCode) -> None:
    assert refusal(Cluster(1), replace(a_registration(), **fields)) is code  # type: ignore[arg-type]


def test_one_that_did_not_stop_cleanly_leaves_every_isr_and_elr() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3), (2, 1, 3), (3, 1, 2), **TWO_IN_SYNC)
    cluster.put(number=1, isr=(2,), eligible_leaders=(1, 3))
    cluster.put(number=2, isr=(3, 2), eligible_leaders=())
    before = [cluster.partition(number=number) for number in range(3)]

    cluster.register(1)

    assert [shape(cluster.partition(number=number)) for number in range(3)] == [
        (2, (2, 3), ()),
        (2, (2,), (3,)),
        (3, (3, 2), ()),
    ]
    grown = [cluster.partition(number=at).leader_epoch - one.leader_epoch for at, one in enumerate(before)]
    assert grown == [1, 0, 0]
    check_invariants(cluster)


def test_a_follower_back_from_an_unclean_stop_gives_its_leader_a_new_epoch() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3))
    before = epochs(cluster.partition())

    cluster.register(3)

    assert shape(cluster.partition()) == (1, (1, 2), ())
    assert epochs(cluster.partition()) == (before[0] + 1, before[1] + 1)


def test_one_that_stopped_cleanly_leaves_the_isr_and_stays_eligible() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2), **TWO_IN_SYNC)

    cluster.register(2, clean=True)

    assert shape(cluster.partition()) == (1, (1,), (2,))


def test_a_clean_stop_of_an_earlier_life_is_none() -> None:
    cluster = Cluster(2)
    cluster.create("orders", (1, 2), **TWO_IN_SYNC)
    stopped = cluster.epoch(2)
    cluster.join(2)
    cluster.put(isr=(1, 2), eligible_leaders=())

    cluster.register(2, previous_epoch=stopped)

    assert shape(cluster.partition()) == (1, (1,), ())


def test_unfencing_lets_the_eligible_lead_what_nobody_leads() -> None:
    cluster = Cluster(2)
    cluster.create("orders", (1, 2), **TWO_IN_SYNC)
    cluster.fence(2)
    cluster.fence(1)
    assert shape(cluster.partition()) == (NO_LEADER, (), (1, 2))

    cluster.join(2, clean=True)

    assert shape(cluster.partition()) == (2, (2,), (1,))
    check_invariants(cluster)


def test_of_those_that_all_stopped_uncleanly_nobody_leads_before_it_is_known_who_has_most() -> None:
    cluster = Cluster(2)
    cluster.create("orders", (1, 2), **TWO_IN_SYNC)
    cluster.fence(1)
    cluster.fence(2)
    assert shape(cluster.partition()) == (NO_LEADER, (), (1, 2))

    cluster.join(1)
    assert shape(cluster.partition()) == (NO_LEADER, (), (2,)), "2 may still have all of it"
    cluster.join(2)

    assert shape(cluster.partition()) == (NO_LEADER, (), ())
    assert cluster.partition().last_known_eligible == (1, 2)


def test_unfencing_a_broker_of_another_life_is_refused() -> None:
    cluster = Cluster(1)

    assert refusal(cluster, UnfenceBroker(ONE, cluster.epoch(1) - 1)) is ErrorCode.STALE_BROKER_EPOCH
    assert refusal(cluster, UnfenceBroker(BrokerId(7), 0)) is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_fencing_moves_leaders_and_shrinks_the_isr_with_the_fence() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3), (2, 3, 1))
    cluster.create("payments", (2, 3))

    assert cluster.do(FenceBroker(ONE, cluster.epoch(1))) is None

    assert cluster.image.brokers[ONE].fenced
    assert shape(cluster.partition(number=0)) == (2, (2, 3), ())
    assert shape(cluster.partition(number=1)) == (2, (2, 3), ())
    assert epochs(cluster.partition("payments")) == (0, 0), "what it does not hold is not touched"
    check_invariants(cluster)


def test_fencing_more_than_one_decision_may_change_goes_step_by_step_and_ends_with_the_fence() -> None:
    cluster = Cluster(3)
    cluster.create("orders", *[(2, 1, 3)] * 3)
    cluster.create("payments", *[(1, 2, 3)] * 4)
    command = FenceBroker(ONE, cluster.epoch(1), limit=3)

    first = cluster.do(command)
    assert first == More("payments", urgent=True), "what it leads comes first"
    assert [cluster.partition("payments", number).leader for number in range(4)] == [2, 2, 2, 1]
    second = cluster.do(replace(command, since=first))
    assert second == More("orders")
    assert {cluster.partition("payments", number).leader for number in range(4)} == {2}
    third = cluster.do(replace(command, since=second))
    assert third == More(), "the end is found by a walk from the beginning"
    assert not cluster.image.brokers[ONE].fenced
    check_invariants(cluster)
    # Meanwhile its old leader, which does not know yet, has taken it back.
    cluster.put("orders", isr=(2, 1, 3))
    assert cluster.do(replace(command, since=third)) is None

    assert cluster.image.brokers[ONE].fenced
    assert {cluster.partition("orders", number).isr for number in range(3)} == {(2, 3)}
    check_invariants(cluster)


def test_a_walk_whose_topic_is_gone_begins_anew() -> None:
    cluster = Cluster(3)
    cluster.create("orders", *[(2, 1, 3)] * 3)
    command = FenceBroker(ONE, cluster.epoch(1), limit=3)

    assert cluster.do(replace(command, since=More("gone"))) == More()

    assert {cluster.partition("orders", number).isr for number in range(3)} == {(2, 3)}


def test_a_broker_is_fenced_in_as_many_decisions_as_it_takes() -> None:
    machine = Machine()
    controller = started(machine)
    count = CHANGES_PER_DECISION + 1
    outcome(machine, controller, CreateTopics((NewTopic("orders", count),)))
    epoch = controller.image.brokers[ONE].epoch
    replies: list[object] = []

    fence(controller, ONE, epoch, replies.append)
    machine.aside.run_all()

    assert replies == [None]
    assert controller.image.brokers[ONE].fenced
    assert {partition.leader for partition in controller.image.topics["orders"].partitions} == {NO_LEADER}
    fence(controller, ONE, epoch - 1, replies.append)
    assert isinstance(replies[1], Refused)


def test_fencing_twice_or_another_life_changes_nothing() -> None:
    cluster = Cluster(2)
    epoch = cluster.epoch(1)
    cluster.do(FenceBroker(ONE, epoch))

    assert cluster.decide(FenceBroker(ONE, epoch)).records == ()
    cluster.join(1)
    assert refusal(cluster, FenceBroker(ONE, epoch)) is ErrorCode.STALE_BROKER_EPOCH


def test_the_last_in_sync_is_eligible_when_it_is_fenced() -> None:
    cluster = Cluster(1)
    cluster.create("orders", (1,))

    cluster.fence(1)

    assert shape(cluster.partition()) == (NO_LEADER, (), (1,))


def test_an_unclean_leader_is_elected_only_where_the_setting_says_so() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2))
    cluster.create("metrics", (1, 2), unclean_leader_election_enable="true")
    for name in ("orders", "metrics"):
        cluster.put(name, isr=(1,))

    cluster.fence(1)

    assert shape(cluster.partition("orders")) == (NO_LEADER, (), (1,))
    assert shape(cluster.partition("metrics")) == (2, (2,), ())
    assert cluster.partition("metrics").recovering


def test_a_broker_is_forgotten_once_it_is_fenced_and_is_eligible_nowhere() -> None:
    cluster = Cluster(2)
    cluster.create("orders", (1, 2), **TWO_IN_SYNC)
    assert refusal(cluster, UnregisterBroker(TWO)) is ErrorCode.INVALID_REQUEST
    cluster.fence(2)
    assert shape(cluster.partition()) == (1, (1,), (2,))

    cluster.do(UnregisterBroker(TWO))

    assert TWO not in cluster.image.brokers
    assert shape(cluster.partition()) == (1, (1,), ())
    assert cluster.partition().replicas == (1, 2)
    assert refusal(cluster, UnregisterBroker(TWO)) is ErrorCode.BROKER_ID_NOT_REGISTERED

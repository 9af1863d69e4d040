"""Who is alive, and what a heartbeat leads to (KIP-631, KIP-841)."""

import pytest

from everlog.controller.heartbeats import EVERYTHING, RETRY_MS, Beat, BrokerState, Heartbeats
from everlog.metadata.image import NO_LEADER
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId, Instant
from tests.unit.controller.clusters import Cluster, check_invariants, directory_of, shape

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
SESSION_MS = 9_000


def at(ms: int) -> Instant:
    return Instant(ms)


def some_heartbeats(cluster: Cluster | None = None) -> Heartbeats:
    heartbeats = Heartbeats(SESSION_MS)
    heartbeats.begin((cluster or Cluster(3)).image.brokers.values(), at(0))
    return heartbeats


def a_beat(cluster: Cluster, number: int, **fields: object) -> Beat:
    epoch = cluster.epoch(number)
    known = {"metadata_offset": cluster.image.end_offset - 1, **fields}
    return Beat(BrokerId(number), epoch, **known)  # type: ignore[arg-type]


def test_a_new_lead_gives_everybody_a_whole_session() -> None:
    cluster = Cluster(3)
    cluster.fence(3)
    heartbeats = some_heartbeats(cluster)

    assert heartbeats.deadline() == SESSION_MS + 1
    assert heartbeats.overdue(at(SESSION_MS)) == []
    assert heartbeats.overdue(at(SESSION_MS + 1)) == [(ONE, cluster.epoch(1)), (TWO, cluster.epoch(2))]


def test_a_beat_begins_the_session_anew_and_an_old_life_does_not() -> None:
    heartbeats = Heartbeats(SESSION_MS)
    heartbeats.touched(ONE, 10, at(0))
    heartbeats.touched(ONE, 9, at(5_000))
    assert heartbeats.deadline() == SESSION_MS + 1

    heartbeats.touched(ONE, 10, at(5_000))

    assert heartbeats.overdue(at(SESSION_MS + 1)) == []
    assert heartbeats.alive(ONE, at(14_000))
    assert not heartbeats.alive(ONE, at(14_001))


def test_who_is_overdue_is_named_once_and_again_if_nothing_came_of_it() -> None:
    heartbeats = Heartbeats(SESSION_MS)
    heartbeats.touched(ONE, 10, at(0))

    assert heartbeats.overdue(at(10_000)) == [(ONE, 10)]
    assert heartbeats.overdue(at(10_000)) == []
    assert not heartbeats.alive(ONE, at(10_000)), "being named is no sign of life"
    assert heartbeats.overdue(at(10_000 + RETRY_MS + 1)) == [(ONE, 10)]
    heartbeats.forget(ONE)
    assert heartbeats.deadline() is None


def test_who_is_forgotten_is_not_alive() -> None:
    heartbeats = some_heartbeats()

    heartbeats.forget(TWO)

    assert heartbeats.alive(ONE, at(1))
    assert not heartbeats.alive(TWO, at(1))


def test_what_others_have_reached_leaves_those_on_their_way_out_aside() -> None:
    heartbeats = Heartbeats(SESSION_MS)
    heartbeats.touched(ONE, 1, at(0), 50)
    heartbeats.touched(TWO, 2, at(0), 40)
    heartbeats.touched(THREE, 3, at(0), 30)

    assert heartbeats.reached(ONE) == 30
    heartbeats.leaving(THREE, 31)
    assert heartbeats.reached(ONE) == 40
    assert heartbeats.reached(TWO) == 50
    heartbeats.forget(ONE)
    assert heartbeats.reached(TWO) == EVERYTHING


def test_a_broker_is_unfenced_once_it_knows_of_its_registration() -> None:
    cluster = Cluster(2)
    epoch = cluster.register(3)

    behind = cluster.do(Beat(THREE, epoch, metadata_offset=epoch - 1))
    assert (behind.state, behind.is_fenced, behind.is_caught_up) == (BrokerState.FENCED, True, False)
    assert cluster.image.brokers[THREE].fenced

    there = cluster.do(Beat(THREE, epoch, metadata_offset=epoch))
    assert (there.state, there.is_fenced, there.is_caught_up) == (BrokerState.ACTIVE, False, True)
    assert not cluster.image.brokers[THREE].fenced


def test_a_broker_that_wants_its_fence_keeps_or_gets_it() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3))

    assert cluster.do(a_beat(cluster, 1, want_fence=True)).state is BrokerState.FENCED
    assert cluster.image.brokers[ONE].fenced
    assert shape(cluster.partition()) == (2, (2, 3), ())
    assert cluster.do(a_beat(cluster, 1, want_fence=True)).is_fenced
    check_invariants(cluster)


def test_a_beat_of_another_life_is_refused() -> None:
    cluster = Cluster(1)

    with pytest.raises(Refused) as raised:
        cluster.do(Beat(ONE, cluster.epoch(1) - 1, 100))
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_an_ordinary_beat_writes_nothing() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3))

    decision = cluster.decide(a_beat(cluster, 1))

    assert (decision.records, decision.reply.state) == ((), BrokerState.ACTIVE)


def test_a_controlled_shutdown_hands_everything_over_and_waits_for_the_others_to_know() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3), (2, 1, 3))

    begun = cluster.do(a_beat(cluster, 1, want_shut_down=True))

    known = cluster.image.brokers[ONE]
    assert (begun.state, begun.should_shut_down) == (BrokerState.LEAVING, False)
    assert (known.in_controlled_shutdown, known.fenced) == (True, False)
    assert [shape(cluster.partition(number=number)) for number in range(2)] == [
        (2, (2, 3), ()),
        (2, (2, 3), ()),
    ]
    assert begun.left_at == cluster.image.end_offset
    check_invariants(cluster)

    assert begun.left_at is not None
    last = begun.left_at - 1
    waiting = cluster.do(
        a_beat(cluster, 1, want_shut_down=True, left_at=begun.left_at, others_reached=last - 1)
    )
    assert (waiting.state, waiting.left_at) == (BrokerState.LEAVING, begun.left_at)
    assert not cluster.image.brokers[ONE].fenced

    gone = cluster.do(a_beat(cluster, 1, want_shut_down=True, left_at=begun.left_at, others_reached=last))
    assert (gone.should_shut_down, gone.is_fenced) == (True, True)
    assert cluster.image.brokers[ONE].fenced


def test_a_controlled_shutdown_of_many_partitions_goes_step_by_step() -> None:
    cluster = Cluster(3)
    cluster.create("orders", *[(1, 2, 3)] * 5)

    replies = [cluster.do(a_beat(cluster, 1, want_shut_down=True, limit=2)) for _ in range(3)]

    assert [reply.left_at for reply in replies] == [None, None, cluster.image.end_offset]
    assert all(reply.state is BrokerState.LEAVING for reply in replies)
    assert {cluster.partition(number=number).leader for number in range(5)} == {2}
    check_invariants(cluster)


def test_who_is_on_its_way_out_is_not_in_sync_with_nobody_when_the_last_leader_dies() -> None:
    cluster = Cluster(3)
    cluster.create("payments", (1, 2, 3))
    cluster.create("orders", (2, 1))
    cluster.do(a_beat(cluster, 1, want_shut_down=True, limit=1))
    assert shape(cluster.partition("orders")) == (2, (2, 1), ()), "that is for the next step"

    cluster.fence(2)

    assert shape(cluster.partition("orders")) == (NO_LEADER, (), (1,))
    check_invariants(cluster)


def test_a_new_controller_that_knows_nothing_of_a_shutdown_goes_on_with_it() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3))
    cluster.do(a_beat(cluster, 1, want_shut_down=True))

    reply = cluster.do(a_beat(cluster, 1, want_shut_down=True, left_at=None, others_reached=EVERYTHING))

    assert (reply.state, reply.left_at) == (BrokerState.LEAVING, cluster.image.end_offset)


def test_a_broker_that_leads_nothing_may_go_at_once_and_leaves_every_isr() -> None:
    cluster = Cluster(3)
    cluster.create("orders", (1, 2, 3))

    reply = cluster.do(a_beat(cluster, 3, want_shut_down=True))

    assert reply.should_shut_down
    assert cluster.image.brokers[THREE].fenced
    assert shape(cluster.partition()) == (1, (1, 2), ())


def test_the_only_replica_stops_in_sync_with_itself_and_leads_when_it_is_back() -> None:
    cluster = Cluster(1)
    cluster.create("orders", (1,))
    begun = cluster.do(a_beat(cluster, 1, want_shut_down=True))
    assert shape(cluster.partition()) == (NO_LEADER, (), (1,))
    assert cluster.do(a_beat(cluster, 1, want_shut_down=True, left_at=begun.left_at)).should_shut_down

    cluster.join(1, clean=True)

    assert shape(cluster.partition()) == (1, (1,), ())
    assert not cluster.partition().recovering


def test_a_fenced_broker_may_end_at_once() -> None:
    cluster = Cluster(2)
    cluster.fence(2)

    assert cluster.do(a_beat(cluster, 2, want_shut_down=True)).should_shut_down


def test_what_lies_in_a_directory_that_failed_is_led_by_others() -> None:
    cluster = Cluster(3)
    spare = directory_of(77)
    cluster.register(1, directories=(directory_of(1), spare))
    epoch = cluster.epoch(1)
    cluster.do(Beat(ONE, epoch, epoch))
    cluster.create("orders", (1, 2, 3), (1, 2, 3))
    cluster.put(number=0, directories=(directory_of(1), directory_of(2), directory_of(3)))
    cluster.put(number=1, directories=(spare, directory_of(2), directory_of(3)))

    cluster.do(a_beat(cluster, 1, offline=(spare,)))

    assert shape(cluster.partition(number=0)) == (1, (1, 2, 3), ())
    assert shape(cluster.partition(number=1)) == (2, (2, 3), ())
    assert cluster.image.brokers[ONE].directories == (directory_of(1),)
    assert cluster.decide(a_beat(cluster, 1, offline=(spare,))).records == ()

"""Who leads and who is in sync when brokers come and go (R5-R7, KIP-966)."""

from dataclasses import replace

from everlog.controller.elections import (
    Circumstances,
    LogEnd,
    least_in_sync,
    needs_recovery,
    with_isr,
    with_leader_wanted,
    with_preferred_leader,
    with_recovered_leader,
    with_replicas,
    without,
)
from everlog.metadata.image import NO_LEADER, PartitionImage
from everlog.model.ids import LeaderEpoch

PARTITION = PartitionImage((1, 2, 3), (1, 2, 3), 1, LeaderEpoch(7), 20, ())


def alive(*brokers: int, least: int = 2, unclean: bool = False) -> Circumstances:
    return Circumstances(brokers, least, unclean)


def test_a_leader_that_dies_is_replaced_by_the_next_replica_in_sync() -> None:
    found = without(PARTITION, {1}, alive(2, 3))

    assert found == replace(PARTITION, isr=(2, 3), leader=2, leader_epoch=LeaderEpoch(8), partition_epoch=21)


def test_a_follower_that_dies_leaves_the_leader_its_epoch() -> None:
    found = without(PARTITION, {3}, alive(1, 2))

    assert found == replace(PARTITION, isr=(1, 2), partition_epoch=21)


def test_who_leaves_while_too_few_are_left_stays_eligible() -> None:
    found = without(replace(PARTITION, isr=(1, 2)), {2}, alive(1))

    assert found is not None
    assert (found.isr, found.eligible_leaders, found.leader) == ((1,), (2,), 1)


def test_who_left_while_enough_were_in_sync_is_not_eligible() -> None:
    two = without(PARTITION, {3}, alive(1, 2))
    assert two is not None

    one = without(two, {2}, alive(1))

    assert one is not None
    assert one.eligible_leaders == (2,)


def test_an_eligible_replica_leads_when_nobody_in_sync_can() -> None:
    alone = replace(PARTITION, isr=(1,), eligible_leaders=(2,))

    dead = without(alone, {1}, alive(3))
    assert dead is not None
    assert (dead.leader, dead.isr, dead.eligible_leaders) == (NO_LEADER, (), (1, 2))

    back = with_leader_wanted(dead, alive(2, 3))
    assert back is not None
    assert (back.leader, back.isr, back.eligible_leaders) == (2, (2,), (1,))
    assert back.leader_epoch > dead.leader_epoch


def test_who_stopped_uncleanly_is_neither_in_sync_nor_eligible() -> None:
    found = without(replace(PARTITION, isr=(1,), eligible_leaders=(2, 3)), {1}, alive(3), unclean={1, 2})

    assert found is not None
    assert (found.leader, found.isr, found.eligible_leaders) == (3, (3,), ())


def test_nobody_leads_rather_than_one_that_may_lack_records() -> None:
    lagging = replace(PARTITION, isr=(1,))

    found = without(lagging, {1}, alive(2, 3, least=1))
    assert found is not None
    assert (found.leader, found.isr, found.eligible_leaders) == (NO_LEADER, (), (1,))

    allowed = without(lagging, {1}, alive(2, 3, least=1, unclean=True))
    assert allowed is not None
    assert (allowed.leader, allowed.isr, allowed.recovering) == (2, (2,), True)


def test_enough_in_sync_make_the_eligible_ones_ordinary() -> None:
    found = with_isr(replace(PARTITION, isr=(1,), eligible_leaders=(2,)), (1, 3), alive(1, 3))

    assert found is not None
    assert (found.isr, found.eligible_leaders) == ((1, 3), ())


def test_the_preferred_leader_leads_again_once_it_is_in_sync() -> None:
    moved = replace(PARTITION, leader=2)

    found = with_preferred_leader(moved, alive(1, 2, 3))
    assert found is not None
    assert (found.leader, found.leader_epoch) == (1, 8)
    assert with_preferred_leader(replace(moved, isr=(2, 3)), alive(1, 2, 3)) is None
    assert with_preferred_leader(PARTITION, alive(1, 2, 3)) is None


def test_what_changes_nothing_is_nothing() -> None:
    assert without(replace(PARTITION, isr=(1, 2)), {3}, alive(1, 2)) is None
    assert with_isr(PARTITION, (1, 2, 3), alive(1, 2, 3)) is None
    assert with_leader_wanted(PARTITION, alive(1, 2, 3)) is None


def test_where_one_in_sync_is_enough_the_others_are_not_eligible_beside_it() -> None:
    nobody = replace(PARTITION, isr=(), leader=int(NO_LEADER), eligible_leaders=(1, 2, 3))

    alone = with_leader_wanted(nobody, alive(2, least=1))
    assert alone is not None
    assert (alone.leader, alone.isr, alone.eligible_leaders) == (2, (2,), ())

    too_few = with_leader_wanted(nobody, alive(2, least=2))
    assert too_few is not None
    assert (too_few.leader, too_few.isr, too_few.eligible_leaders) == (2, (2,), (1, 3))


def test_who_is_in_sync_and_on_its_way_out_leads_until_it_is_taken_out() -> None:
    leaving = replace(PARTITION, isr=(1,), eligible_leaders=(2,))

    found = with_replicas(leaving, (2, 1, 3), (), (), (), alive(2, 3, unclean=True))

    assert found is not None
    assert (found.replicas, found.leader, found.isr, found.eligible_leaders) == ((2, 1, 3), 1, (1,), (2,))


def test_no_more_need_to_be_in_sync_than_hold_the_partition_and_those_being_added_do_not_count() -> None:
    assert least_in_sync(PARTITION, alive(least=2)) == 2
    assert least_in_sync(PARTITION, alive(least=5)) == 3
    assert least_in_sync(replace(PARTITION, adding=(2, 3)), alive(least=2)) == 1


def test_nobody_who_stopped_uncleanly_leads_while_somebody_is_eligible() -> None:
    nobody = replace(
        PARTITION, isr=(), leader=int(NO_LEADER), eligible_leaders=(1,), last_known_eligible=(2,)
    )

    assert not needs_recovery(nobody)
    assert with_leader_wanted(nobody, alive(2, 3)) is None
    assert with_recovered_leader(nobody, {2: LogEnd(7, 100)}, alive(2, 3)) is None


def test_who_could_lead_is_remembered_over_its_unclean_stop_until_more_is_committed() -> None:
    found: PartitionImage | None = PARTITION
    for gone in (1, 2, 3):
        assert found is not None
        found = without(found, (), alive(1, 2, 3), unclean=(gone,))
    assert found is not None
    assert (found.leader, found.isr, found.eligible_leaders) == (NO_LEADER, (), ())
    assert found.last_known_eligible == (2, 3), "1 stopped while enough were left to commit more without it"
    assert needs_recovery(found)

    again = with_isr(replace(found, leader=2, isr=(2,)), (1, 2), alive(1, 2, 3))
    assert again is not None
    assert again.last_known_eligible == ()


def test_of_those_that_all_stopped_uncleanly_the_one_leads_whose_log_reaches_furthest() -> None:
    nobody = replace(PARTITION, isr=(), leader=int(NO_LEADER), last_known_eligible=(1, 2))
    assert with_leader_wanted(nobody, alive(1, 2, 3)) is None, "nobody knows who has most"

    ends = {1: LogEnd(6, 200), 2: LogEnd(7, 100)}
    found = with_recovered_leader(nobody, ends, alive(1, 2))
    assert found is not None
    assert (found.leader, found.isr, found.recovering) == (2, (2,), True)
    assert (found.last_known_eligible, found.leader_epoch) == ((), 8)

    longer = with_recovered_leader(nobody, {**ends, 1: LogEnd(7, 101)}, alive(1, 2))
    assert longer is not None
    assert longer.leader == 1

    stranger = with_recovered_leader(nobody, {**ends, 3: LogEnd(7, 101)}, alive(1, 2, 3))
    assert stranger is not None
    assert stranger.leader == 3, "whoever has most, it has all that the others have"


def test_nobody_leads_before_all_have_answered_that_may_have_the_only_copy() -> None:
    nobody = replace(PARTITION, isr=(), leader=int(NO_LEADER), last_known_eligible=(1, 2))
    one = {1: LogEnd(7, 100), 3: LogEnd(7, 90)}

    assert with_recovered_leader(nobody, one, alive(1, 2, 3)) is None
    assert with_recovered_leader(nobody, {**one, 2: LogEnd(7, 200)}, alive(1, 3)) is None, "2 is not alive"
    forced = with_recovered_leader(nobody, one, alive(1, 3, unclean=True))
    assert forced is not None
    assert forced.leader == 1


def test_the_only_replica_leads_again_at_once() -> None:
    alone = PartitionImage((1,), (1,), 1, LeaderEpoch(7), 20, ())
    gone = without(alone, (), alive(1), unclean=(1,))
    assert gone is not None
    assert (gone.leader, gone.last_known_eligible) == (NO_LEADER, (1,))

    back = with_leader_wanted(gone, alive(1))

    assert back is not None
    assert (back.leader, back.isr) == (1, (1,))


def test_who_held_the_partition_and_holds_it_no_more_costs_a_leader_epoch() -> None:
    found = with_replicas(PARTITION, (1, 2), (), (), (), alive(1, 2, 3))
    more = with_replicas(PARTITION, (1, 2, 3, 4), (4,), (), (), alive(1, 2, 3))

    assert found is not None
    assert more is not None
    assert (found.leader_epoch, more.leader_epoch) == (8, 7)

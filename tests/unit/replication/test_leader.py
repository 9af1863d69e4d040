"""One partition as its leader sees it (R2-R4)."""

from everlog.model.ids import BrokerId, Instant, Offset
from everlog.replication.leader import (
    AdvanceHighWatermark,
    Appended,
    BrokersChanged,
    FollowerFetched,
    IsrChanged,
    LeaderState,
    MinInSyncChanged,
    ProposalRefused,
    ProposeIsr,
    Ticked,
)

NOON = Instant(1_000_000)
EPOCHS = {BrokerId(1): 11, BrokerId(2): 12, BrokerId(3): 13}


def a_leader(isr: set[int], end: int = 10, *, least: int = 1, high_watermark: int = 0) -> LeaderState:
    return LeaderState(
        BrokerId(1),
        EPOCHS,
        {BrokerId(one) for one in isr},
        partition_epoch=5,
        end=Offset(end),
        high_watermark=Offset(high_watermark),
        now=NOON,
        least_in_sync=least,
        eligible=EPOCHS,
    )


def fetched(follower: int, start: int, broker_epoch: int = -1) -> FollowerFetched:
    return FollowerFetched(BrokerId(follower), broker_epoch, Offset(start))


def members(*brokers: int) -> dict[BrokerId, int]:
    return {BrokerId(one): -1 for one in brokers}


def isr(*brokers: int) -> frozenset[BrokerId]:
    return frozenset(BrokerId(one) for one in brokers)


def test_the_high_watermark_waits_for_the_slowest_in_sync_replica() -> None:
    leader = a_leader({1, 2, 3})

    assert leader.step(fetched(2, 10), NOON) == []
    assert leader.step(fetched(3, 7), NOON) == [AdvanceHighWatermark(Offset(7))]
    assert leader.step(fetched(3, 10), NOON) == [AdvanceHighWatermark(Offset(10))]


def test_a_follower_that_stops_fetching_is_proposed_out() -> None:
    leader = a_leader({1, 2})

    assert leader.deadline() == NOON + 30_001
    assert leader.step(Ticked(), Instant(NOON + 30_000)) == []
    assert leader.step(Ticked(), Instant(NOON + 30_001)) == [ProposeIsr(members(1), 5)]
    assert leader.step(Ticked(), Instant(NOON + 60_000)) == [], "one proposal at a time"


def test_a_follower_that_has_all_is_in_sync_however_long_nothing_comes() -> None:
    leader = a_leader({1, 2})
    leader.step(fetched(2, 10), NOON)

    assert leader.step(Ticked(), Instant(NOON + 3_600_000)) == []
    assert leader.deadline() is None


def test_a_follower_that_keeps_reaching_where_we_were_is_in_sync_under_load() -> None:
    leader = a_leader({1, 2})
    now = NOON
    for end in range(11, 200):  # It never has all, as we append between its fetches.
        leader.step(Appended(Offset(end)), now)
        leader.step(fetched(2, end - 1), now)
        now = Instant(now + 1_000)

    assert leader.step(Ticked(), now) == []


def test_a_member_proposed_in_counts_at_once() -> None:
    leader = a_leader({1, 2})
    leader.step(fetched(2, 10), NOON)
    assert leader.step(fetched(3, 10, 13), NOON) == [
        ProposeIsr({BrokerId(1): -1, BrokerId(2): -1, BrokerId(3): 13}, 5)
    ]

    leader.step(Appended(Offset(12)), NOON)
    assert leader.step(fetched(2, 12), NOON) == []
    assert leader.step(fetched(3, 11), NOON) == [AdvanceHighWatermark(Offset(11))]
    assert leader.step(ProposalRefused(), NOON) == [AdvanceHighWatermark(Offset(12))]


def test_a_member_proposed_out_counts_until_it_is() -> None:
    leader = a_leader({1, 2, 3})
    leader.step(fetched(2, 10), NOON)
    late = Instant(NOON + 30_001)
    leader.step(fetched(2, 10), late)

    assert leader.step(Ticked(), late) == [ProposeIsr(members(1, 2), 5)]
    assert leader.high_watermark == 0
    assert leader.step(IsrChanged(isr(1, 2), 6), late) == [AdvanceHighWatermark(Offset(10))]


def test_one_joins_only_with_all_that_is_committed_and_with_where_this_epoch_began() -> None:
    leader = a_leader({1, 2}, end=10, high_watermark=4)

    assert leader.step(fetched(3, 9, 13), NOON) == [], "it may still hold what another leader wrote"
    assert leader.step(fetched(3, 10, 12), NOON) == [], "a fetch of its process before the last"
    leader.step(BrokersChanged({BrokerId(1): 11, BrokerId(2): 12}), NOON)
    assert leader.step(fetched(3, 10, 13), NOON) == [], "it is fenced, or on its way out"
    assert [type(one) for one in leader.step(BrokersChanged(EPOCHS), NOON)] == [ProposeIsr]


def test_nothing_is_committed_while_too_few_are_in_sync() -> None:
    leader = a_leader({1}, least=2)

    assert not leader.can_take_all
    assert leader.step(Appended(Offset(11)), NOON) == []
    assert leader.step(MinInSyncChanged(1), NOON) == [AdvanceHighWatermark(Offset(11))]
    assert leader.can_take_all


def test_a_write_that_is_committed_by_too_few_is_told_apart() -> None:
    leader = a_leader({1, 2}, least=2)
    leader.step(fetched(2, 10), NOON)
    assert leader.has_all_of(Offset(10)) is True
    assert leader.has_all_of(Offset(11)) is False

    leader.step(IsrChanged(isr(1), 6), NOON)

    assert leader.has_all_of(Offset(10)) is None


def test_what_is_older_than_what_we_know_changes_nothing() -> None:
    leader = a_leader({1, 2})

    assert leader.step(IsrChanged(isr(1), 5), NOON) == []
    assert leader.isr == {1, 2}


def test_who_has_more_than_we_do_has_yet_to_cut_its_log() -> None:
    leader = a_leader({1, 2})

    assert leader.step(fetched(2, 11), NOON) == []
    assert leader.high_watermark == 0

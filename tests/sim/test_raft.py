"""The quorum's core in worlds from seeds: one leader an epoch, nothing committed is lost, it goes on (R8)."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from everlog.model.ids import Offset
from everlog.raft import following, leading, reconfiguring, voting
from everlog.raft.messages import Fetch, FetchReply, FetchSnapshot, SnapshotReply, Vote, VoterChange
from everlog.raft.replica import Replica, Timing
from everlog.raft.roles import Leader
from tests.sim.raft_world import ListLog, RaftWorld

SEEDS = int(os.environ.get("EVERLOG_SIM_RAFT_SEEDS", "16"))
MUTANT_SEEDS = 100
"""In one of so many worlds a planted fault has to show."""


def world(seed: int) -> RaftWorld:
    return RaftWorld(seed, size=(3, 5, 3, 1)[seed % 4])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_r8_a_quorum_keeps_its_promises(seed: int) -> None:
    assert world(seed).run() > 100


def test_r8_a_world_from_a_seed_is_the_same_each_time() -> None:
    first, second = world(11), world(11)

    first.run()
    second.run()

    assert (first.committed, first.leaders) == (second.committed, second.leaders)


@pytest.mark.parametrize("size", [3, 5])
def test_r8_a_leader_that_says_nothing_is_replaced_by_the_first_who_may_be(size: int) -> None:
    """Its followers miss it up to half a second apart, as their polls end: the last of them has the votes."""
    timing = Timing()
    patience_ms = timing.fetch_ms + timing.long_poll_ms + timing.election_ms
    took = [RaftWorld(seed, size, timing=timing).freeze_leader(10 * patience_ms) for seed in range(40)]

    assert max(took) <= patience_ms, took


def a_second_vote(patch: pytest.MonkeyPatch) -> None:
    keep = voting.may_grant

    def may_grant(replica: Replica, vote: Vote) -> bool:
        if isinstance(replica.role, Leader) or vote.is_pre:
            return keep(replica, vote)
        return (vote.last_epoch, vote.end) >= (replica.log.last_epoch, replica.log.end_offset)

    patch.setattr(voting, "may_grant", may_grant)


def votes_for_those_who_have_less(patch: pytest.MonkeyPatch) -> None:
    keep = voting.may_grant

    def may_grant(replica: Replica, vote: Vote) -> bool:
        return keep(replica, replace(vote, last_epoch=2**30))

    patch.setattr(voting, "may_grant", may_grant)


def fetches_before_the_disk_has_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "is_durable", property(lambda self: True))


def a_leader_that_counts_itself_before_its_disk(patch: pytest.MonkeyPatch) -> None:
    keep = leading.count

    def count(replica: Replica, role: Leader) -> None:
        role.ends[replica.me.id] = replica.log.end_offset
        keep(replica, role)

    patch.setattr(leading, "count", count)


def syncs_that_count_after_a_cut(patch: pytest.MonkeyPatch) -> None:
    def synced(self: Replica, end: Offset, cuts: int) -> None:
        self.durable = max(self.durable, end)

    patch.setattr(Replica, "synced", synced)


def logs_that_are_never_cut(patch: pytest.MonkeyPatch) -> None:
    keep = following.fetched

    def fetched(replica: Replica, node: int, asked: Any, reply: FetchReply) -> None:
        keep(replica, node, asked, replace(reply, diverging=None))

    patch.setattr(following, "fetched", fetched)


def cuts_where_the_leader_says_alone(patch: pytest.MonkeyPatch) -> None:
    def where_to_cut(diverging: tuple[int, Offset], own: tuple[int, Offset]) -> Offset:
        return diverging[1]

    patch.setattr(following, "where_to_cut", where_to_cut)


def majorities_of_half(patch: pytest.MonkeyPatch) -> None:
    from everlog.raft.voters import VoterSet

    def is_majority(self: VoterSet, nodes: Iterator[int]) -> bool:
        return len(set(self.ids) & set(nodes)) >= max(1, len(self) // 2)

    patch.setattr(VoterSet, "is_majority", is_majority)


def logs_that_go_back_to_the_beginning(patch: pytest.MonkeyPatch) -> None:
    def needs_snapshot(replica: Replica, asked: Fetch) -> bool:
        return False

    patch.setattr(leading, "needs_snapshot", needs_snapshot)


def snapshots_without_an_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ListLog, "start_epoch", property(lambda self: -1))


def snapshots_that_are_begun_at_before_they_are_whole(patch: pytest.MonkeyPatch) -> None:
    keep = following.snapshot_fetched

    def snapshot_fetched(replica: Replica, node: int, asked: FetchSnapshot, reply: SnapshotReply) -> None:
        keep(replica, node, asked, replace(reply, size=asked.position + len(reply.data)))

    patch.setattr(following, "snapshot_fetched", snapshot_fetched)


def voters_that_change_before_the_last_change_is_committed(patch: pytest.MonkeyPatch) -> None:
    keep = reconfiguring.change_asked

    def change_asked(replica: Replica, token: object, asked: VoterChange) -> None:
        role = replica.role
        if isinstance(role, Leader):
            real, role.high_watermark = role.high_watermark, Offset(2**60)
            role.change = None
            keep(replica, token, replace(asked, ack_when_committed=False))
            role.high_watermark = real
        else:
            keep(replica, token, asked)

    patch.setattr(reconfiguring, "change_asked", change_asked)


def voters_as_the_settings_have_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "voters", property(lambda self: self._static_voters))


def removed_ones_that_never_stand(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "may_stand", property(lambda self: self.is_voter))


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    a_second_vote,
    votes_for_those_who_have_less,
    fetches_before_the_disk_has_it,
    a_leader_that_counts_itself_before_its_disk,
    syncs_that_count_after_a_cut,
    logs_that_are_never_cut,
    cuts_where_the_leader_says_alone,
    majorities_of_half,
    logs_that_go_back_to_the_beginning,
    snapshots_without_an_epoch,
    snapshots_that_are_begun_at_before_they_are_whole,
    voters_that_change_before_the_last_change_is_committed,
    voters_as_the_settings_have_them,
    removed_ones_that_never_stand,
]


FOUND_BY: dict[Callable[[pytest.MonkeyPatch], None], tuple[int, ...]] = {
    cuts_where_the_leader_says_alone: (64,),
    voters_that_change_before_the_last_change_is_committed: (150,),
    removed_ones_that_never_stand: (351,),
}
"""Worlds that show a fault which few do; they are tried first."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_r8_a_planted_fault_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)

    def seeds_until_it_shows() -> int:
        seeds: list[int] = [*FOUND_BY.get(mutant, ()), *range(MUTANT_SEEDS)]
        for seed in seeds:
            try:
                world(seed).run(20_000)
            except AssertionError:
                return seed
        return -1

    assert seeds_until_it_shows() >= 0, f"{MUTANT_SEEDS} worlds saw nothing of it"

"""A replicated partition in worlds from seeds: nothing acknowledged is lost, what was shown stays (R1-R7)."""

import os
from collections.abc import Callable, Collection
from typing import Any

import pytest

from everlog.controller import elections
from everlog.controller.elections import Circumstances, Draft
from everlog.metadata.image import PartitionImage
from everlog.model.ids import BrokerId, Offset
from everlog.replication.follower import Append, Fetched, FollowerState, Ignore, TruncateTo
from everlog.replication.leader import AdvanceHighWatermark, Effect, LeaderState
from tests.sim.partition_world import PartitionWorld

SEEDS = int(os.environ.get("EVERLOG_SIM_REPLICATION_SEEDS", "24"))
MUTANT_SEEDS = range(200)
"""In one of these worlds a planted fault has to show; the rarest shows in one of a hundred."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_r4_nothing_acknowledged_is_lost(seed: int) -> None:
    assert PartitionWorld(seed).run() > 20


def a_proposal_that_does_not_count_yet(patch: pytest.MonkeyPatch) -> None:
    keep = LeaderState._recount  # pyright: ignore[reportPrivateUsage]

    def recount(self: LeaderState) -> None:
        proposed, self.proposed = self.proposed, None
        keep(self)
        self.proposed = proposed

    patch.setattr(LeaderState, "_recount", recount)


def one_proposed_out_counts_no_more(patch: pytest.MonkeyPatch) -> None:
    keep = LeaderState._recount  # pyright: ignore[reportPrivateUsage]

    def recount(self: LeaderState) -> None:
        isr, self.isr = self.isr, self.isr & (self.proposed or self.isr)
        keep(self)
        self.isr = isr

    patch.setattr(LeaderState, "_recount", recount)


def any_follower_may_join(patch: pytest.MonkeyPatch) -> None:
    def may_join(self: LeaderState, broker: BrokerId) -> bool:
        return self._eligible.get(broker) is not None  # pyright: ignore[reportPrivateUsage]

    patch.setattr(LeaderState, "_may_join", may_join)


def committed_by_too_few(patch: pytest.MonkeyPatch) -> None:
    keep = LeaderState._advance  # pyright: ignore[reportPrivateUsage]

    def advance(self: LeaderState) -> list[Effect]:
        least, self._least = self._least, 1  # pyright: ignore[reportPrivateUsage]
        effects = keep(self)
        self._least = least  # pyright: ignore[reportPrivateUsage]
        return effects

    patch.setattr(LeaderState, "_advance", advance)

    def has_all_of(self: LeaderState, offset: Offset) -> bool:
        return self.high_watermark >= offset

    patch.setattr(LeaderState, "has_all_of", has_all_of)


def committed_when_the_leader_has_it(patch: pytest.MonkeyPatch) -> None:
    def advance(self: LeaderState) -> list[Effect]:
        if self.end <= self.high_watermark:
            return []
        self.high_watermark = self.end
        return [AdvanceHighWatermark(self.end)]

    patch.setattr(LeaderState, "_advance", advance)


def an_unclean_stop_that_is_forgiven(patch: pytest.MonkeyPatch) -> None:
    keep = elections.without

    def without(
        partition: PartitionImage,
        brokers: Collection[int],
        circumstances: Circumstances,
        *,
        unclean: Collection[int] = (),
    ) -> PartitionImage | None:
        return keep(partition, brokers, circumstances)

    patch.setattr(elections, "without", without)


def eligible_for_ever(patch: pytest.MonkeyPatch) -> None:
    def more_than_there_are(*_: object) -> int:
        return 99

    patch.setattr(elections, "least_in_sync", more_than_there_are)


def anybody_may_lead(patch: pytest.MonkeyPatch) -> None:
    keep = Draft.elect

    def elect(self: Draft, circumstances: Circumstances) -> None:
        keep(self, Circumstances(circumstances.active, circumstances.least_in_sync, True))

    patch.setattr(Draft, "elect", elect)


def cut_at_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    def init(self: FollowerState, leader: int, leader_epoch: Any, log: Any, high_watermark: Offset) -> None:
        self.leader, self.leader_epoch, self._log = leader, leader_epoch, log  # pyright: ignore[reportPrivateUsage]
        self.high_watermark = min(high_watermark, log.end_offset)
        log.truncate(self.high_watermark)

    patch.setattr(FollowerState, "__init__", init)


def never_cut(patch: pytest.MonkeyPatch) -> None:
    def take(self: FollowerState, answer: Fetched) -> Append | TruncateTo | Ignore:
        return Append()

    patch.setattr(FollowerState, "take", take)


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    a_proposal_that_does_not_count_yet,
    one_proposed_out_counts_no_more,
    any_follower_may_join,
    committed_by_too_few,
    committed_when_the_leader_has_it,
    an_unclean_stop_that_is_forgiven,
    eligible_for_ever,
    anybody_may_lead,
    cut_at_the_high_watermark,
    never_cut,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_fault_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)

    def worlds_until_it_shows() -> int:
        for seed in MUTANT_SEEDS:
            try:
                PartitionWorld(seed).run(20_000)
            except AssertionError:
                return seed + 1
        return 0

    assert worlds_until_it_shows(), f"{len(MUTANT_SEEDS)} worlds saw nothing of it"

"""Rules of a cluster, broken one at a time: which seed notices, and how much work that took.

`python -m tests.sim.cluster_mutants [--only NAME] [--seeds N]` looks for a seed for each of them, one after
another, and prints the CPU seconds until it was found. `--report FILE` writes them as JSON as well.
"""

# What is planted has whatever signature it replaces.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from everlog.broker.group_commit import GroupCommit
from everlog.broker.journal import ReplicaJournal
from everlog.broker.replicas import Replica
from everlog.controller import brokers as controller_brokers
from everlog.controller import isr
from everlog.controller.elections import Draft
from everlog.controller.isr import AlterPartitions
from everlog.coordinator.group.classic_group import ClassicGroup
from everlog.coordinator.group.offsets_store import OffsetStore
from everlog.coordinator.txn import ending, joining
from everlog.coordinator.txn.shard import TxnShard
from everlog.log.partition import PartitionLog
from everlog.log.producers import Producers
from everlog.model.errors import ErrorCode
from everlog.raft import leading, voting
from everlog.raft import replica as raft_replica
from everlog.raft.store import NOBODY, QuorumStore
from everlog.raft.voters import VoterSet
from everlog.replication import follower as replication_follower
from everlog.replication.follower import Append, FollowerState, TruncateTo
from everlog.replication.leader import LeaderState
from everlog.sim.cluster_world import run_cluster_seed
from tests.sim.quorum_world import run_quorum_seed

Patch = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 400
"""How many seeds a broken rule may survive."""
MUTANTS: dict[str, Patch] = {}
OF_THE_QUORUM: set[str] = set()
"""Those that a quorum alone shows, which costs less than a whole cluster."""


RARE = frozenset(
    {
        "what_earlier_leaders_left_is_committed_by_counting",
        "one_lookup_finds_where_logs_part",
        "an_earlier_life_counts_as_in_sync",
    }
)
"""Those that no seed of the first hundred has shown. The first needs a member that has what an earlier leader
left and not the entry behind it, and one answer brings both; the others showed in plans made by hand. The
tests of the cores find them; here they are looked for with `--rare`."""


def mutant(patch: Patch) -> Patch:
    """Put a broken rule on the list."""
    MUTANTS[patch.__name__] = patch
    return patch


def quorum_mutant(patch: Patch) -> Patch:
    """Put a broken rule of the quorum on the list."""
    OF_THE_QUORUM.add(patch.__name__)
    return mutant(patch)


# The quorum.


@quorum_mutant
def votes_go_to_whoever_asks(patch: pytest.MonkeyPatch) -> None:
    """A candidate may have less of the log than its voter."""
    really_may_grant = voting.may_grant

    def may_grant(replica: Any, vote: Any) -> bool:
        return really_may_grant(replica, replace(vote, last_epoch=1 << 30))

    patch.setattr(voting, "may_grant", may_grant)


@quorum_mutant
def votes_are_given_twice(patch: pytest.MonkeyPatch) -> None:
    """Who has voted in an epoch votes again in it."""
    really_vote_asked = voting.vote_asked

    def vote_asked(replica: Any, token: object, vote: Any) -> None:
        if replica.state.voted != NOBODY and vote.epoch == replica.epoch and not vote.is_pre:
            replica.state = replace(replica.state, voted=NOBODY)
        really_vote_asked(replica, token, vote)

    patch.setattr(voting, "vote_asked", vote_asked)


@quorum_mutant
def votes_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    """A vote is gone with the process that gave it."""

    def write(self: QuorumStore, state: object) -> None:
        return None

    patch.setattr(QuorumStore, "write", write)


@quorum_mutant
def members_fetch_before_they_have_synced(patch: pytest.MonkeyPatch) -> None:
    """A follower of the quorum asks for more before what it has is on disk."""
    patch.setattr(raft_replica.Replica, "is_durable", property(lambda self: True))


@quorum_mutant
def one_member_is_a_majority(patch: pytest.MonkeyPatch) -> None:
    """What any one member has counts as committed."""

    def majority_has(self: VoterSet, ends: Any) -> Any:
        return max(ends.values())

    patch.setattr(VoterSet, "majority_has", majority_has)


@quorum_mutant
def what_earlier_leaders_left_is_committed_by_counting(patch: pytest.MonkeyPatch) -> None:
    """A leader commits without an entry of its own."""

    def count(replica: Any, role: Any) -> None:
        by_majority = replica.voters.majority_has(role.ends)
        if by_majority > leading.committed(role):
            role.high_watermark = by_majority
            replica.advance(by_majority)
            leading.serve_parked(replica, role)

    patch.setattr(leading, "count", count)


# Replication.


@mutant
def followers_cut_to_their_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Where logs part is guessed by the high watermark (KIP-101)."""
    really_take = FollowerState.take

    def take(self: FollowerState, answer: Any) -> Any:
        found = really_take(self, answer)
        return TruncateTo(self.high_watermark) if isinstance(found, TruncateTo) else found

    patch.setattr(FollowerState, "take", take)


@mutant
def followers_do_not_cut(patch: pytest.MonkeyPatch) -> None:
    """A follower believes that its log is the leader's."""
    really_take = FollowerState.take

    def take(self: FollowerState, answer: Any) -> Any:
        found = really_take(self, replace(answer, diverging=None))
        return found if not isinstance(found, Append) or answer.diverging is None else Append()

    def last_epoch_of(self: FollowerState) -> Any:
        fetch = really_next(self)
        return replace(fetch, last_epoch=fetch.leader_epoch)

    really_next = FollowerState.next_fetch
    patch.setattr(FollowerState, "take", take)
    patch.setattr(FollowerState, "next_fetch", last_epoch_of)


@mutant
def one_lookup_finds_where_logs_part(patch: pytest.MonkeyPatch) -> None:
    """A follower cuts where the leader's epoch ends, whatever it has of that epoch itself (KIP-279)."""
    patch.setattr(replication_follower, "where_to_cut", lambda diverging, own: diverging[1])


@mutant
def followers_join_without_the_epochs_start(patch: pytest.MonkeyPatch) -> None:
    """A follower is in sync that has not come to where the leader's epoch begins."""

    def may_join(self: Any, broker: Any) -> bool:
        follower = self._followers[broker]
        if follower.end is None or self._eligible.get(broker) is None:
            return False
        if follower.broker_epoch not in (-1, self._eligible[broker]):
            return False
        return bool(follower.end >= self.high_watermark)

    patch.setattr(LeaderState, "_may_join", may_join)


@mutant
def followers_join_whatever_they_lack(patch: pytest.MonkeyPatch) -> None:
    """A follower is in sync once it has fetched."""

    def may_join(self: Any, broker: Any) -> bool:
        return self._followers[broker].end is not None and broker in self._eligible

    patch.setattr(LeaderState, "_may_join", may_join)


@mutant
def proposed_members_do_not_count(patch: pytest.MonkeyPatch) -> None:
    """While a change of the ISR is on its way only the old one counts (KIP-497)."""

    def recount(self: Any) -> None:
        self._counted = [self._followers[broker] for broker in sorted(self.isr) if broker in self._followers]

    patch.setattr(LeaderState, "_recount", recount)


@mutant
def followers_count_before_they_have_fetched(patch: pytest.MonkeyPatch) -> None:
    """A member of the ISR that has not been heard of in this epoch is left out of the count."""
    really_advance = LeaderState._advance  # pyright: ignore[reportPrivateUsage]

    def advance(self: Any) -> Any:
        self._counted = [follower for follower in self._counted if follower.end is not None]
        found = really_advance(self)
        self._recount()
        return found

    patch.setattr(LeaderState, "_advance", advance)


@mutant
def the_high_watermark_moves_with_too_few_in_sync(patch: pytest.MonkeyPatch) -> None:
    """A leader that is alone in sync commits by itself (KIP-966)."""
    really_advance = LeaderState._advance  # pyright: ignore[reportPrivateUsage]

    def advance(self: Any) -> Any:
        least, self._least = self._least, 1
        try:
            return really_advance(self)
        finally:
            self._least = least

    patch.setattr(LeaderState, "_advance", advance)
    patch.setattr(LeaderState, "can_take_all", property(lambda self: True))
    patch.setattr(LeaderState, "has_all_of", lambda self, offset: self.high_watermark >= offset)


@mutant
def consumers_read_to_the_end(patch: pytest.MonkeyPatch) -> None:
    """What is not committed is shown."""
    patch.setattr(Replica, "high_watermark", property(lambda self: self.opened().end_offset))


# The controller.


def _without(code: ErrorCode) -> Patch:
    def plant(patch: pytest.MonkeyPatch) -> None:
        really_problem = AlterPartitions._problem  # pyright: ignore[reportPrivateUsage]

        def problem(self: AlterPartitions, proposal: Any, partition: Any, image: Any) -> Any:
            found = really_problem(self, proposal, partition, image)
            return None if found is code else found

        patch.setattr(AlterPartitions, "_problem", problem)

    return plant


@mutant
def proposals_of_older_leaders_count(patch: pytest.MonkeyPatch) -> None:
    """The controller takes an ISR from who led once."""
    _without(ErrorCode.FENCED_LEADER_EPOCH)(patch)
    _without(ErrorCode.INVALID_REQUEST)(patch)


@mutant
def proposals_against_older_states_count(patch: pytest.MonkeyPatch) -> None:
    """The controller does not compare partition epochs."""
    _without(ErrorCode.INVALID_UPDATE_VERSION)(patch)


@mutant
def an_earlier_life_counts_as_in_sync(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks which life of a broker had caught up (KIP-903)."""

    def eligible(member: Any, image: Any) -> bool:
        known = image.brokers.get(member.broker)
        return known is not None and known.active

    def may_join(self: Any, broker: Any) -> bool:
        follower = self._followers[broker]
        if follower.end is None or self._eligible.get(broker) is None:
            return False
        return bool(follower.end >= self.high_watermark and follower.end >= self.epoch_start)

    patch.setattr(isr, "_eligible", eligible)
    patch.setattr(LeaderState, "_may_join", may_join)


@mutant
def every_stop_counts_as_clean(patch: pytest.MonkeyPatch) -> None:
    """Who comes back from an unclean stop keeps its places (KIP-966)."""
    really_out = controller_brokers._out_of_sync  # pyright: ignore[reportPrivateUsage]

    def out_of_sync(standing: Any, broker: Any, *, clean: bool) -> Any:
        return really_out(standing, broker, clean=True)

    patch.setattr(controller_brokers, "_out_of_sync", out_of_sync)


@mutant
def anybody_may_lead(patch: pytest.MonkeyPatch) -> None:
    """A replica that is not in sync is elected where others are not there."""
    really_elect = Draft.elect

    def elect(self: Draft, circumstances: Any) -> None:
        really_elect(self, replace(circumstances, unclean_allowed=True))

    patch.setattr(Draft, "elect", elect)


@mutant
def who_was_eligible_stays_so(patch: pytest.MonkeyPatch) -> None:
    """The eligible are not forgotten when enough are in sync and more is committed without them."""
    really_set = Draft.set_isr

    def set_isr(self: Draft, members: Any, circumstances: Any, unclean: Any = frozenset()) -> None:
        known = (*self.eligible_leaders, *self.isr)
        really_set(self, members, circumstances, unclean)
        left = [one for one in self.replicas if one in known and one not in members and one not in unclean]
        self.eligible_leaders = tuple(left)

    patch.setattr(Draft, "set_isr", set_isr)


@mutant
def the_unclean_stay_eligible(patch: pytest.MonkeyPatch) -> None:
    """Who stopped uncleanly leaves the ISR and may lead all the same."""
    really_set = Draft.set_isr

    def set_isr(self: Draft, members: Any, circumstances: Any, unclean: Any = frozenset()) -> None:
        really_set(self, members, circumstances, frozenset())

    patch.setattr(Draft, "set_isr", set_isr)


@mutant
def another_leader_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """The leader epoch stays as it is when the leader changes."""
    really_settled = Draft.settled

    def settled(self: Draft, *, must_bump: bool = False) -> Any:
        found = really_settled(self, must_bump=must_bump)
        return None if found is None else replace(found, leader_epoch=self._before.leader_epoch)  # pyright: ignore[reportPrivateUsage]

    patch.setattr(Draft, "settled", settled)


# Acknowledgements and disks.


@mutant
def appends_are_acknowledged_before_they_are_synced(patch: pytest.MonkeyPatch) -> None:
    """Whoever waits for the disk is told at once that it is done."""

    def wait(
        self: GroupCommit, log: object, end_offset: int, due_at: object, waiter: Callable[[bool], None]
    ) -> None:
        waiter(True)

    patch.setattr(GroupCommit, "wait", wait)


# Producers and transactions.


@mutant
def batches_sent_again_are_appended_again(patch: pytest.MonkeyPatch) -> None:
    """The window of sequence numbers is not looked at."""
    patch.setattr(Producers, "check", lambda self, batch: None)


@mutant
def followers_forget_who_wrote(patch: pytest.MonkeyPatch) -> None:
    """The window of sequence numbers is known to the leader alone."""
    really_append = PartitionLog.append_replicated

    def append_replicated(self: PartitionLog, *given: Any, **named: Any) -> Any:
        found = really_append(self, *given, **named)
        for state in self.producers:
            state.window.clear()
        return found

    patch.setattr(PartitionLog, "append_replicated", append_replicated)


@mutant
def undecided_records_are_shown(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset is the high watermark, whatever is open."""
    patch.setattr(PartitionLog, "last_stable_offset", lambda self, high_watermark: high_watermark)


@mutant
def aborted_records_are_shown(patch: pytest.MonkeyPatch) -> None:
    """Nobody is told which transactions were aborted."""
    patch.setattr(PartitionLog, "aborted_between", lambda self, start, end: [])


@mutant
def zombies_end_transactions(patch: pytest.MonkeyPatch) -> None:
    """The coordinator asks nobody for the epoch."""
    patch.setattr(ending, "check_client", lambda txn, producer: None)
    patch.setattr(joining, "check_client", lambda txn, producer: None)


@mutant
def first_writes_are_not_verified(patch: pytest.MonkeyPatch) -> None:
    """A write that comes after its transaction has ended opens another one that nobody ends."""
    patch.setattr(Producers, "check_verified", lambda self, batch: None)


@mutant
def decisions_are_not_carried_on_by_the_next_coordinator(patch: pytest.MonkeyPatch) -> None:
    """Who comes after does not write the markers that are owed."""
    patch.setattr(TxnShard, "activated", lambda self, now: None)


@mutant
def coordinators_answer_before_their_records_are_committed(patch: pytest.MonkeyPatch) -> None:
    """What a coordinator has decided counts as soon as it is in its own log."""
    patch.setattr(ReplicaJournal, "when_committed", lambda self, end, done: done(None))


# Groups.


@mutant
def offsets_count_before_their_marker(patch: pytest.MonkeyPatch) -> None:
    """Offsets of a transaction are committed as soon as they are written."""
    really_apply = OffsetStore.apply

    def apply(self: OffsetStore, record: Any, at: Any, producer_id: int | None) -> None:
        really_apply(self, record, at, None)

    patch.setattr(OffsetStore, "apply", apply)


@mutant
def pending_offsets_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """A reader of offsets is told the old ones while a transaction is about to change them."""
    patch.setattr(OffsetStore, "is_unstable", lambda self, place: False)


@mutant
def old_generations_commit(patch: pytest.MonkeyPatch) -> None:
    """A classic group takes commits from whoever was a member once."""
    patch.setattr(ClassicGroup, "check_commit", lambda self, *given, **options: None)


@mutant
def generations_begin_anew_with_each_coordinator(patch: pytest.MonkeyPatch) -> None:
    """A classic group is read back with its members, and counts its generations from the start."""
    really_take_in = ClassicGroup.take_in

    def take_in(self: ClassicGroup, value: Any) -> Any:
        is_known = self.generation > 0
        changed = really_take_in(self, value)
        self.generation = value.generation if is_known else 0
        return changed

    patch.setattr(ClassicGroup, "take_in", take_in)


# Looking for them.


@dataclass(frozen=True, slots=True)
class Caught:
    """The seed that noticed a broken rule."""

    seed: int
    tried: int
    cpu_s: float
    found: str


def look(name: str, seeds: Iterable[int]) -> Caught | None:
    """Break a rule and run seeds until one notices; None if none does."""
    began = time.process_time()
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[name](patch)
        for tried, seed in enumerate(seeds, 1):
            found = _found_in_quorum(seed) if name in OF_THE_QUORUM else _found(seed)
            if found:
                return Caught(seed, tried, round(time.process_time() - began, 2), found)
    return None


def _found(seed: int) -> str:
    try:
        result = run_cluster_seed(seed)
    except Exception as error:  # noqa: BLE001  # a step that must not happen is a finding like any other
        return f"{type(error).__name__}: {error}"
    if result.violations:
        return str(result.violations[0].message)
    return result.problems[0] if result.problems else ""


def _found_in_quorum(seed: int) -> str:
    try:
        run_quorum_seed(seed)
    except Exception as error:  # noqa: BLE001  # a step that must not happen is a finding like any other
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> int:
    """Look for all of them, or for some; 1 if one was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(MUTANTS), help="look for this one")
    parser.add_argument("--rare", action="store_true", help="look for those too that seeds hardly show")
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS, help="how many seeds each may survive")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--report", type=Path, help="write what was found here, as JSON")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    report: dict[str, dict[str, object]] = {}
    missed = 0
    for name in given.only or [name for name in MUTANTS if given.rare or name not in RARE]:
        caught = look(name, range(given.first, given.first + given.seeds))
        if caught is None:
            missed += 1
            sys.stdout.write(f"{name}: NOT FOUND in {given.seeds} seeds\n")
            continue
        report[name] = {"seed": caught.seed, "tried": caught.tried, "cpu_s": caught.cpu_s}
        sys.stdout.write(f"{name}: {caught.cpu_s} CPU-s, seed {caught.seed}: {caught.found[:120]}\n")
        sys.stdout.flush()
    took = sorted(float(str(each["cpu_s"])) for each in report.values())
    if took:
        middle = took[len(took) // 2]
        sys.stdout.write(
            f"{len(took)} found, {missed} not; CPU-s to find one: median {middle}, most {took[-1]}\n"
        )
    if given.report is not None:
        given.report.write_text(json.dumps(report, indent=2, sort_keys=True) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

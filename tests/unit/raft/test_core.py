"""One replica of the quorum by itself: the rules that worlds from seeds seldom put to the test (R8)."""

import random
from typing import TypeVar

from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant, Offset
from everlog.raft.core import RaftCore
from everlog.raft.events import (
    Answered,
    Ask,
    Asked,
    Commit,
    Effect,
    Gone,
    Lead,
    Reply,
    Stored,
    StoreState,
    Sync,
    Synced,
    Ticked,
    Unanswered,
)
from everlog.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
    Noted,
    ReplicaKey,
    Vote,
    VoteReply,
)
from everlog.raft.roles import Candidate, Follower, Leader, Unattached
from everlog.raft.store import QuorumState
from everlog.raft.voters import VoterSet
from tests.sim.raft_world import Chance, ListLog

ME, SECOND, THIRD = (ReplicaKey(number) for number in (1, 2, 3))
VOTERS = VoterSet([ME, SECOND, THIRD])
NOON = Instant(1_000_000)


def a_log(*epochs: int) -> ListLog:
    log = ListLog()
    log.entries = [(epoch, b"%d" % index) for index, epoch in enumerate(epochs)]
    return log


def a_replica(log: ListLog | None = None, state: QuorumState | None = None) -> RaftCore:
    return RaftCore(ME, VOTERS, log or a_log(), Chance(random.Random(1)), state, NOON)


def a_follower(log: ListLog | None = None) -> RaftCore:
    """Of node 2, in epoch 4, which has answered its first fetch."""
    log = log or a_log()
    core = a_replica(log, QuorumState(4, leader=2))
    effects = core.step(Ticked(), NOON) + core.step(Synced(log.end_offset, 0), NOON)
    _, asked = requests(effects, Fetch)[0]
    core.step(Answered(2, asked, FetchReply(4, 2)), NOON)
    return core


ELECTED = Instant(NOON + 10_000)


def a_leader(log: ListLog) -> RaftCore:
    """Of the epoch after that of its log, elected by node 2."""
    core = a_replica(log, QuorumState(log.last_epoch))
    _, asked = requests(core.step(Ticked(), ELECTED), Vote)[0]
    effects = core.step(Answered(2, asked, VoteReply(core.epoch, None, granted=True)), ELECTED)
    _, asked = requests(effects, Vote)[0]
    effects = core.step(Answered(2, asked, VoteReply(core.epoch, None, granted=True)), ELECTED)
    assert Lead(core.epoch) in effects
    return core


Asking = TypeVar("Asking", Vote, Fetch, BeginEpoch, EndEpoch)


def requests(effects: list[Effect], kind: type[Asking]) -> list[tuple[int, Asking]]:
    """Whom it asks for something of this kind, and what."""
    asked = [(effect.node, effect.request) for effect in effects if isinstance(effect, Ask)]
    return [(node, request) for node, request in asked if isinstance(request, kind)]


def a_vote(epoch: int, *, is_pre: bool = False, last_epoch: int = 9, end: int = 99) -> Vote:
    return Vote(THIRD, epoch, last_epoch, Offset(end), is_pre, ME)


def answers(effects: list[Effect]) -> list[object]:
    return [effect.answer for effect in effects if isinstance(effect, Reply)]


def test_a_vote_is_on_disk_before_it_is_given() -> None:
    effects = a_replica().step(Asked("t", a_vote(7)), NOON)

    said = effects.index(Reply("t", VoteReply(7, None, granted=True)))
    kept = [
        index for index, one in enumerate(effects) if isinstance(one, StoreState) and one.state.voted == 3
    ]
    assert kept
    assert kept[0] < said


def test_an_epoch_has_one_vote_also_after_a_restart() -> None:
    core = a_replica(state=QuorumState(7, voted=2))

    assert answers(core.step(Asked("t", a_vote(7)), NOON)) == [VoteReply(7, None, granted=False)]


def test_who_has_less_of_the_log_gets_no_vote() -> None:
    core = a_replica(a_log(1, 1, 3))

    assert answers(core.step(Asked("t", a_vote(7, last_epoch=3, end=2)), NOON)) == [VoteReply(7, None, False)]
    assert answers(core.step(Asked("t", a_vote(7, last_epoch=1, end=9)), NOON)) == [VoteReply(7, None, False)]
    assert answers(core.step(Asked("t", a_vote(7, last_epoch=3, end=3)), NOON)) == [VoteReply(7, None, True)]


def test_who_hears_its_leader_would_vote_for_nobody_else() -> None:
    core = a_follower()

    assert answers(core.step(Asked("t", a_vote(4, is_pre=True)), NOON)) == [VoteReply(4, 2, granted=False)]

    core.step(Gone(2), NOON)
    assert answers(core.step(Asked("t", a_vote(4, is_pre=True)), NOON)) == [VoteReply(4, None, granted=True)]


def test_whose_connection_to_the_leader_broke_would_vote_for_another_until_it_hears_it_again() -> None:
    core = a_replica(state=QuorumState(4, leader=2))
    effects = core.step(Ticked(), NOON) + core.step(Synced(Offset(0), 0), NOON)
    _, asked = requests(effects, Fetch)[0]
    _, asked = requests(core.step(Answered(2, asked, FetchReply(4, 2)), NOON), Fetch)[0]
    core.step(Unanswered(2, asked), NOON)

    assert answers(core.step(Asked("t", a_vote(4, is_pre=True)), NOON)) == [VoteReply(4, 2, granted=True)]

    _, asked = requests(core.step(Ticked(), Instant(NOON + 20)), Fetch)[0]
    core.step(Answered(2, asked, FetchReply(4, 2)), Instant(NOON + 20))
    assert answers(core.step(Asked("t", a_vote(4, is_pre=True)), NOON)) == [VoteReply(4, 2, granted=False)]


def test_a_leader_whose_process_ended_is_replaced_without_a_time_out() -> None:
    core = a_follower()

    core.step(Gone(2), NOON)
    asked = core.step(Ticked(), Instant(NOON + 40))

    assert [
        effect.node for effect in asked if isinstance(effect, Ask) and isinstance(effect.request, Vote)
    ] == [2, 3]


def test_who_is_left_stands_in_turn_and_the_first_at_once() -> None:
    waits: dict[int, int] = {}
    for gone in (2, 3):
        core = a_replica(state=QuorumState(4, leader=gone))
        core.step(Ticked(), NOON)
        asked = requests(core.step(Gone(gone), NOON), Vote)
        waits[gone] = 0 if asked else int(core.deadline() - NOON)

    # Behind 2 comes 3, and then 1; behind 3 comes 1.
    assert waits == {2: 40, 3: 0}


def test_who_would_elect_another_gives_it_time() -> None:
    core = a_follower()
    core.step(Gone(2), NOON)
    core.step(Asked("t", a_vote(4, is_pre=True)), Instant(NOON + 39))

    assert requests(core.step(Ticked(), Instant(NOON + 98)), Vote) == []
    assert requests(core.step(Ticked(), Instant(NOON + 120)), Vote) != []


def test_who_has_more_of_the_log_than_the_one_before_goes_before_it() -> None:
    core = a_follower(a_log(1, 1, 3))
    core.step(Gone(2), NOON)

    effects = core.step(Asked("t", a_vote(4, is_pre=True, last_epoch=3, end=2)), Instant(NOON + 1))

    assert answers(effects) == [VoteReply(4, None, granted=False)]
    assert [node for node, _ in requests(effects, Vote)] == [2, 3]


def test_an_epoch_and_the_vote_in_it_are_one_write() -> None:
    effects = a_replica().step(Asked("t", a_vote(7)), NOON)

    kept = [effect.state for effect in effects if isinstance(effect, StoreState)]
    assert kept == [QuorumState(7, voted=3, voted_directory=THIRD.directory)]


def test_one_who_has_yet_to_notice_does_not_bring_back_a_leader_that_is_gone() -> None:
    core = a_follower()
    core.step(Gone(2), NOON)
    effects = core.step(Ticked(), Instant(NOON + 40))
    asked = next(
        e.request for e in effects if isinstance(e, Ask) and e.node == 3 and isinstance(e.request, Vote)
    )

    core.step(Answered(3, asked, VoteReply(4, 2, granted=False)), Instant(NOON + 26))

    assert not isinstance(core.role, Follower)


def test_whoever_gave_its_leader_up_counts_the_votes_of_those_who_still_name_it() -> None:
    core = a_follower()
    given_up = core.deadline()
    _, asked = requests(core.step(Ticked(), given_up), Vote)[0]

    core.step(Answered(3, asked, VoteReply(4, 2, granted=True)), given_up)

    assert isinstance(core.role, Candidate)


def test_whoever_gave_its_leader_up_follows_it_again_when_it_says_so_itself() -> None:
    core = a_follower()
    given_up = core.deadline()
    asked = dict(requests(core.step(Ticked(), given_up), Vote))

    core.step(Answered(3, asked[3], VoteReply(4, 2, granted=False)), given_up)
    assert core.leader is None
    core.step(Answered(2, asked[2], VoteReply(4, 2, granted=False)), given_up)

    assert core.leader == 2


def test_what_an_earlier_leader_left_is_committed_along_with_an_entry_of_ours_only() -> None:
    # Two nodes have the entry of epoch 2, which is no majority of what could elect node 3 with an entry of
    # epoch 3: it would cut ours off. Our own announcement on both makes that impossible (Raft, figure 8).
    core = a_leader(a_log(1, 2))
    log_end = Offset(2)
    now = ELECTED
    core.step(Synced(Offset(3), 0), now)

    old = core.step(Asked("t", Fetch(SECOND, core.epoch, log_end, 2, Offset(0))), now)
    new = core.step(Asked("t", Fetch(SECOND, core.epoch, Offset(3), core.epoch, Offset(0))), now)

    assert not [effect for effect in old if isinstance(effect, Commit)]
    assert Commit(Offset(3)) in new


def test_a_leader_counts_itself_after_its_own_disk() -> None:
    core = a_leader(a_log(1, 2))
    now = ELECTED

    fetched = core.step(Asked("t", Fetch(SECOND, core.epoch, Offset(3), core.epoch, Offset(0))), now)
    assert not [effect for effect in fetched if isinstance(effect, Commit)]

    assert Commit(Offset(3)) in core.step(Synced(Offset(3), 0), now)


def test_a_restarted_leader_leads_its_epoch_no_more() -> None:
    core = a_replica(a_log(4), QuorumState(4, leader=1, voted=1))

    assert isinstance(core.role, Unattached)
    refused = answers(core.step(Asked("t", Fetch(SECOND, 4, Offset(1), 4, Offset(0))), NOON))
    assert refused == [FetchReply(4, None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert answers(core.step(Asked("t", a_vote(4)), NOON)) == [VoteReply(4, None, granted=False)]


def test_a_leader_that_a_majority_does_not_fetch_from_steps_down() -> None:
    core = a_leader(a_log(1))
    last = Instant(ELECTED + 3_000)

    core.step(Ticked(), Instant(last - 1))
    assert isinstance(core.role, Leader)
    effects = core.step(Ticked(), last)

    assert isinstance(core.role, Unattached)
    assert [ended.successors for _, ended in requests(effects, EndEpoch)] == [(2, 3), (2, 3)]


def test_the_first_of_the_successors_stands_for_election_at_once() -> None:
    core = a_follower()

    effects = core.step(Asked("t", EndEpoch(2, 4, (1, 3))), NOON)

    assert [node for node, _ in requests(effects, Vote)] == [2, 3]


def test_a_log_is_never_cut_below_what_is_committed() -> None:
    log = a_log(1, 2, 2)
    core = a_follower(log)
    asked = core.role.fetching if isinstance(core.role, Follower) else None
    assert asked is not None

    effects = core.step(Answered(2, asked, FetchReply(4, 2, diverging=(2, Offset(2)))), NOON)

    assert log.end_offset == 2
    refetch = [effect.request for effect in effects if isinstance(effect, Ask)]
    assert refetch == [Fetch(ME, 4, Offset(2), 2, Offset(0))]


def test_a_candidate_votes_for_itself_in_a_new_epoch() -> None:
    core = a_replica(state=QuorumState(6))
    effects = core.step(Ticked(), Instant(NOON + 5_000))
    _, asked = requests(effects, Vote)[0]
    assert (asked.epoch, asked.is_pre) == (6, True), "to ask first changes nothing"

    effects = core.step(Answered(3, asked, VoteReply(6, None, granted=True)), Instant(NOON + 5_001))

    assert isinstance(core.role, Candidate)
    assert effects[0] == StoreState(QuorumState(7, voted=1, voted_directory=ME.directory))


def a_candidate_beside_a_dead_leader() -> tuple[RaftCore, Instant]:
    """Of epoch 5: node 2, which led, is gone, and node 3 would vote for us, or so it said."""
    core, now = a_follower(), Instant(NOON + 40)
    core.step(Gone(2), NOON)
    asked = dict(requests(core.step(Ticked(), now), Vote))
    core.step(Unanswered(2, asked[2]), now)
    asked = dict(requests(core.step(Answered(3, asked[3], VoteReply(4, None, granted=True)), now), Vote))
    assert isinstance(core.role, Candidate)
    core.step(Unanswered(2, asked[2]), now)
    core.step(Answered(3, asked[3], VoteReply(5, None, granted=False)), now)
    return core, now


def test_two_who_are_left_and_stand_at_the_same_moment_stand_again_soon() -> None:
    core, now = a_candidate_beside_a_dead_leader()

    effects = core.step(Ticked(), Instant(now + 81))

    assert [(node, vote.epoch, vote.is_pre) for node, vote in requests(effects, Vote) if node == 3] == [
        (3, 5, True)
    ]


def test_a_candidate_would_vote_for_another_that_asks_first() -> None:
    core, now = a_candidate_beside_a_dead_leader()

    assert answers(core.step(Asked("t", a_vote(5, is_pre=True)), now)) == [VoteReply(5, None, granted=True)]
    assert answers(core.step(Asked("t", a_vote(5)), now)) == [VoteReply(5, None, granted=False)]
    assert answers(core.step(Asked("t", a_vote(6)), now)) == [VoteReply(6, None, granted=True)]


def test_who_has_not_answered_yet_is_waited_for() -> None:
    core, now = a_follower(), Instant(NOON + 40)
    core.step(Gone(2), NOON)
    asked = dict(requests(core.step(Ticked(), now), Vote))
    core.step(Answered(3, asked[3], VoteReply(4, None, granted=False)), now)

    assert requests(core.step(Ticked(), Instant(now + 200)), Vote) == []


def test_a_candidate_whom_nobody_refuses_begins_no_other_epoch() -> None:
    """A voter with a slow disk is still at it, and would have to write its vote for the next one again."""
    core, now = a_follower(), Instant(NOON + 40)
    core.step(Gone(2), NOON)
    asked = dict(requests(core.step(Ticked(), now), Vote))
    asked = dict(requests(core.step(Answered(3, asked[3], VoteReply(4, None, granted=True)), now), Vote))
    later = Instant(now + 30_000)

    core.step(Ticked(), later)
    assert (isinstance(core.role, Candidate), core.epoch) == (True, 5)
    assert core.deadline() > later

    assert Lead(5) in core.step(Answered(3, asked[3], VoteReply(5, None, granted=True)), later)


def test_a_voter_gives_the_one_it_votes_for_its_time_from_when_the_vote_is_on_disk() -> None:
    core = a_replica()
    core.step(Asked("t", a_vote(7)), NOON)
    core.step(Stored(5_000), Instant(NOON + 5_000))

    assert requests(core.step(Ticked(), Instant(NOON + 5_999)), Vote) == []
    assert requests(core.step(Ticked(), Instant(NOON + 7_000)), Vote) != []


def test_a_follower_does_not_take_its_own_slow_disk_for_silence_of_the_leader() -> None:
    log = a_log(4)
    core = a_replica(log, QuorumState(4, leader=2))
    _, asked = requests(core.step(Ticked(), NOON) + core.step(Synced(Offset(1), 0), NOON), Fetch)[0]
    effects = core.step(Answered(2, asked, FetchReply(4, 2, batches=[b"4:more"])), NOON)
    assert [effect for effect in effects if isinstance(effect, Sync)]
    later = Instant(NOON + 9_000)

    assert core.step(Ticked(), later) == []
    assert isinstance(core.role, Follower)
    # Others may know better: it has not heard of the leader for so long.
    assert answers(core.step(Asked("t", a_vote(4, is_pre=True)), later)) == [VoteReply(4, 2, granted=True)]

    assert [node for node, _ in requests(core.step(Synced(Offset(2), 0), later), Fetch)] == [2]
    core.step(Ticked(), Instant(later + 1_999))
    assert isinstance(core.role, Follower)
    core.step(Ticked(), Instant(later + 2_000))
    assert not isinstance(core.role, Follower)


def test_a_leader_does_not_step_down_while_a_majority_says_that_it_follows() -> None:
    core = a_leader(a_log(1))
    told = BeginEpoch(1, 2, SECOND)
    core.step(Asked("t", Fetch(SECOND, 2, Offset(1), 1, Offset(0))), ELECTED)
    for at in range(1_000, 12_000, 1_000):
        assert 2 in dict(requests(core.step(Ticked(), Instant(ELECTED + at)), BeginEpoch)), at
        core.step(Answered(2, told, Noted(2, 1)), Instant(ELECTED + at))
        assert isinstance(core.role, Leader), at

    # Its word does not count for ever: it may be that it cannot fetch from us.
    core.step(Ticked(), Instant(ELECTED + 13_000))
    assert isinstance(core.role, Unattached)


def test_a_leader_is_as_patient_with_a_voter_as_that_was_slow_before() -> None:
    core = a_leader(a_log(1))
    core.step(Asked("t", Fetch(SECOND, 2, Offset(1), 1, Offset(0))), ELECTED)
    came_back = Instant(ELECTED + 2_900)
    core.step(Asked("u", Fetch(SECOND, 2, Offset(1), 1, Offset(0))), came_back)

    core.step(Ticked(), Instant(came_back + 5_799))
    assert isinstance(core.role, Leader)
    core.step(Ticked(), Instant(came_back + 5_800))
    assert isinstance(core.role, Unattached)

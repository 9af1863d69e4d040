"""Voting: who may have our vote, and how this replica stands for election (KIP-996 asks first)."""

from dataclasses import replace
from typing import assert_never

from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant
from everlog.raft.events import Ask, Reply
from everlog.raft.following import observe
from everlog.raft.leading import become_leader
from everlog.raft.messages import Vote, VoteReply
from everlog.raft.replica import Replica
from everlog.raft.roles import Candidate, Follower, Leader, Prospective, Unattached
from everlog.raft.store import NOBODY, QuorumState

_MOST_DOUBLINGS = 16


def vote_asked(replica: Replica, token: object, vote: Vote) -> None:
    """Grant a vote or refuse it."""
    if not replica.is_me(vote.voter):
        error = ErrorCode.INVALID_VOTER_KEY
        replica.out.append(Reply(token, VoteReply(replica.epoch, replica.leader, False, error)))
        return
    if vote.epoch > replica.epoch:
        observe(replica, vote.epoch, None)
    granted = vote.epoch == replica.epoch and may_grant(replica, vote)
    if vote.is_pre and vote.epoch == replica.epoch and isinstance(replica.role, Unattached):
        _give_way(replica, replica.role, granted=granted)
    if granted and not vote.is_pre and replica.state.voted == NOBODY:
        # A vote that a crash can undo could be given twice, to two leaders of one epoch.
        voted, directory = vote.candidate.id, vote.candidate.directory
        replica.store(replace(replica.state, voted=voted, voted_directory=directory))
        replica.role = replica.unattached()  # The one who may win gets its time.
    replica.out.append(Reply(token, VoteReply(replica.epoch, replica.leader, granted)))


def may_grant(replica: Replica, vote: Vote) -> bool:
    """Whether a candidate of our epoch may have our vote, or would get it."""
    role = replica.role
    # Whoever has less of the log could lose what is committed (Raft, section 5.4.1).
    is_complete = (vote.last_epoch, vote.end) >= (replica.log.last_epoch, replica.log.end_offset)
    match role:
        case Leader():
            return False
        case Candidate():
            # It has voted for itself, but whoever asks first would begin an epoch of its own.
            return vote.is_pre and is_complete
        case Follower():
            hears_leader = role.has_fetched and replica.now < role.until
            return vote.is_pre and is_complete and not hears_leader
        case Unattached() | Prospective():
            if vote.is_pre or replica.state.voted == NOBODY:
                return is_complete
            voted = replica.state.voted, replica.state.voted_directory
            return voted == (vote.candidate.id, vote.candidate.directory)
        case _:
            assert_never(role)


def _give_way(replica: Replica, role: Unattached, *, granted: bool) -> None:
    """Let whoever would be elected by us be elected; where it has too little of the log, go before it."""
    if granted:
        wait_ms = replica.timing.retry_ms * 3 + replica.random.below(max(1, replica.timing.retry_ms))
        role.campaign_at = max(role.campaign_at, replica.after(wait_ms))
    elif replica.lost is not None and replica.lost[0] == replica.epoch:
        role.campaign_at = replica.now


def become_prospective(replica: Replica) -> None:
    """Ask all voters whether they would vote for us."""
    hear_by = replica.after(replica.timing.election_ms)
    role = replica.role = Prospective(replica.election_end(), hear_by, {replica.me.id})
    if replica.voters.is_majority(role.granted):
        become_candidate(replica)
    else:
        _ask_for_votes(replica, replica.others)


def become_candidate(replica: Replica) -> None:
    """Begin an epoch, vote for ourselves, and ask all others to."""
    state = QuorumState(replica.epoch + 1, voted=replica.me.id, voted_directory=replica.me.directory)
    replica.store(state)
    hear_by = replica.after(replica.timing.election_ms)
    role = replica.role = Candidate(replica.election_end(), hear_by, {replica.me.id})
    if replica.voters.is_majority(role.granted):
        become_leader(replica, role)
    else:
        _ask_for_votes(replica, replica.others)


def _ask_for_votes(replica: Replica, nodes: list[int]) -> None:
    log = replica.log
    is_pre = isinstance(replica.role, Prospective)
    for node in nodes:
        voter = replica.voters.key(node)
        assert voter is not None, (node, replica.voters)
        vote = Vote(replica.me, replica.epoch, log.last_epoch, log.end_offset, is_pre, voter)
        replica.out.append(Ask(node, vote))


def go_on(replica: Replica, role: Prospective | Candidate) -> None:
    """Ask those whose answer did not come, and stand anew once it is time to.

    A new epoch helps where votes are split. Where nobody has refused, the votes that are missing are on
    their way or cannot be had: another epoch would only make a voter with a slow disk write its vote again,
    and come too late with it again.
    """
    due = [node for node, at in role.unanswered.items() if at <= replica.now]
    for node in due:
        del role.unanswered[node]
    _ask_for_votes(replica, due)
    if role.hear_by <= replica.now:
        role.silent.update(set(replica.others) - role.granted - role.rejected)
        _look_whether_lost(replica, role)
    if role.until <= replica.now:
        if role.rejected:
            become_prospective(replica)
        else:
            role.until = replica.election_end()


def deadline(replica: Replica, role: Prospective | Candidate) -> Instant:
    """When there is something to do."""
    due = [role.until, *role.unanswered.values()]
    return min(due if role.hear_by <= replica.now else [*due, role.hear_by])


def voted(replica: Replica, node: int, vote: Vote, reply: VoteReply) -> None:
    """Count a vote."""
    observe(replica, reply.epoch, reply.leader, by_itself=reply.leader == node)
    role = replica.role
    if vote.epoch != replica.epoch or not _is_about(vote, role):
        return  # About an election that is over.
    assert isinstance(role, Prospective | Candidate)
    (role.granted if reply.granted else role.rejected).add(node)
    if replica.voters.is_majority(role.granted):
        if isinstance(role, Prospective):
            become_candidate(replica)
        else:
            become_leader(replica, role)
    else:
        _look_whether_lost(replica, role)


def unanswered(replica: Replica, node: int, vote: Vote) -> None:
    """A voter did not answer; it is asked again for as long as the election lasts."""
    role = replica.role
    # It may have been asked in an earlier attempt, and vote no more.
    if vote.epoch == replica.epoch and _is_about(vote, role) and node in replica.voters.ids:
        assert isinstance(role, Prospective | Candidate)
        role.unanswered[node] = replica.after(replica.timing.retry_ms)
        role.silent.add(node)
        _look_whether_lost(replica, role)


def _look_whether_lost(replica: Replica, role: Prospective | Candidate) -> None:
    """End an election soon that those who answer have decided, and not only when its time is over.

    When a leader dies, all that are left may stand at the same moment, and each has only its own vote.
    """
    if role.is_lost or not role.rejected:
        return
    if replica.voters.is_majority(set(replica.voters.ids) - role.rejected - role.silent):
        return
    role.is_lost = True
    replica.elections_lost += 1
    # Two who stand for election at the same time must not do so again at the same time.
    timing = replica.timing
    # To have asked in vain costs nobody anything: who refused may just not have noticed yet.
    doublings = replica.elections_lost + isinstance(role, Candidate)
    longest = min(timing.backoff_ms, timing.retry_ms << min(doublings, _MOST_DOUBLINGS))
    role.until = min(role.until, replica.after(1 + replica.random.below(max(1, longest))))


def stored(replica: Replica, took_ms: int) -> None:
    """Take in that our disk took long: what waits for others has only begun to, now that they are asked.

    Without it, a voter with a slow disk would stand for election against the one that it has just voted for.
    """
    role = replica.role
    match role:
        case Unattached():
            role.campaign_at = Instant(role.campaign_at + took_ms)
        case Prospective() | Candidate():
            role.until = Instant(role.until + took_ms)
            role.hear_by = Instant(role.hear_by + took_ms)
        case Follower():
            role.until = Instant(role.until + took_ms)
        case Leader():
            pass
        case _:
            assert_never(role)


def _is_about(vote: Vote, role: object) -> bool:
    return isinstance(role, Prospective if vote.is_pre else Candidate)

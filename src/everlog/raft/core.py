"""RaftCore: one replica of the quorum; events in, effects out (KIP-595, 853, 996; Raft, sections 3-6).

What it must never do: vote twice in an epoch, lead an epoch that it led before a restart, count what is not
on disk, call committed what an earlier leader left without an entry of its own, cut off what is committed.
"""

from typing import assert_never

from everlog.model.ids import Instant, Offset
from everlog.ports.random import Random
from everlog.raft import following, leading, reconfiguring, voting
from everlog.raft.events import (
    Answered,
    Asked,
    Effect,
    Event,
    Gone,
    Installed,
    Reply,
    Stored,
    Synced,
    Ticked,
    Unanswered,
)
from everlog.raft.messages import (
    AddVoter,
    Answer,
    BeginEpoch,
    ChangeReply,
    EndEpoch,
    Fetch,
    FetchReply,
    FetchSnapshot,
    Noted,
    RemoveVoter,
    ReplicaKey,
    Request,
    Served,
    SnapshotReply,
    UpdateVoter,
    Vote,
    VoteReply,
)
from everlog.raft.replica import Replica, ReplicaLog, Timing
from everlog.raft.roles import Candidate, Follower, Leader, Prospective, Role, Unattached
from everlog.raft.store import NOBODY, QuorumState
from everlog.raft.voters import VoterSet

KAFKAS_TIMING = Timing()

_MOST_TURNS = 8


class RaftCore:
    """See the module. The effects of an event are carried out in order, before the next event comes."""

    def __init__(
        self,
        me: ReplicaKey,
        voters: VoterSet,
        log: ReplicaLog,
        random: Random,
        state: QuorumState | None,
        now: Instant,
        timing: Timing = KAFKAS_TIMING,
        bootstrap: tuple[int, ...] = (),
    ) -> None:
        """Take up where `state` and `log` left off, whatever it was; the first `Ticked` begins it all.

        `voters` are in force where the log has none. `bootstrap` are nodes to ask for the leader besides.
        """
        replica = self._replica = Replica(me, voters, log, random, state, now, timing, bootstrap)
        if replica.voters.ids == (me.id,) and replica.is_voter and isinstance(replica.role, Unattached):
            replica.role.campaign_at = now  # There is nobody to wait for.
        elif replica.state.leader not in (NOBODY, me.id):
            replica.role = Follower(replica.state.leader, replica.after(timing.fetch_ms), fetch_at=now)

    @property
    def role(self) -> Role:
        """What this replica is now."""
        return self._replica.role

    @property
    def epoch(self) -> int:
        """The newest epoch that this replica knows of."""
        return self._replica.epoch

    @property
    def leader(self) -> int | None:
        """Who leads the epoch, as far as it knows."""
        return self._replica.leader

    @property
    def high_watermark(self) -> Offset:
        """Up to where the log is committed, as far as it knows; it never goes back."""
        return self._replica.high_watermark

    def deadline(self) -> Instant:
        """When `Ticked` is due."""
        replica = self._replica
        role = replica.role
        match role:
            case Unattached():
                return min(role.campaign_at, role.ask_at) if replica.may_stand else role.ask_at
            case Prospective() | Candidate():
                return voting.deadline(replica, role)
            case Follower():
                if role.waits_for_disk:
                    return leading.NEVER  # The disk says when.
                return role.until if role.fetch_at is None else min(role.until, role.fetch_at)
            case Leader():
                due = [leading.quorum_deadline(replica, role), *(one.until for one in role.parked.values())]
                if role.change is not None and role.change.end is None:
                    due.append(role.change.until)
                return min([*due, leading.tell_deadline(replica, role)])
            case _:
                assert_never(role)

    def step(self, event: Event, now: Instant) -> list[Effect]:
        """Take in one event and return what the world should do about it, in this order."""
        replica = self._replica
        replica.now = now
        match event:
            case Ticked():
                pass
            case Asked(token, request):
                self._asked(token, request)
            case Answered(node, request, answer):
                self._answered(node, request, answer)
            case Unanswered(node, request):
                self._unanswered(node, request)
            case Gone(node):
                following.gone(replica, node)
            case Synced(end, cuts):
                self._synced(end, cuts)
            case Stored(took_ms):
                voting.stored(replica, took_ms)
            case Installed(snapshot, is_whole):
                following.installed(replica, snapshot, is_whole=is_whole)
            case _:
                assert_never(event)
        self._tick()
        return self._take_effects()

    def appended(self, now: Instant) -> list[Effect]:
        """Take in that the owner has appended entries of this epoch to the log; only to a leader."""
        replica = self._replica
        assert isinstance(replica.role, Leader), replica.role
        replica.now = now
        replica.sync()
        leading.serve_parked(replica, replica.role)
        return self._take_effects()

    def resign(self, now: Instant) -> list[Effect]:
        """Step down, as before a shutdown; nothing if it does not lead."""
        replica = self._replica
        replica.now = now
        if isinstance(replica.role, Leader):
            leading.resign(replica, replica.role)
        return self._take_effects()

    def _take_effects(self) -> list[Effect]:
        out, self._replica.out = self._replica.out, []
        return out

    def _tick(self) -> None:
        """Do what is due; a new role may have something to do at once."""
        for _ in range(_MOST_TURNS):
            before = self._replica.role
            self._turn()
            if self._replica.role is before:
                return
        raise AssertionError(f"the replica {self._replica.me} finds no rest: {self._replica.role}")

    def _turn(self) -> None:
        replica = self._replica
        role, now = replica.role, replica.now
        match role:
            case Unattached():
                if replica.may_stand and role.campaign_at <= now:
                    voting.become_prospective(replica)
                elif role.ask_at <= now:
                    following.ask_who_leads(replica, role)
            case Prospective() | Candidate():
                voting.go_on(replica, role)
            case Follower():
                if role.waits_for_disk:
                    pass  # It has not asked, so that nothing can be heard of the leader.
                elif role.until <= now:
                    following.give_up(replica, role)
                elif role.fetching is None and role.fetch_at is not None and role.fetch_at <= now:
                    following.fetch(replica, role)
            case Leader():
                leading.serve_parked(replica, role)
                reconfiguring.proceed(replica, role)
                if leading.quorum_deadline(replica, role) <= now or reconfiguring.leaves(replica, role):
                    leading.resign(replica, role)
                elif leading.tell_deadline(replica, role) <= now:
                    leading.tell_voters(replica, role)
            case _:
                assert_never(role)

    def _asked(self, token: object, request: Served) -> None:
        replica = self._replica
        match request:
            case Vote():
                voting.vote_asked(replica, token, request)
            case BeginEpoch():
                following.observe(replica, request.epoch, request.leader, by_itself=True)
                replica.out.append(Reply(token, Noted(replica.epoch, replica.leader)))
            case EndEpoch():
                following.epoch_ended(replica, request)
                replica.out.append(Reply(token, Noted(replica.epoch, replica.leader)))
            case Fetch():
                leading.fetch_asked(replica, token, request)
            case FetchSnapshot():
                leading.snapshot_asked(replica, token, request)
            case AddVoter() | RemoveVoter() | UpdateVoter():
                reconfiguring.change_asked(replica, token, request)
            case _:
                assert_never(request)

    def _answered(self, node: int, request: Request, answer: Answer) -> None:
        match answer:
            case VoteReply():
                assert isinstance(request, Vote), request
                voting.voted(self._replica, node, request, answer)
            case Noted():
                following.observe(self._replica, answer.epoch, answer.leader)
                leading.noted(self._replica, node, answer)
            case FetchReply():
                assert isinstance(request, Fetch), request
                following.fetched(self._replica, node, request, answer)
            case SnapshotReply():
                assert isinstance(request, FetchSnapshot), request
                following.snapshot_fetched(self._replica, node, request, answer)
            case ChangeReply():
                raise AssertionError(f"no member asks another to change the voters: {answer}")
            case _:
                assert_never(answer)

    def _unanswered(self, node: int, request: Request) -> None:
        match request:
            case Vote():
                voting.unanswered(self._replica, node, request)
            case Fetch() | FetchSnapshot():
                following.unanswered(self._replica, request)
            case BeginEpoch() | EndEpoch():
                pass  # The first is said again in time, the second is a courtesy.
            case _:
                assert_never(request)

    def _synced(self, end: Offset, cuts: int) -> None:
        replica = self._replica
        replica.synced(end, cuts)
        match replica.role:
            case Leader() as role:
                leading.synced(replica, role)
            case Follower(fetching=None, fetch_at=None, loading=None) as role:
                following.go_on(replica, role)
            case _:
                pass

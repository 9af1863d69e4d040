"""From one generation of a classic group to the next: who is asked to join, how long, and who goes on.

A rebalance begins when somebody comes, goes or changes (`prepare`). It ends when all members have joined
again, or when time is up, and then without those who have not (`complete_join`).
"""

import logging
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from everlog.coordinator.group.classic_commands import NOBODY, A, Joined, Reply, Synced, code_of
from everlog.coordinator.group.classic_group import ClassicGroup, State
from everlog.coordinator.group.classic_members import Member, choose_protocol
from everlog.coordinator.group.classic_timers import Timers
from everlog.coordinator.machine import Decision, Phase
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Instant
from everlog.model.settings import broker_table as keys

if TYPE_CHECKING:
    from everlog.coordinator.group.shard import GroupShard

_log = logging.getLogger(__name__)

NEW_MEMBER_TIMEOUT_MS = 300_000
"""How long a newcomer may wait for its first generation; it cannot send heartbeats before."""


class Wait(IntEnum):
    """What a deadline is for."""

    SESSION = 0
    """A member's, or that of an id that was given out: heard from in time?"""
    JOIN = 1
    """A group's: has everybody joined?"""
    SYNC = 2
    """A group's: has every member asked for its assignment?"""


class Name(NamedTuple):
    """The name of a deadline."""

    group_id: str
    wait: Wait
    member_id: str = NOBODY


class Rebalancer:
    """What the requests to the groups of one shard share: sessions, rebalances, and how answers leave."""

    def __init__(self, shard: "GroupShard") -> None:
        self.shard = shard
        self.world = shard.world
        self.timers: Timers[Name] = Timers(self.world.alarm)

    # --- answers

    def answer(self, reply: Reply[A], answer: A) -> None:
        """Answer once all that was written before is committed, so that nobody hears of what may be lost."""
        kind = type(answer)

        def done(outcome: A | Refused | StorageError) -> None:
            if isinstance(outcome, Refused | StorageError):
                reply(kind.refused(code_of(outcome)))
            else:
                reply(outcome)

        self.shard.machine.run(lambda: Decision((), answer), done)

    def answer_parked(self, group: ClassicGroup, member: Member, code: ErrorCode) -> None:
        """Turn away what a member waits for."""
        join = group.members.take_join(member)
        if join is not None:
            told = member.id if code is ErrorCode.FENCED_INSTANCE_ID else NOBODY
            self.answer(join, Joined(code, member_id=told))
        sync, member.parked_sync = member.parked_sync, None
        if sync is not None:
            self.answer(sync, Synced(code))

    # --- sessions

    def begin_session(self, group: ClassicGroup, member: Member, now: Instant) -> None:
        """Expect to hear from a member within its session time-out."""
        self._expect(group, member.id, member.session_timeout_ms, now)

    def begin_first_session(self, group: ClassicGroup, member: Member, now: Instant) -> None:
        """Let a newcomer wait for its first generation. Who gives up and retries would leave many behind."""
        self._expect(group, member.id, NEW_MEMBER_TIMEOUT_MS, now)

    def expect_pending(
        self, group: ClassicGroup, member_id: str, session_timeout_ms: int, now: Instant
    ) -> None:
        """Expect that whoever was given an id joins with it."""
        self._expect(group, member_id, session_timeout_ms, now)

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        """Expect nothing more of a member."""
        self.timers.cancel(Name(group.id, Wait.SESSION, member_id))

    def heard_from(self, group: ClassicGroup, member: Member) -> None:
        """Begin a session anew, for one who did something that counts as a heartbeat."""
        self.begin_session(group, member, self.world.clock.now())

    def _expect(self, group: ClassicGroup, member_id: str, within_ms: int, now: Instant) -> None:
        self.timers.set(Name(group.id, Wait.SESSION, member_id), Instant(now + within_ms))

    # --- members that go

    def remove(self, group: ClassicGroup, member: Member, code: ErrorCode) -> None:
        """Let a member go, and turn away what it waits for."""
        self.answer_parked(group, member, code)
        self.end_session(group, member.id)
        group.unsynced.pop(member.id, None)
        group.members.remove(member)

    def go_on_without(self, group: ClassicGroup, reason: str, now: Instant) -> None:
        """Rebalance after members went, or end the wait for them."""
        if group.state in (State.STABLE, State.COMPLETING):
            self.prepare(group, reason, now)
        else:
            self.complete_join_if_all_did(group, now)
            self.forget_if_unknown(group)

    def forget_if_unknown(self, group: ClassicGroup) -> None:
        """Let go of a group in which nobody is and of which the log has nothing."""
        if group.is_empty and not group.is_kept and self.shard.groups.get(group.id) is group:
            self.shard.groups.remove(group.id)

    # --- a rebalance

    def rebalance(self, group: ClassicGroup, reason: str, now: Instant) -> None:
        """Begin a rebalance, or take part in the one that is under way."""
        if group.state is State.PREPARING:
            self.complete_join_if_all_did(group, now)
        else:
            self.prepare(group, reason, now)

    def prepare(self, group: ClassicGroup, reason: str, now: Instant) -> None:
        """Ask all members to join again."""
        _log.info("group %r prepares a rebalance after generation %d: %s", group.id, group.generation, reason)
        if group.state is State.COMPLETING:
            self.drop_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, now)
        group.unsynced.clear()
        self.timers.cancel(Name(group.id, Wait.SYNC))
        group.is_initial = group.state is State.EMPTY
        group.state = State.PREPARING
        group.empty_since = None
        if group.is_initial:
            self._wait_for_more(group, now)
        elif group.all_joined:
            self.complete_join(group, now)
        else:
            self._wait_for_joins(group, now)

    def drop_assignments(self, group: ClassicGroup, code: ErrorCode, now: Instant) -> None:
        """Tell all who wait for an assignment that this generation has none."""
        for member in group.members:
            member.assignment = b""
            sync, member.parked_sync = member.parked_sync, None
            if sync is not None:
                self.answer(sync, Synced(code))
                self.begin_session(group, member, now)

    def _wait_for_more(self, group: ClassicGroup, now: Instant) -> None:
        delay_ms = self.world.settings()[keys.GROUP_INITIAL_REBALANCE_DELAY_MS]
        group.has_grown = False
        group.wait_left_ms = max(0, group.members.rebalance_timeout_ms - delay_ms)
        if delay_ms == 0:
            self.complete_join(group, now)
        else:
            self.timers.set(Name(group.id, Wait.JOIN), Instant(now + delay_ms))

    def _wait_for_joins(self, group: ClassicGroup, now: Instant, at_least_ms: int = 0) -> None:
        timeout_ms = max(at_least_ms, group.members.rebalance_timeout_ms)
        self.timers.set(Name(group.id, Wait.JOIN), Instant(now + timeout_ms))

    def complete_join_if_all_did(self, group: ClassicGroup, now: Instant) -> None:
        """End the joining as soon as nobody is missing; a group that begins waits for its time."""
        if group.state is State.PREPARING and not group.is_initial and group.all_joined:
            self.complete_join(group, now)

    def join_time_is_up(self, group: ClassicGroup, now: Instant) -> None:
        """Go on with those who have joined; a group that begins waits on if somebody came meanwhile."""
        if group.state is not State.PREPARING:
            return
        if group.is_initial and group.has_grown and group.wait_left_ms:
            delay_ms = self.world.settings()[keys.GROUP_INITIAL_REBALANCE_DELAY_MS]
            more_ms = min(delay_ms, group.wait_left_ms)
            group.has_grown = False
            group.wait_left_ms -= more_ms
            self.timers.set(Name(group.id, Wait.JOIN), Instant(now + more_ms))
            return
        self.complete_join(group, now)

    def complete_join(self, group: ClassicGroup, now: Instant) -> None:
        """Begin the next generation with all who have joined.

        A static member that has not stays in the group: it may be restarting, and its session tells whether
        it is gone.
        """
        self.timers.cancel(Name(group.id, Wait.JOIN))
        for member in [one for one in group.members if one.parked_join is None and one.instance_id is None]:
            self.remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        if not group.members:
            self._become_empty(group)
        elif group.members.elect_leader():
            self._begin_generation(group, now)
        else:
            # Only static members are left, and none has joined: sessions will tell who is gone.
            self._wait_for_joins(group, now, at_least_ms=1_000)

    def _become_empty(self, group: ClassicGroup) -> None:
        group.generation += 1
        group.protocol = None
        group.state = State.EMPTY
        wall = self.world.clock.wall()
        group.empty_since = wall
        _log.info("group %r is empty in generation %d", group.id, group.generation)

        def done(outcome: Refused | StorageError | None) -> None:
            # Were we to stop now, the last generation would be there again, and its members would time out.
            if isinstance(outcome, Refused | StorageError) and self.shard.machine.phase is Phase.ACTIVE:
                _log.warning("the empty group %r could not be written: %s", group.id, outcome)
                self.forget_if_unknown(group)

        self.shard.machine.run(lambda: Decision((group.record_of_empty(wall),), None), done)

    def _begin_generation(self, group: ClassicGroup, now: Instant) -> None:
        group.generation += 1
        group.protocol = choose_protocol(list(group.members))
        group.state = State.COMPLETING
        group.unsynced = {one.id: None for one in group.members}
        _log.info(
            "group %r has generation %d with %d members", group.id, group.generation, len(group.members)
        )
        timeout_ms = group.members.rebalance_timeout_ms
        self.timers.set(Name(group.id, Wait.SYNC), Instant(now + timeout_ms))
        answers: list[tuple[Reply[Joined], Joined]] = []
        for member in group.members:
            member.is_new = False
            self.begin_session(group, member, now)
            join = group.members.take_join(member)
            if join is not None:
                answers.append((join, group.joined(member.id)))
        for join, joined in answers:
            self.answer(join, joined)

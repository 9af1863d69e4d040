"""Watch: until when members must be heard from, and have given up what they were told to. Soft state only."""

from enum import IntEnum
from typing import NamedTuple

from everlog.coordinator.group.classic_timers import Timers
from everlog.coordinator.group.consumer_member import Member, MemberState
from everlog.model.ids import Instant
from everlog.ports.alarm import Alarm


class Wait(IntEnum):
    """What a deadline is for."""

    SESSION = 0
    """Is the member alive?"""
    REVOKE = 1
    """Has it given up the partitions that it was told to?"""
    JOIN = 2
    """Has a classic member joined again after it was told to?"""
    SYNC = 3
    """Has a classic member asked for its assignment after it joined?"""


class Deadline(NamedTuple):
    """The name of one deadline."""

    group_id: str
    member_id: str
    wait: Wait


class Watch:
    """The deadlines of all members of one shard's consumer groups."""

    def __init__(self, alarm: Alarm) -> None:
        self._timers: Timers[Deadline] = Timers(alarm)

    def begin_session(self, group_id: str, member_id: str, timeout_ms: int, now: Instant) -> None:
        """Expect to hear from a member within its session time-out, from now on."""
        self._set(Deadline(group_id, member_id, Wait.SESSION), timeout_ms, now)

    def expect_revocation(self, group_id: str, before: Member | None, member: Member, now: Instant) -> None:
        """Time a member that is to give up partitions, from when it was first told to give up these."""
        name = Deadline(group_id, member.id, Wait.REVOKE)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timers.cancel(name)
        elif (
            name not in self._timers
            or before is None
            or before.pending_revocation.keys() != member.pending_revocation.keys()
        ):
            self._set(name, member.subscription.rebalance_timeout_ms, now)

    def expect(self, group_id: str, member: Member, wait: Wait, now: Instant) -> None:
        """Give a member its rebalance time-out for a step, unless that is running already."""
        name = Deadline(group_id, member.id, wait)
        if name not in self._timers:
            self._set(name, member.subscription.rebalance_timeout_ms, now)

    def done(self, group_id: str, member_id: str, wait: Wait) -> None:
        """The member has done it."""
        self._timers.cancel(Deadline(group_id, member_id, wait))

    def forget(self, group_id: str, member_id: str) -> None:
        """Expect nothing more of a member."""
        for wait in Wait:
            self._timers.cancel(Deadline(group_id, member_id, wait))

    def again(self, name: Deadline, after_ms: int, now: Instant) -> None:
        """Look again at what could not be settled when its time came."""
        self._set(name, after_ms, now)

    def pop_due(self, now: Instant) -> Deadline | None:
        """Take out one deadline that has passed."""
        return self._timers.pop_due(now)

    def deadline(self) -> Instant | None:
        """The earliest of all."""
        return self._timers.deadline()

    def clear(self) -> None:
        """Expect nothing of anyone."""
        self._timers.clear()

    def _set(self, name: Deadline, after_ms: int, now: Instant) -> None:
        self._timers.set(name, Instant(now + after_ms))

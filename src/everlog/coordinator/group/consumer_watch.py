"""Watch: until when members must be heard from, and where from. Soft state only."""

from enum import IntEnum
from typing import NamedTuple

from everlog.coordinator.group.classic_timers import Timers
from everlog.coordinator.group.consumer_member import Member, MemberState
from everlog.model.dataclass import dataclass
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


@dataclass(slots=True)
class _Place:
    """Where a member speaks from."""

    newest: int
    """The newest connection that it was heard on."""
    refused: int = -1
    """The last older one that it was refused on."""


class Watch:
    """The deadlines of all members of one shard's consumer groups, and the connections they speak on."""

    def __init__(self, alarm: Alarm) -> None:
        self._timers: Timers[Deadline] = Timers(alarm)
        self._places: dict[tuple[str, str], _Place] = {}
        """Only of members with a session: it goes with that."""

    def begin_session(self, group_id: str, member_id: str, timeout_ms: int, now: Instant) -> None:
        """Expect to hear from a member within its session time-out, from now on."""
        self._set(Deadline(group_id, member_id, Wait.SESSION), timeout_ms, now)

    def heard_on(self, group_id: str, member_id: str, connection: int) -> None:
        """Take note of where a member speaks from whose session has begun."""
        place = self._places.setdefault((group_id, member_id), _Place(connection))
        place.newest = max(place.newest, connection)

    def comes_late(self, group_id: str, member_id: str, connection: int) -> bool:
        """Whether a heartbeat was overtaken by those on a newer connection, and tells what once was.

        A client makes a new connection when it has given up the old one, so what still lies on that is of the
        past: partitions that it says it does not have may have been given to it since. Who sends the next
        heartbeat on the same connection has read the answer to the last, and so speaks from there after all.
        """
        place = self._places.get((group_id, member_id))
        if place is None or connection >= place.newest:
            return False
        if connection == place.refused:
            place.newest, place.refused = connection, -1
            return False
        place.refused = connection
        return True

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
        self._places.pop((group_id, member_id), None)

    def again(self, name: Deadline, after_ms: int, now: Instant) -> None:
        """Look again at what could not be settled when its time came."""
        self._set(name, after_ms, now)

    def pop_due(self, now: Instant) -> Deadline | None:
        """Take out one deadline that has passed."""
        late = self._timers.pop_due(now)
        if late is not None and late.wait is Wait.SESSION:
            self._places.pop((late.group_id, late.member_id), None)
        return late

    def deadline(self) -> Instant | None:
        """The earliest of all."""
        return self._timers.deadline()

    def clear(self) -> None:
        """Expect nothing of anyone."""
        self._timers.clear()
        self._places.clear()

    def _set(self, name: Deadline, after_ms: int, now: Instant) -> None:
        self._timers.set(name, Instant(now + after_ms))

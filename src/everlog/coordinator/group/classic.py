"""The classic protocol of groups: join, sync, heartbeat, leave (C2, C3, C4).

The coordinator brings the members together and picks a leader among them; the leader, a client, works out who
reads what. Eager and cooperative rebalancing differ in the clients alone.
"""

from typing import TYPE_CHECKING, cast

from everlog.coordinator.group.classic_commands import (
    NOBODY,
    Departure,
    Heard,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Leaver,
    Left,
    Reply,
    Synced,
    SyncGroup,
)
from everlog.coordinator.group.classic_group import ClassicGroup, State
from everlog.coordinator.group.classic_join import JoinPhase
from everlog.coordinator.group.classic_members import Member
from everlog.coordinator.group.classic_rebalance import Name, Rebalancer, Wait
from everlog.coordinator.group.classic_sync import SyncPhase
from everlog.coordinator.group.group import Group
from everlog.coordinator.machine import Decision, Phase
from everlog.coordinator.records import CoordinatorRecord
from everlog.metadata.delta import Changes
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Instant
from everlog.model.settings import broker_table as keys
from everlog.wire.messages.group_metadata_record import GroupMetadataKey, GroupMetadataValue

if TYPE_CHECKING:
    from everlog.coordinator.group.shard import GroupShard


class ClassicProtocol:
    """The groups of one shard that speak the classic protocol."""

    def __init__(self, shard: "GroupShard") -> None:
        self._shard = shard
        self.rebalancer = Rebalancer(shard)
        self._joins = JoinPhase(self.rebalancer)
        self._syncs = SyncPhase(self.rebalancer)
        self.pending_ids = self._joins.pending
        """Ids that were given out and not used yet, in all groups."""

    # --- requests

    def join(self, command: JoinGroup, now: Instant, reply: Reply[Joined]) -> None:
        """Let a client become a member, or take part in the next generation; `reply` may be much later."""
        try:
            self._shard.machine.check_active()
            self._check_session_timeout(command)
            if self._shard.consumer.coordinates(command.group_id):
                self._shard.consumer.classic_join(command, now, reply)
                return
            group = self._group_to_join(command)
            try:
                self._joins.join(group, command, now, reply)
            finally:
                self.rebalancer.forget_if_unknown(group)
        except Refused as refusal:
            no_room = refusal.code is ErrorCode.GROUP_MAX_SIZE_REACHED
            member_id = NOBODY if no_room else command.member_id
            self.rebalancer.answer(reply, Joined(refusal.code, member_id=member_id))

    def sync(self, command: SyncGroup, now: Instant, reply: Reply[Synced]) -> None:
        """Give a member its assignment once its leader has brought it; `reply` may be much later."""
        if self._shard.consumer.coordinates(command.group_id):
            self._shard.consumer.classic_sync(command, now, reply)
            return
        try:
            self._syncs.sync(self._known(command.group_id), command, reply)
        except Refused as refusal:
            self.rebalancer.answer(reply, Synced(refusal.code))

    def heartbeat(self, command: Heartbeat, now: Instant, reply: Reply[Heard]) -> None:
        """Note that a member is alive, and tell it whether it has to join again."""
        if self._shard.consumer.coordinates(command.group_id):
            self._shard.consumer.classic_heartbeat(command, now, reply)
            return
        try:
            group = self._known(command.group_id)
            member = group.members.find(command.member_id, command.instance_id)
            group.check_generation(command.generation)
        except Refused as refusal:
            self.rebalancer.answer(reply, Heard(refusal.code))
            return
        self.rebalancer.begin_session(group, member, now)
        preparing = group.state is State.PREPARING
        self.rebalancer.answer(reply, Heard(ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE))

    def leave(self, command: LeaveGroup, now: Instant, reply: Reply[Left]) -> None:
        """Let members go, and rebalance once for all of them."""
        if self._shard.consumer.coordinates(command.group_id):
            self._shard.consumer.classic_leave(command, now, reply)
            return
        try:
            self._shard.machine.check_active()
        except Refused as refusal:
            self.rebalancer.answer(reply, Left(refusal.code))
            return
        group = self._shard.groups.get(command.group_id)
        if isinstance(group, ClassicGroup):
            before = len(group.members)
            departures = tuple(self._leave(group, leaver, now) for leaver in command.leavers)
            if len(group.members) < before:
                self.rebalancer.go_on_without(group, _why_left(departures), now)
        else:
            departures = tuple(Departure(one, ErrorCode.UNKNOWN_MEMBER_ID) for one in command.leavers)
        self.rebalancer.answer(reply, Left(departures=departures))

    def _leave(self, group: ClassicGroup, leaver: Leaver, now: Instant) -> Departure:
        member_id, instance_id, _ = leaver
        if member_id in group.pending:
            self._joins.drop_pending(group, member_id, now)
            return Departure(leaver)
        if member_id == NOBODY and instance_id is not None:
            member_id = group.members.by_instance.get(instance_id, NOBODY)
        try:
            member = group.members.find(member_id, instance_id)
        except Refused as refusal:
            return Departure(leaver, refusal.code)
        self.rebalancer.remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        return Departure(leaver)

    def _check_session_timeout(self, command: JoinGroup) -> None:
        settings = self._shard.world.settings()
        least, most = (
            settings[keys.GROUP_MIN_SESSION_TIMEOUT_MS],
            settings[keys.GROUP_MAX_SESSION_TIMEOUT_MS],
        )
        if not least <= command.session_timeout_ms <= most:
            raise Refused(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"the session time-out is {command.session_timeout_ms} ms, expected {least} to {most}",
            )

    def _known(self, group_id: str) -> ClassicGroup:
        self._shard.machine.check_active()
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"the group {group_id!r} has no classic members")
        return group

    def _group_to_join(self, command: JoinGroup) -> ClassicGroup:
        group = self._shard.groups.get(command.group_id)
        if isinstance(group, ClassicGroup):
            return group
        if group is not None and not group.is_empty:
            raise Refused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group {group.id!r} is of type {group.type!r}, expected a classic one",
            )
        if command.member_id != NOBODY:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"the group {command.group_id!r} has no members")
        if group is not None:
            self._remove(group)
        made = ClassicGroup(command.group_id, self.rebalancer.heard_from)
        self._shard.groups.put(made)
        return made

    def _remove(self, group: Group) -> None:
        """Take an empty group of the other type out of the way."""
        self._shard.machine.run(lambda: Decision(group.tombstones(), None), lambda _outcome: None)
        if self._shard.groups.get(group.id) is group:
            raise Refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the group {group.id!r} could not be made a classic one"
            )

    # --- the state that records make

    def apply(self, record: CoordinatorRecord) -> None:
        """Take in one record, live or in replay."""
        group_id = cast(GroupMetadataKey, record.key).group
        group = self._shard.groups.get(group_id)
        if record.value is None:
            if isinstance(group, ClassicGroup):
                self._forget(group)
            return
        if not isinstance(group, ClassicGroup):
            group = ClassicGroup(group_id, self.rebalancer.heard_from)
            self._shard.groups.put(group)
        changed = group.take_in(cast(GroupMetadataValue, record.value))
        for member in changed.went:
            self.rebalancer.end_session(group, member.id)
            group.unsynced.pop(member.id, None)
        # While the log is read, time does not count: sessions begin when it is.
        if self._shard.machine.phase is Phase.ACTIVE:
            for member in changed.came:
                self.rebalancer.begin_session(group, member, self._shard.world.clock.now())

    def _forget(self, group: ClassicGroup) -> None:
        for member_id in list(group.pending):
            self._joins.forget_pending(group, member_id)
        for member in list(group.members):
            # A group with members is only removed to become a consumer group: there they join again.
            self.rebalancer.remove(group, member, ErrorCode.REBALANCE_IN_PROGRESS)
        self._shard.groups.remove(group.id)

    # --- driven by the shard

    def activated(self, now: Instant) -> None:
        """Begin all sessions anew: who was a member is one, and has its time to be heard from."""
        most = self._shard.world.settings()[keys.GROUP_MAX_SIZE]
        for group in self.groups():
            for member in group.members:
                self.rebalancer.begin_session(group, member, now)
            if len(group.members) > most:
                self.rebalancer.prepare(group, f"it has more than {most} members", now)

    def image_changed(self, changes: Changes) -> None:
        """Partitions are the clients' business."""

    def tick(self, now: Instant) -> None:
        """Go on without those who were not heard from in time."""
        while self._shard.machine.phase is Phase.ACTIVE:
            due = self.rebalancer.timers.pop_due(now)
            if due is None:
                return
            group = self._shard.groups.get(due.group_id)
            if isinstance(group, ClassicGroup):
                self._time_is_up(group, due, now)

    def deadline(self) -> Instant | None:
        """When the next time-out is."""
        return self.rebalancer.timers.deadline()

    def close(self) -> None:
        """Answer all who wait with NOT_COORDINATOR."""
        self.rebalancer.timers.clear()
        for group in self.groups():
            for member in group.members:
                self.rebalancer.answer_parked(group, member, ErrorCode.NOT_COORDINATOR)

    def groups(self) -> list[ClassicGroup]:
        """The shard's groups that speak this protocol."""
        return [group for group in self._shard.groups if isinstance(group, ClassicGroup)]

    def _time_is_up(self, group: ClassicGroup, due: Name, now: Instant) -> None:
        if due.wait is Wait.JOIN:
            self.rebalancer.join_time_is_up(group, now)
        elif due.wait is Wait.SYNC:
            self._syncs.time_is_up(group, now)
        elif due.member_id in group.pending:
            self._joins.drop_pending(group, due.member_id, now)
        else:
            member = group.members.get(due.member_id)
            if member is not None:
                self._session_is_over(group, member, now)

    def _session_is_over(self, group: ClassicGroup, member: Member, now: Instant) -> None:
        # Who waits for us cannot send heartbeats; its session begins anew with the answer. A newcomer may
        # have given up long ago, which we cannot tell.
        if member.waits and not member.is_new:
            return
        self.rebalancer.remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.rebalancer.go_on_without(group, f"{member.id!r} was not heard from in time", now)


def _why_left(departures: tuple[Departure, ...]) -> str:
    gone = [one.leaver for one in departures if one.error is ErrorCode.NONE]
    return f"members that left: {len(gone)}, the first with the reason {gone[0].reason!r}"

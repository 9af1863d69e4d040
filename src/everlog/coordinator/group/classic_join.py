"""The join phase of the classic protocol: who may become a member, and when a join means a rebalance."""

import logging
from typing import NamedTuple

from everlog.coordinator.group.classic_commands import (
    NOBODY,
    GroupProtocol,
    Joined,
    JoinGroup,
    Reply,
    code_of,
)
from everlog.coordinator.group.classic_group import ClassicGroup, State
from everlog.coordinator.group.classic_members import Member, choose_protocol, distinct, told_to_leader
from everlog.coordinator.group.classic_pending import PendingIds
from everlog.coordinator.group.classic_rebalance import Rebalancer
from everlog.coordinator.group.classic_subscription import wants_the_same
from everlog.coordinator.machine import Decision
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Instant, Uuid
from everlog.model.settings import broker_table as keys

_log = logging.getLogger(__name__)


class _Request(NamedTuple):
    """A join that is looked at."""

    command: JoinGroup
    protocols: tuple[GroupProtocol, ...]
    """Those of the command, each name once."""
    now: Instant
    reply: Reply[Joined]

    @property
    def reason(self) -> str:
        """Why the client joins, as it says."""
        return "no reason given" if self.command.reason is None else repr(self.command.reason)


class JoinPhase:
    """How members come into a group, and come back."""

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer
        self._world = rebalancer.world
        self.pending = PendingIds()
        """The ids that were given out, in all groups of the shard."""

    def join(self, group: ClassicGroup, command: JoinGroup, now: Instant, reply: Reply[Joined]) -> None:
        """Answer, or park the join until its generation begins; Refused if it can be neither."""
        request = _Request(command, distinct(command.protocols), now, reply)
        self._check_room(group, request)
        if not group.can_take(command.protocol_type, request.protocols):
            raise Refused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group {group.id!r} has no protocol of type {command.protocol_type!r} in common with "
                f"{[one.name for one in request.protocols]}",
            )
        if command.member_id == NOBODY:
            self._join_newcomer(group, request)
        elif command.member_id in group.pending and command.instance_id is None:
            self.forget_pending(group, command.member_id)
            self._add(group, command.member_id, request)
        else:
            self._join_again(group, group.members.find(command.member_id, command.instance_id), request)

    def _check_room(self, group: ClassicGroup, request: _Request) -> None:
        """Refuse those who would make the group too large; members that have joined already may stay."""
        most = self._world.settings()[keys.GROUP_MAX_SIZE]
        member_id, instance_id = request.command.member_id, request.command.instance_id
        member = group.members.get(member_id)
        if group.state is State.EMPTY:
            return
        if group.state is State.PREPARING:
            # Who joins first stays, should the limit have become smaller than the group is.
            fits = group.members.joining < most or (member is not None and member.parked_join is not None)
        else:
            fits = len(group.members) < most or member is not None
        # A static member that comes back takes the place that it has.
        if fits or (member_id == NOBODY and instance_id in group.members.by_instance):
            return
        if member is not None:
            self._rebalancer.remove(group, member, ErrorCode.GROUP_MAX_SIZE_REACHED)
            self._rebalancer.go_on_without(group, f"{member_id!r} has no room in it", request.now)
        elif member_id in group.pending:
            self.drop_pending(group, member_id, request.now)
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group {group.id!r} may have {most} members")

    # --- ids that were given out

    def drop_pending(self, group: ClassicGroup, member_id: str, now: Instant) -> None:
        """Nobody will join with this id any more."""
        self.forget_pending(group, member_id)
        self._rebalancer.complete_join_if_all_did(group, now)
        self._rebalancer.forget_if_unknown(group)

    def forget_pending(self, group: ClassicGroup, member_id: str) -> None:
        """Let go of an id."""
        del group.pending[member_id]
        self.pending.remove(group.id, member_id)
        self._rebalancer.end_session(group, member_id)

    def _give_id(self, group: ClassicGroup, member_id: str, request: _Request) -> None:
        group.pending[member_id] = None
        self._rebalancer.expect_pending(group, member_id, request.command.session_timeout_ms, request.now)
        for crowded_out in self.pending.add(group.id, member_id):
            other = self._rebalancer.shard.groups.get(crowded_out.group_id)
            assert isinstance(other, ClassicGroup), crowded_out.group_id
            self.drop_pending(other, crowded_out.member_id, request.now)
        self._rebalancer.answer(request.reply, Joined(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))

    # --- newcomers

    def _join_newcomer(self, group: ClassicGroup, request: _Request) -> None:
        command = request.command
        instance_id = command.instance_id
        name = command.client_id if instance_id is None else instance_id
        member_id = f"{name}-{_text(self._world.random.uuid())}"
        if instance_id is None and command.needs_member_id:
            self._give_id(group, member_id, request)
            return
        current = None if instance_id is None else group.members.by_instance.get(instance_id)
        old = None if current is None else group.members.get(current)
        if old is None:
            self._add(group, member_id, request)
        else:
            self._replace(group, old, Member.joining(member_id, command, request.protocols), request)

    def _add(self, group: ClassicGroup, member_id: str, request: _Request) -> None:
        member = Member.joining(member_id, request.command, request.protocols)
        member.is_new = True
        if not group.members:
            group.protocol_type = request.command.protocol_type
        group.has_grown = group.state is State.PREPARING
        group.members.add(member)
        group.members.park_join(member, request.reply)
        self._rebalancer.begin_first_session(group, member, request.now)
        self._rebalancer.rebalance(group, f"{member_id!r} joins ({request.reason})", request.now)

    # --- members that come back

    def _join_again(self, group: ClassicGroup, member: Member, request: _Request) -> None:
        changed = member.protocols != request.protocols
        # A leader that joins without a change has seen one elsewhere, such as a new partition.
        leads_stable = group.state is State.STABLE and member.id == group.members.leader
        if group.state is State.PREPARING or changed or leads_stable:
            group.members.update(member, request.command, request.protocols)
            self._park(group, member, request.reply)
            self._rebalancer.rebalance(group, f"{member.id!r} joins again ({request.reason})", request.now)
        else:
            # It may not have heard of the generation that it is in.
            self._rebalancer.answer(request.reply, group.joined(member.id))

    def _park(self, group: ClassicGroup, member: Member, reply: Reply[Joined]) -> None:
        earlier = group.members.park_join(member, reply)
        if earlier is not None:
            # Whoever sent it has given up, or two share one id; either way an answer is owed.
            self._rebalancer.answer(earlier, Joined(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.id))

    def _replace(self, group: ClassicGroup, old: Member, new: Member, request: _Request) -> None:
        """Let a static member's new self take the place of the old one, who is fenced from now on."""
        _log.info("member %r of group %r takes the place of %r", new.id, group.id, old.id)
        if group.state is State.STABLE and _can_go_on(group, old, new):
            self._replace_in_stable(group, old, new, request)
            return
        self._rebalancer.answer_parked(group, old, ErrorCode.FENCED_INSTANCE_ID)
        self._rebalancer.end_session(group, old.id)
        new.assignment = old.assignment
        group.unsynced.pop(old.id, None)
        group.members.replace(old, new)
        group.members.park_join(new, request.reply)
        self._rebalancer.begin_session(group, new, request.now)
        self._rebalancer.rebalance(group, f"{new.id!r} takes the place of {old.id!r}", request.now)

    def _replace_in_stable(self, group: ClassicGroup, old: Member, new: Member, request: _Request) -> None:
        """Write the new id down, then tell it of the generation that goes on."""
        leads = group.members.leader == old.id
        skips = leads and request.command.can_skip_assignment
        members = [new if one is old else one for one in group.members]
        joined = Joined(
            member_id=new.id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            # One who leads and does not know that it may skip the assignment must not think that it leads.
            leader=new.id if skips else group.members.leader or NOBODY,
            skip_assignment=skips,
            members=told_to_leader(members, group.protocol) if skips else (),
        )
        wall = self._world.clock.wall()

        def done(outcome: Joined | Refused | StorageError) -> None:
            if isinstance(outcome, Refused | StorageError):
                request.reply(Joined(code_of(outcome)))
            else:
                request.reply(outcome)

        self._rebalancer.shard.machine.run(
            lambda: Decision((group.record_of_replaced(old, new, wall),), joined), done
        )
        replaced = group.members.get(new.id)
        if replaced is not None:
            group.members.update(replaced, request.command, request.protocols)


def _can_go_on(group: ClassicGroup, old: Member, new: Member) -> bool:
    """Whether the generation can: the same protocol would be chosen, and the member wants what it has."""
    before, after = old.metadata(group.protocol), new.metadata(group.protocol)
    return choose_protocol(
        [new if one is old else one for one in group.members]
    ) == group.protocol and wants_the_same(before, after, consumers=group.is_for_consumers)


def _text(uuid: Uuid) -> str:
    """The form with dashes that Java prints."""
    digits = uuid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

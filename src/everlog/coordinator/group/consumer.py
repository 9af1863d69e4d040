"""ConsumerProtocol: the consumer groups of one shard, and the passing of time for them (KIP-848; C2, C3).

Decisions are made in `consumer_heartbeat` and its neighbours, on a draft; here they are run through the
machine, and sessions and revocations are timed, which is soft state and begins anew after a restart.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from everlog.coordinator.group import consumer_classic, consumer_heartbeat
from everlog.coordinator.group.classic_commands import (
    A,
    Heard,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Left,
    Reply,
    Synced,
    SyncGroup,
    code_of,
)
from everlog.coordinator.group.classic_group import ClassicGroup
from everlog.coordinator.group.consumer_commands import ConsumerHeartbeat, HeartbeatDone, HeartbeatReply
from everlog.coordinator.group.consumer_conversion import (
    DISABLED,
    classic_tombstone,
    downgrade,
    may_downgrade,
    upgrade,
)
from everlog.coordinator.group.consumer_describe import describe_group
from everlog.coordinator.group.consumer_draft import Circumstances, Draft
from everlog.coordinator.group.consumer_group import ConsumerGroup
from everlog.coordinator.group.consumer_member import Member, MemberState
from everlog.coordinator.group.consumer_topics import TopicView
from everlog.coordinator.group.consumer_watch import Deadline, Wait, Watch
from everlog.coordinator.group.kinds import CONSUMER_GROUP
from everlog.coordinator.machine import Decision, Done, Phase
from everlog.coordinator.records import CoordinatorRecord
from everlog.metadata.delta import Changes
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Instant, uuid_text
from everlog.model.settings import broker_table as keys
from everlog.wire.messages.consumer_group_describe import DescribedGroup

if TYPE_CHECKING:
    from everlog.coordinator.group.shard import GroupShard

_log = logging.getLogger(__name__)

R = TypeVar("R")

_OVERTAKEN = "the member {0.member_id!r} of group {0.group_id!r} has been heard on a newer connection"

_RETRY_MS = 1_000
"""When to try again to let a member go whose removal could not be written."""


class ConsumerProtocol:
    """The groups of one shard that speak the consumer protocol."""

    def __init__(self, shard: "GroupShard") -> None:
        self._shard = shard
        self._world = shard.world
        self._watch = Watch(shard.world.alarm)
        self._topics: TopicView | None = None
        """The topics as they are, with what was worked out from them; None until somebody asks."""
        self.member_count = 0
        """The members of all consumer groups in the shard."""

    # --- requests

    def heartbeat(self, command: ConsumerHeartbeat, now: Instant, reply: HeartbeatDone) -> None:
        """Let a member join, go on or leave; `reply` is told when what was decided is committed."""
        asked = command
        if not command.member_id and command.joins:
            command = replace(command, member_id=uuid_text(self._world.random.uuid()))
        if self._watch.comes_late(command.group_id, command.member_id, command.connection):
            reply(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, _OVERTAKEN.format(command)))
            return
        before = self._member(command.group_id, command.member_id)
        accepted = False

        def decide() -> Decision[HeartbeatReply]:
            nonlocal accepted
            asked.check(self._assignors)
            draft = self._draft(command)
            told = (
                consumer_heartbeat.leave(draft, command)
                if command.leaves
                else consumer_heartbeat.heartbeat(draft, command, self._max_size)
            )
            accepted = True
            return self._decided(draft, told)

        self._run(command.group_id, decide, reply, now)
        if accepted:
            self._heard_from(command.group_id, command.member_id, before, now)
        if self._member(command.group_id, command.member_id) is not None:
            self._watch.heard_on(command.group_id, command.member_id, command.connection)

    def describe(self, group_id: str) -> DescribedGroup:
        """The group as ConsumerGroupDescribe shows it; Refused if there is none of this type."""
        return describe_group(self._group(group_id), self._world.image(), self._assignors)

    # --- classic requests to consumer groups: `ClassicProtocol` hands them on where `coordinates` says so

    def coordinates(self, group_id: str) -> bool:
        """Whether the group is a consumer group with members, so that classic members are members of that."""
        group = self._shard.groups.get(group_id)
        return isinstance(group, ConsumerGroup) and not group.is_empty

    def classic_join(self, command: JoinGroup, now: Instant, reply: Reply[Joined]) -> None:
        """Let a classic member join, or take its next step; nobody waits for others."""
        member_id = command.member_id or uuid_text(self._world.random.uuid())
        before = self._member(command.group_id, member_id)
        accepted = False

        def decide() -> Decision[Joined]:
            nonlocal accepted
            if self._world.settings()[keys.GROUP_CONSUMER_MIGRATION_POLICY] == DISABLED:
                raise Refused(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    f"the group {command.group_id!r} speaks the consumer protocol, and may not change it",
                )
            draft = Draft(self._group(command.group_id), self._circumstances())
            told = consumer_classic.join(draft, command, member_id, self._max_size, self._world.image())
            accepted = told.error is ErrorCode.NONE
            return self._decided(draft, told)

        self._run(command.group_id, decide, answering(Joined, reply), now)
        member = self._member(command.group_id, member_id)
        if accepted and member is not None:
            self._heard_from(command.group_id, member_id, before, now)
            self._watch.done(command.group_id, member_id, Wait.JOIN)
            self._watch.expect(command.group_id, member, Wait.SYNC, now)

    def classic_sync(self, command: SyncGroup, now: Instant, reply: Reply[Synced]) -> None:
        """Give a classic member what it may have now."""

        def decide() -> Decision[Synced]:
            group = self._group(command.group_id)
            told = consumer_classic.sync(group, command, self._world.image())
            self._begin_session(group.id, group.members[command.member_id], now)
            self._watch.done(group.id, command.member_id, Wait.SYNC)
            return Decision((), told)

        self._shard.machine.run(decide, answering(Synced, reply))

    def classic_heartbeat(self, command: Heartbeat, now: Instant, reply: Reply[Heard]) -> None:
        """Tell a classic member whether it is to join again, which it must then do in time."""

        def decide() -> Decision[Heard]:
            group = self._group(command.group_id)
            told = consumer_classic.heartbeat(group, command)
            member = group.members[command.member_id]
            self._begin_session(group.id, member, now)
            if told.error is not ErrorCode.NONE:
                self._watch.expect(group.id, member, Wait.JOIN, now)
            return Decision((), told)

        self._shard.machine.run(decide, answering(Heard, reply))

    def classic_leave(self, command: LeaveGroup, now: Instant, reply: Reply[Left]) -> None:
        """Let members go, whichever protocol they speak."""

        def decide() -> Decision[Left]:
            draft = Draft(self._group(command.group_id), self._circumstances())
            return self._decided(draft, consumer_classic.leave(draft, command))

        self._run(command.group_id, decide, answering(Left, reply), now)

    # --- the state that records make

    def apply(self, record: CoordinatorRecord) -> None:
        """Take in one record, live or in replay."""
        # The keys of all types of this protocol say so.
        key: Any = record.key
        group_id: str = key.group_id
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                # Tombstones may be all that is left of a group, or lie before a classic one of its name.
                return
            group = ConsumerGroup(group_id)
            self._shard.groups.put(group)
        self.member_count -= len(group.members)
        if record.type == CONSUMER_GROUP and record.value is None:
            self._shard.groups.remove(group_id)
        else:
            group.apply(record)
            self.member_count += len(group.members)

    # --- driven by the shard

    def activated(self, now: Instant) -> None:
        """Begin time-outs: the log is read, and every member has its whole session to be heard from."""
        for group in self._groups():
            self._begin_sessions(group, now)

    def image_changed(self, changes: Changes) -> None:
        """Take note of topics that came, went or grew; groups follow at their members' next heartbeats."""
        if changes.topics or changes.deleted:
            self._topics = None

    def tick(self, now: Instant) -> None:
        """Let go of members that were not heard from, or did not give up in time what they were told to."""
        while (late := self._watch.pop_due(now)) is not None:
            self._fence(late, now)

    def deadline(self) -> Instant | None:
        """When `tick` wants to be called next."""
        return self._watch.deadline()

    def close(self) -> None:
        """Time nobody any more; who waits for an answer gets it from the machine."""
        self._watch.clear()

    # --- inside

    @property
    def _assignors(self) -> tuple[str, ...]:
        return self._world.settings()[keys.GROUP_CONSUMER_ASSIGNORS]

    @property
    def _max_size(self) -> int:
        return self._world.settings()[keys.GROUP_CONSUMER_MAX_SIZE]

    def _groups(self) -> Iterable[ConsumerGroup]:
        return (group for group in self._shard.groups if isinstance(group, ConsumerGroup))

    def _member(self, group_id: str, member_id: str) -> Member | None:
        group = self._shard.groups.get(group_id)
        return group.members.get(member_id) if isinstance(group, ConsumerGroup) else None

    def _circumstances(self) -> Circumstances:
        if self._topics is None:
            self._topics = TopicView(self._world.image())
        return Circumstances(self._topics, self._world.clock.wall(), self._assignors)

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id!r}")
        return group

    def _draft(self, command: ConsumerHeartbeat) -> Draft:
        """The group to change: as it is, new, or made of the classic one that it was so far."""
        group = self._shard.groups.get(command.group_id)
        if isinstance(group, ConsumerGroup) or not command.joins:
            return Draft(self._group(command.group_id), self._circumstances())
        given = self._circumstances()
        draft = Draft(ConsumerGroup(command.group_id), given)
        if isinstance(group, ClassicGroup):
            draft.precede(classic_tombstone(group.id))
            draft.write(upgrade(group, given.topics, self._world.settings()))
        return draft

    def _decided(self, draft: Draft, reply: R) -> Decision[R]:
        """What a draft has come to; a group that nobody but classic members are in becomes a classic one."""
        after = draft.group
        if not draft.records or not may_downgrade(after, self._world.settings()):
            return Decision(tuple(draft.records), reply)
        before = self._group(after.id)
        # Members know the epoch from before, and rebalance from there with what they have.
        classic = downgrade(after, before.epoch, self._world.image(), self._world.clock.wall())
        return Decision((*before.tombstones(), classic), reply)

    def _run(self, group_id: str, decide: Callable[[], Decision[R]], done: Done[R], now: Instant) -> None:
        """Run a command that may change the group's type, and see to what follows from that."""
        before = self._shard.groups.get(group_id)
        self._shard.machine.run(decide, done)
        after = self._shard.groups.get(group_id)
        if isinstance(before, ClassicGroup) and isinstance(after, ConsumerGroup):
            _log.info("group %r was a classic one and is a consumer group from now on", group_id)
            self._begin_sessions(after, now)
        elif isinstance(before, ConsumerGroup) and isinstance(after, ClassicGroup):
            _log.info("group %r was a consumer group and is a classic one from now on", group_id)
            for member_id in before.members:
                self._watch.forget(group_id, member_id)
            self._shard.classic.rebalancer.prepare(after, "it has become a classic group", now)

    def _heard_from(self, group_id: str, member_id: str, before: Member | None, now: Instant) -> None:
        member = self._member(group_id, member_id)
        if member is None:
            self._watch.forget(group_id, member_id)
            return
        self._begin_session(group_id, member, now)
        self._watch.expect_revocation(group_id, before, member, now)

    def _begin_sessions(self, group: ConsumerGroup, now: Instant) -> None:
        for member in group.members.values():
            self._begin_session(group.id, member, now)
            self._watch.expect_revocation(group.id, None, member, now)

    def _begin_session(self, group_id: str, member: Member, now: Instant) -> None:
        classic = member.subscription.classic
        timeout_ms = (
            self._world.settings()[keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS]
            if classic is None
            else classic.session_timeout_ms
        )
        self._watch.begin_session(group_id, member.id, timeout_ms, now)

    def _fence(self, late: Deadline, now: Instant) -> None:
        """Let a member go whose time is up, unless it is no more or has done meanwhile what was asked."""
        member = self._member(late.group_id, late.member_id)
        if member is None:
            return
        if late.wait is Wait.REVOKE and member.state is not MemberState.UNREVOKED_PARTITIONS:
            return

        def decide() -> Decision[None]:
            draft = Draft(self._group(late.group_id), self._circumstances())
            consumer_heartbeat.remove(draft, [late.member_id])
            return self._decided(draft, None)

        def done(outcome: Refused | StorageError | None) -> None:
            if outcome is None:
                _log.info(
                    "member %s of group %s was let go: %s", late.member_id, late.group_id, _REASONS[late.wait]
                )
            elif self._shard.machine.phase is Phase.ACTIVE:
                self._watch.again(late, _RETRY_MS, now)

        self._run(late.group_id, decide, done, now)
        if self._member(late.group_id, late.member_id) is None:
            self._watch.forget(late.group_id, late.member_id)


_REASONS = {
    Wait.SESSION: "it was not heard from within its session time-out",
    Wait.REVOKE: "it did not give up partitions within its rebalance time-out",
    Wait.JOIN: "it did not join again within its rebalance time-out",
    Wait.SYNC: "it did not ask for its assignment within its rebalance time-out",
}


def answering(kind: type[A], reply: Reply[A]) -> Done[A]:
    """Hand a reply on; a refusal becomes the answer that says so."""

    def done(outcome: A | Refused | StorageError) -> None:
        if isinstance(outcome, Refused | StorageError):
            reply(kind.refused(code_of(outcome)))
        else:
            reply(outcome)

    return done

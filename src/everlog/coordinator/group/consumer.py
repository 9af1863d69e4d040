"""ConsumerProtocol: the consumer groups of one shard, and the passing of time for them (KIP-848; C2, C3).

Decisions are made in `consumer_heartbeat` and its neighbours, on a draft; here they are run through the
machine, and sessions and revocations are timed, which is soft state and begins anew after a restart.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from everlog.coordinator.group import consumer_heartbeat
from everlog.coordinator.group.consumer_commands import ConsumerHeartbeat, HeartbeatDone, HeartbeatReply
from everlog.coordinator.group.consumer_describe import describe_group
from everlog.coordinator.group.consumer_draft import Circumstances, Draft
from everlog.coordinator.group.consumer_group import ConsumerGroup
from everlog.coordinator.group.consumer_member import Member, MemberState
from everlog.coordinator.group.consumer_topics import TopicView
from everlog.coordinator.group.consumer_watch import Deadline, Wait, Watch
from everlog.coordinator.group.kinds import CONSUMER_GROUP
from everlog.coordinator.machine import Decision, Phase
from everlog.coordinator.records import CoordinatorRecord
from everlog.metadata.delta import Changes
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Instant, uuid_text
from everlog.model.settings import broker_table as keys
from everlog.wire.messages.consumer_group_describe import DescribedGroup

if TYPE_CHECKING:
    from everlog.coordinator.group.shard import GroupShard

_log = logging.getLogger(__name__)

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
            return Decision(tuple(draft.records), told)

        self._shard.machine.run(decide, reply)
        if accepted:
            self._heard_from(command.group_id, command.member_id, before, now)

    def describe(self, group_id: str) -> DescribedGroup:
        """The group as ConsumerGroupDescribe shows it; Refused if there is none of this type."""
        group = self._shard.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id!r}")
        return describe_group(group, self._world.image(), self._assignors)

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
            for member in group.members.values():
                self._begin_session(group.id, member, now)
                self._watch.expect_revocation(group.id, None, member, now)

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

    def _draft(self, command: ConsumerHeartbeat) -> Draft:
        group = self._shard.groups.get(command.group_id)
        if isinstance(group, ConsumerGroup):
            return Draft(group, self._circumstances())
        if group is None and command.joins:
            return Draft(ConsumerGroup(command.group_id), self._circumstances())
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {command.group_id!r}")

    def _heard_from(self, group_id: str, member_id: str, before: Member | None, now: Instant) -> None:
        member = self._member(group_id, member_id)
        if member is None:
            self._watch.forget(group_id, member_id)
            return
        self._begin_session(group_id, member, now)
        self._watch.expect_revocation(group_id, before, member, now)

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
            group = self._shard.groups.get(late.group_id)
            assert isinstance(group, ConsumerGroup), late
            draft = Draft(group, self._circumstances())
            consumer_heartbeat.remove(draft, [late.member_id])
            return Decision(tuple(draft.records), None)

        def done(outcome: Refused | StorageError | None) -> None:
            if outcome is None:
                _log.info(
                    "member %s of group %s was let go: %s", late.member_id, late.group_id, _REASONS[late.wait]
                )
            elif self._shard.machine.phase is Phase.ACTIVE:
                self._watch.again(late, _RETRY_MS, now)

        self._shard.machine.run(decide, done)
        if self._member(late.group_id, late.member_id) is None:
            self._watch.forget(late.group_id, late.member_id)


_REASONS = {
    Wait.SESSION: "it was not heard from within its session time-out",
    Wait.REVOKE: "it did not give up partitions within its rebalance time-out",
    Wait.JOIN: "it did not join again within its rebalance time-out",
    Wait.SYNC: "it did not ask for its assignment within its rebalance time-out",
}

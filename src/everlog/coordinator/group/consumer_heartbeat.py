"""What a ConsumerGroupHeartbeat decides: who may join, what a member gets next, and who goes (KIP-848)."""

from collections.abc import Iterable
from dataclasses import replace

from everlog.coordinator.group import consumer_records as records
from everlog.coordinator.group.consumer_commands import ConsumerHeartbeat, HeartbeatReply
from everlog.coordinator.group.consumer_draft import Draft
from everlog.coordinator.group.consumer_group import ConsumerGroup
from everlog.coordinator.group.consumer_member import (
    JOIN_EPOCH,
    NOTHING_ASSIGNED,
    STATIC_LEAVE_EPOCH,
    Member,
    MemberState,
    Partitions,
    Subscription,
)
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Timestamp

_NEVER = Timestamp(0)


def heartbeat(draft: Draft, command: ConsumerHeartbeat, max_size: int) -> HeartbeatReply:
    """Take a member in, or one step further; Refused if it may not go on as it is."""
    check_room(draft.group, command.member_id, command.instance_id, max_size)
    before = _find(draft, command)
    member = advance(draft, command.member_id, _subscription(before, command), command.owned)
    changed = before is None or member.partitions != before.partitions
    return HeartbeatReply(
        member.id,
        member.epoch,
        member.partitions if command.tells_all or changed else None,
        waits=member.state is MemberState.UNRELEASED_PARTITIONS,
    )


def advance(draft: Draft, member_id: str, told: Subscription, owned: Partitions | None) -> Member:
    """Take in what a member says, see to the targets, and take the member one step towards its own."""
    changed = draft.subscribe(member_id, told)
    changed |= draft.resolve_regexes()
    draft.raise_epoch(changed=changed)
    draft.update_targets()
    return draft.reconcile(member_id, owned)


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None, max_size: int) -> None:
    """Refuse a newcomer to a group that is full; a static member takes the place that it has."""
    if len(group.members) < max_size or member_id in group.members:
        return
    if instance_id is None or group.static_member(instance_id) is None:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group {group.id!r} has {max_size} members, the most"
        )


def _find(draft: Draft, command: ConsumerHeartbeat) -> Member | None:
    """The member that the heartbeat is from; None for one who comes now."""
    group = draft.group
    if command.instance_id is None:
        if command.joins:
            return group.members.get(command.member_id)
        member = group.member(command.member_id)
    else:
        if command.joins:
            return _find_static_that_joins(draft, command, command.instance_id)
        member = static_member(group, command.member_id, command.instance_id)
    _check_epoch(member, command)
    return member


def _find_static_that_joins(draft: Draft, command: ConsumerHeartbeat, instance_id: str) -> Member | None:
    old = draft.group.static_member(instance_id)
    if old is None or old.id == command.member_id:
        return draft.group.members.get(command.member_id)
    if old.epoch != STATIC_LEAVE_EPOCH and not old.speaks_classic:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"the instance id {instance_id!r} is in use by the member {old.id!r}, which has not left",
        )
    return replace_member(draft, old, command.member_id)


def replace_member(draft: Draft, old: Member, new_id: str) -> Member:
    """Let a static member's new self have its place, its target and its partitions."""
    group = draft.group
    new = Member(
        new_id,
        old.subscription,
        JOIN_EPOCH,
        JOIN_EPOCH,
        old.state,
        # Its commits count from its first epoch on.
        dict.fromkeys(old.assigned, JOIN_EPOCH),
        old.pending_revocation,
    )
    target = group.target(old.id)
    draft.write(
        (
            *records.no_member(group.id, old.id),
            records.subscription(group.id, new_id, old.subscription),
            records.target(group.id, new_id, target),
            records.current(group.id, new),
        )
    )
    return new


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> Member:
    """The member that has an instance id, provided that it is this one."""
    member = group.static_member(instance_id)
    if member is None:
        raise Refused(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"the group {group.id!r} has no member with the instance id {instance_id!r}: join again",
        )
    if member.id != member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"the instance id {instance_id!r} is that of member {member.id!r}, found {member_id!r}",
        )
    return member


def _check_epoch(member: Member, command: ConsumerHeartbeat) -> None:
    if command.epoch == member.epoch:
        return
    # The answer with the new epoch may be lost; then the member has some of what it had or was given.
    behind = command.epoch == member.previous_epoch and command.epoch < member.epoch
    if behind and command.owned is not None and command.owned <= member.partitions:
        return
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"the member {member.id!r} is in epoch {member.epoch}, found {command.epoch}: "
        "it must give up its partitions and join again",
    )


def _subscription(before: Member | None, command: ConsumerHeartbeat) -> Subscription:
    client = command.client_id, command.client_host
    old = Subscription(*client) if before is None else before.subscription
    timeout_ms = command.rebalance_timeout_ms
    return replace(
        old,
        client_id=command.client_id,
        client_host=command.client_host,
        instance_id=old.instance_id if command.instance_id is None else command.instance_id,
        rack_id=old.rack_id if command.rack_id is None else command.rack_id,
        topics=old.topics if command.topics is None else command.topics,
        regex=old.regex if command.regex is None else command.regex or None,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=old.assignor if command.assignor is None else command.assignor,
        classic=None,
    )


# --- members that go


def leave(draft: Draft, command: ConsumerHeartbeat) -> HeartbeatReply:
    """Let a member go for good, or note that a static one is away."""
    group = draft.group
    if command.instance_id is None:
        member = group.member(command.member_id)
    else:
        member = static_member(group, command.member_id, command.instance_id)
    if command.epoch == STATIC_LEAVE_EPOCH:
        away = Member(
            member.id,
            member.subscription,
            STATIC_LEAVE_EPOCH,
            member.epoch,
            member.state,
            dict.fromkeys(member.assigned, JOIN_EPOCH),
            # It has given up all, so others need not wait for these; the rest is kept for its return.
            NOTHING_ASSIGNED,
        )
        draft.write([records.current(group.id, away)])
    else:
        remove(draft, [member.id])
    return HeartbeatReply(command.member_id, command.epoch)


def remove(draft: Draft, member_ids: Iterable[str]) -> None:
    """Let members go, and raise the group's epoch: the next heartbeat of another works out the targets."""
    draft.remove(member_ids)
    draft.resolve_regexes()
    draft.raise_epoch(changed=True)
    if draft.group.is_empty:
        draft.write([records.target_epoch(draft.group.id, draft.group.epoch, _NEVER)])

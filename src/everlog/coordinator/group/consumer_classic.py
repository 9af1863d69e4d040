"""Members of a consumer group that speak the classic protocol, on their way from the one to the other.

They are spoken to in their own words: the member epoch is their generation, JoinGroup tells what they have
and subscribe to, SyncGroup gives them what they may have now, and REBALANCE_IN_PROGRESS makes them join again
for the next step. A cooperative member that must give partitions up is given an assignment without them, and
joins again when it has.
"""

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
    Synced,
    SyncGroup,
)
from everlog.coordinator.group.consumer_draft import Draft
from everlog.coordinator.group.consumer_embedded import read_subscription, write_assignment
from everlog.coordinator.group.consumer_group import ConsumerGroup
from everlog.coordinator.group.consumer_heartbeat import (
    advance,
    check_room,
    remove,
    replace_member,
    static_member,
)
from everlog.coordinator.group.consumer_member import ClassicMetadata, Member, MemberState, Subscription
from everlog.coordinator.group.group import CONSUMER_PROTOCOL_TYPE
from everlog.metadata.image import ClusterImage
from everlog.model.errors import CorruptDataError, ErrorCode, Refused


def join(draft: Draft, command: JoinGroup, member_id: str, max_size: int, image: ClusterImage) -> Joined:
    """Take a classic member in, or one step further. `member_id` is the one it has, or one made for it."""
    group = draft.group
    check_room(group, member_id, command.instance_id, max_size)
    _check_protocols(group, command)
    if command.member_id == NOBODY and command.instance_id is None and command.needs_member_id:
        return Joined(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    if command.instance_id is not None:
        old = group.static_member(command.instance_id)
        if command.member_id != NOBODY:
            static_member(group, member_id, command.instance_id)
        elif old is not None:
            replace_member(draft, old, member_id)
    try:
        told = read_subscription(command.protocols[0].metadata, image)
    except CorruptDataError as problem:
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(problem)) from problem
    subscription = Subscription(
        client_id=command.client_id,
        client_host=command.client_host,
        instance_id=command.instance_id,
        rack_id=told.rack_id,
        topics=told.topics,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        classic=ClassicMetadata(command.session_timeout_ms, tuple(command.protocols)),
    )
    member = advance(draft, member_id, subscription, told.owned)
    return Joined(
        member_id=member.id,
        generation=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol=command.protocols[0].name,
    )


def _check_protocols(group: ConsumerGroup, command: JoinGroup) -> None:
    """Refuse who has no protocol in common with all other classic members: the group could not go back."""
    others = [
        {name for name, _ in one.subscription.classic.protocols}
        for one in group.members.values()
        if one.subscription.classic is not None and one.id != command.member_id
    ]
    known = {one.name for one in command.protocols}
    if command.protocol_type != CONSUMER_PROTOCOL_TYPE or not known.intersection(*others):
        raise Refused(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"the group {group.id!r} has no protocol of type {command.protocol_type!r} in common with "
            f"{sorted(known)}",
        )


def sync(group: ConsumerGroup, command: SyncGroup, image: ClusterImage) -> Synced:
    """Give a classic member what it may have now."""
    member = find(group, command.member_id, command.instance_id)
    classic = _check_generation(member, command.generation)
    name, metadata = classic.protocols[0]
    if command.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or command.protocol not in (None, name):
        raise Refused(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"the member {member.id!r} was told the protocol {name!r} of type {CONSUMER_PROTOCOL_TYPE!r}, "
            f"found {command.protocol!r} of type {command.protocol_type!r}",
        )
    # One that has partitions to give up has joined for this epoch already, and joins again after it has.
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        raise Refused(
            ErrorCode.REBALANCE_IN_PROGRESS, f"the group {group.id!r} is in epoch {group.epoch} by now"
        )
    return Synced(
        protocol_type=command.protocol_type,
        protocol=command.protocol,
        assignment=write_assignment(member.partitions, metadata, image),
    )


def heartbeat(group: ConsumerGroup, command: Heartbeat) -> Heard:
    """Tell a classic member whether joining again would take it further."""
    member = find(group, command.member_id, command.instance_id)
    _check_generation(member, command.generation)
    further = (
        member.epoch < group.epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
    )
    return Heard(ErrorCode.REBALANCE_IN_PROGRESS if further else ErrorCode.NONE)


def leave(draft: Draft, command: LeaveGroup) -> Left:
    """Let members go, whichever protocol they speak: this is also how an operator removes them."""
    group = draft.group
    departures = tuple(_departure(group, leaver) for leaver in command.leavers)
    gone = {_leaving(group, one.leaver).id: None for one in departures if one.error is ErrorCode.NONE}
    if gone:
        remove(draft, gone)
    return Left(departures=departures)


def _departure(group: ConsumerGroup, leaver: Leaver) -> Departure:
    try:
        _leaving(group, leaver)
    except Refused as refusal:
        return Departure(leaver, refusal.code)
    return Departure(leaver)


def _leaving(group: ConsumerGroup, leaver: Leaver) -> Member:
    if leaver.instance_id is None:
        return group.member(leaver.member_id)
    member = group.static_member(leaver.instance_id)
    if member is not None and leaver.member_id == NOBODY:
        return member
    return static_member(group, leaver.member_id, leaver.instance_id)


def find(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    """The classic member who asks; Refused if it is none, or if another has its instance id."""
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = static_member(group, member_id, instance_id)
    if not member.speaks_classic:
        raise Refused(
            ErrorCode.UNKNOWN_MEMBER_ID, f"the member {member_id!r} does not speak the classic protocol"
        )
    return member


def _check_generation(member: Member, generation: int) -> ClassicMetadata:
    if generation != member.epoch:
        raise Refused(
            ErrorCode.ILLEGAL_GENERATION,
            f"the member {member.id!r} is in generation {member.epoch}, found {generation}",
        )
    assert member.subscription.classic is not None, member.id
    return member.subscription.classic

"""What a member of the classic protocol sends, in any version: joins, syncs, heartbeats, farewells."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from everlog.client.core.admin.groups import CONSUMER_PROTOCOL
from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.group.assignors import Assignor, Shares, SpeaksOfItself
from everlog.client.core.group.subscription import write_assignment, write_subscription
from everlog.client.core.group.types import GroupMetadata
from everlog.model.topics import TopicPartition
from everlog.wire.message import Message
from everlog.wire.messages.heartbeat import HeartbeatRequest
from everlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from everlog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from everlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

FIRST_LEAVE_OF_MANY = 3
"""The version of LeaveGroup in which members became a list."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """What a member wants and has."""

    topics: Collection[str]
    owned: Collection[TopicPartition]
    """What it has now."""
    had: Sequence[TopicPartition]
    """What it was last assigned, and perhaps has given up since."""
    had_in: int
    """The generation in which it was."""


def join_request(
    settings: ConsumerSettings,
    who: GroupMetadata,
    assignors: Sequence[Assignor],
    said: Subscribed,
    reason: str,
) -> JoinGroupRequest:
    """Ask to be a member; the answer comes once all others have joined, or were given up."""
    return JoinGroupRequest(
        group_id=who.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
        protocol_type=CONSUMER_PROTOCOL,
        protocols=[
            JoinGroupRequestProtocol(
                name=assignor.name, metadata=_subscription(settings, who, assignor, said)
            )
            for assignor in assignors
        ],
        reason=reason,
    )


def _subscription(
    settings: ConsumerSettings, who: GroupMetadata, assignor: Assignor, said: Subscribed
) -> bytes:
    topics = sorted(said.topics)
    user_data = (
        assignor.user_data(topics, said.had, said.had_in) if isinstance(assignor, SpeaksOfItself) else None
    )
    return write_subscription(
        topics,
        owned=said.owned,
        generation=who.generation,
        rack=settings.client_rack or None,
        user_data=user_data,
    )


def sync_request(who: GroupMetadata, assignor: str, shares: Shares) -> SyncGroupRequest:
    """Ask what we are given, and if we lead say who gets what."""
    return SyncGroupRequest(
        group_id=who.group_id,
        generation_id=who.generation,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=assignor,
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=write_assignment(places))
            for member, places in shares.items()
        ],
    )


def heartbeat_request(who: GroupMetadata) -> HeartbeatRequest:
    """Say that we live."""
    return HeartbeatRequest(
        group_id=who.group_id,
        generation_id=who.generation,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
    )


def leave_request(who: GroupMetadata, reason: str) -> LeaveGroupRequest:
    """Say that we go, so that nobody waits for our session to run out."""
    return LeaveGroupRequest(
        group_id=who.group_id, members=[MemberIdentity(member_id=who.member_id, reason=reason)]
    )


def for_version(request: Message, version: int) -> Message:
    """The same request in the form that an old version has."""
    if isinstance(request, LeaveGroupRequest) and version < FIRST_LEAVE_OF_MANY:
        return LeaveGroupRequest(group_id=request.group_id, member_id=request.members[0].member_id)
    return request

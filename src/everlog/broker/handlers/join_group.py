"""JoinGroup, versions 0 to 9.

1 has a rebalance time-out of its own, 2 throttling, 4 gives a newcomer an id to join with (KIP-394), 5 has
static members, 6 is flexible, 7 names the protocol's type and may name no protocol, 8 says why, 9 lets a
leader that came back skip the assignment (KIP-814). The answer comes when the whole group has joined.
"""

from typing import TYPE_CHECKING

from everlog.broker.coordinator_errors import coordinator_code
from everlog.broker.exchange import Exchange
from everlog.coordinator.group.classic_commands import GroupProtocol, Joined, JoinGroup
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_REBALANCE_TIMEOUT = 1
_FIRST_THAT_NEEDS_MEMBER_ID = 4
_FIRST_WITHOUT_PROTOCOL = 7
_FIRST_THAT_SKIPS_ASSIGNMENT = 9


def handle(broker: "Broker", request: JoinGroupRequest, exchange: Exchange) -> None:
    """Let a client become a member, and answer when its generation begins."""

    def reply(joined: Joined) -> None:
        exchange.answer(_response(joined, exchange.api_version))

    if not request.group_id:
        reply(Joined(ErrorCode.INVALID_GROUP_ID, member_id=request.member_id))
        return
    try:
        shard = broker.coordinators.group_shard(request.group_id)
    except Refused as refusal:
        reply(Joined(refusal.code, member_id=request.member_id))
        return
    shard.classic.join(_command(request, exchange), broker.clock.now(), reply)


def _command(request: JoinGroupRequest, exchange: Exchange) -> JoinGroup:
    version = exchange.api_version
    own_timeout = version >= _FIRST_WITH_REBALANCE_TIMEOUT
    return JoinGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=exchange.client_id or "",
        # As Java writes an address.
        client_host=f"/{exchange.peer_host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if own_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(GroupProtocol(one.name, one.metadata) for one in request.protocols),
        reason=request.reason,
        needs_member_id=version >= _FIRST_THAT_NEEDS_MEMBER_ID,
        can_skip_assignment=version >= _FIRST_THAT_SKIPS_ASSIGNMENT,
    )


def _response(joined: Joined, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=coordinator_code(joined.error),
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol if version >= _FIRST_WITHOUT_PROTOCOL else joined.protocol or "",
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata
            )
            for one in joined.members
        ],
    )

"""LeaveGroup, versions 0 to 5.

1 has throttling, 3 lets several members go, also by their instance ids, and answers for each, 4 is flexible,
5 says why.
"""

from typing import TYPE_CHECKING

from everlog.broker.coordinator_errors import coordinator_code
from everlog.broker.exchange import Exchange
from everlog.coordinator.group.classic_commands import LeaveGroup, Leaver, Left
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_MANY = 3


def handle(broker: "Broker", request: LeaveGroupRequest, exchange: Exchange) -> None:
    """Let members go, and answer for each of them."""

    def reply(left: Left) -> None:
        exchange.answer(_response(left, exchange.api_version))

    if not request.group_id:
        reply(Left(ErrorCode.INVALID_GROUP_ID))
        return
    try:
        shard = broker.coordinators.group_shard(request.group_id)
    except Refused as refusal:
        reply(Left(refusal.code))
        return
    shard.classic.leave(_command(request, exchange.api_version), broker.clock.now(), reply)


def _command(request: LeaveGroupRequest, version: int) -> LeaveGroup:
    if version < _FIRST_WITH_MANY:
        return LeaveGroup(request.group_id, (Leaver(request.member_id),))
    leavers = (Leaver(one.member_id, one.group_instance_id, one.reason) for one in request.members)
    return LeaveGroup(request.group_id, tuple(leavers))


def _response(left: Left, version: int) -> LeaveGroupResponse:
    error = coordinator_code(left.error)
    if version < _FIRST_WITH_MANY:
        # The one member's error stands for all.
        errors = (error, *(one.error for one in left.departures))
        return LeaveGroupResponse(error_code=next((one for one in errors if one), ErrorCode.NONE))
    return LeaveGroupResponse(
        error_code=error,
        members=[
            MemberResponse(
                member_id=one.leaver.member_id,
                group_instance_id=one.leaver.instance_id,
                error_code=one.error,
            )
            for one in left.departures
        ],
    )

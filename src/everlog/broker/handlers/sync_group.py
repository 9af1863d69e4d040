"""SyncGroup, versions 0 to 5.

1 has throttling, 3 static members, 4 is flexible, 5 names the protocol and its type both ways, which have to
be the group's. The answer comes when the leader has brought the assignment and the log keeps it.
"""

from typing import TYPE_CHECKING

from everlog.broker.coordinator_errors import coordinator_code
from everlog.broker.exchange import Exchange
from everlog.coordinator.group.classic_commands import Synced, SyncGroup
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_PROTOCOL = 5


def handle(broker: "Broker", request: SyncGroupRequest, exchange: Exchange) -> None:
    """Give a member its assignment."""

    def reply(synced: Synced) -> None:
        exchange.answer(
            SyncGroupResponse(
                error_code=coordinator_code(synced.error),
                protocol_type=synced.protocol_type,
                protocol_name=synced.protocol,
                assignment=synced.assignment,
            )
        )

    unnamed = request.protocol_type is None or request.protocol_name is None
    if exchange.api_version >= _FIRST_WITH_PROTOCOL and unnamed:
        reply(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    if not request.group_id:
        reply(Synced(ErrorCode.INVALID_GROUP_ID))
        return
    try:
        shard = broker.coordinators.group_shard(request.group_id)
    except Refused as refusal:
        reply(Synced(refusal.code))
        return
    command = SyncGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=tuple((one.member_id, one.assignment) for one in request.assignments),
    )
    shard.classic.sync(command, broker.clock.now(), reply)

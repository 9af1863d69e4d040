"""Heartbeat, versions 0 to 4.

1 has throttling, 3 static members, 4 is flexible. While the coordinator reads its log it cannot tell who is a
member: it lets the client go on, as Kafka does, and every session begins anew when the log is read.
"""

from typing import TYPE_CHECKING

from everlog.broker.coordinator_errors import coordinator_code
from everlog.broker.exchange import Exchange
from everlog.coordinator.group.classic_commands import Heard, Heartbeat
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: HeartbeatRequest, exchange: Exchange) -> None:
    """Note that a member is alive, and tell it whether it has to join again."""

    def reply(heard: Heard) -> None:
        loading = heard.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        error = ErrorCode.NONE if loading else coordinator_code(heard.error)
        exchange.answer(HeartbeatResponse(error_code=error))

    if not request.group_id:
        reply(Heard(ErrorCode.INVALID_GROUP_ID))
        return
    try:
        shard = broker.coordinators.group_shard(request.group_id)
    except Refused as refusal:
        reply(Heard(refusal.code))
        return
    command = Heartbeat(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    shard.classic.heartbeat(command, broker.clock.now(), reply)

"""ConsumerGroupHeartbeat, versions 0 and 1: all that a member of a consumer group asks (KIP-848).

In version 0 the broker can make the member's id, in 1 the member does, and may subscribe by a pattern.
"""

from typing import TYPE_CHECKING

from everlog.broker.coordinator_errors import coordinator_error
from everlog.broker.exchange import Exchange
from everlog.coordinator.group.consumer_commands import ConsumerHeartbeat, HeartbeatReply
from everlog.coordinator.group.consumer_member import Partitions, TopicIdPartition, by_topic
from everlog.coordinator.group.consumer_pace import heartbeat_interval_ms
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.settings import broker_table as keys
from everlog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_CONSUMER = "consumer"


def handle(broker: "Broker", request: ConsumerGroupHeartbeatRequest, exchange: Exchange) -> None:
    """Let a member join, go on or leave."""

    def done(reply: HeartbeatReply | Refused | StorageError) -> None:
        if isinstance(reply, HeartbeatReply):
            exchange.answer(_answer(reply, _interval_ms(broker, reply)))
        else:
            exchange.answer(_refusal(reply))

    try:
        if _CONSUMER not in broker.settings[keys.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, "this broker does not serve the consumer protocol")
        command = _command(request, exchange)
        command.check(broker.settings[keys.GROUP_CONSUMER_ASSIGNORS])
        shard = broker.coordinators.group_shard(request.group_id)
    except Refused as refused:
        done(refused)
        return
    shard.consumer.heartbeat(command, broker.clock.now(), done)


def _command(request: ConsumerGroupHeartbeatRequest, exchange: Exchange) -> ConsumerHeartbeat:
    topics = request.subscribed_topic_names
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        client_id=exchange.client_id or "",
        # As Java writes an address.
        client_host=f"/{exchange.peer_host}",
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if topics is None else frozenset(topics),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if request.topic_partitions is None else _partitions(request.topic_partitions),
        api_version=exchange.api_version,
        connection=exchange.connection,
    )


def _partitions(topics: list[TopicPartitions]) -> Partitions:
    return frozenset(
        TopicIdPartition(topic.topic_id, index) for topic in topics for index in topic.partitions
    )


def _interval_ms(broker: "Broker", reply: HeartbeatReply) -> int:
    members = sum(shard.consumer.member_count for _, shard in broker.coordinators.groups.serving())
    settings = broker.settings
    return heartbeat_interval_ms(
        members,
        settings[keys.GROUP_CONSUMER_HEARTBEAT_RATE_MAX],
        settings[keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS],
        waits=reply.waits,
    )


def _answer(reply: HeartbeatReply, interval_ms: int) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if reply.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic(reply.assignment).items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=reply.member_id,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment,
    )


def _refusal(refusal: Refused | StorageError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=coordinator_error(refusal), error_message=str(refusal), member_id=None
    )

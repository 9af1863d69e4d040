"""BrokerHeartbeat, versions 0 to 2. 1 names directories that failed, 2 those that are cordoned (KIP-1066).

Cordoned directories are not heeded: brokers of this version have none.
"""

from everlog.broker.desk.seat import Seat
from everlog.broker.exchange import Exchange
from everlog.controller.decisions import Refusal
from everlog.controller.heartbeats import Beat, BeatReply
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import BrokerId
from everlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


def handle(desk: Seat, request: BrokerHeartbeatRequest, exchange: Exchange) -> None:
    """Note that the broker lives, do what it wants as far as it may be, and tell it where it stands."""
    broker, epoch = BrokerId(request.broker_id), request.broker_epoch
    heartbeats = desk.heartbeats
    known = desk.image.brokers.get(broker)
    if known is not None and known.epoch == epoch and not known.fenced:
        # It is heard of now, however long what it asks for takes to be committed.
        heartbeats.touched(broker, epoch, desk.clock.now(), request.current_metadata_offset)
    desk.heard(broker, epoch, exchange)

    def done(reply: BeatReply | Refused | StorageError) -> None:
        if not isinstance(reply, BeatReply):
            exchange.answer(BrokerHeartbeatResponse(error_code=Refusal.of(reply).code))
            return
        if reply.is_fenced:
            heartbeats.forget(broker)
        else:
            heartbeats.touched(broker, epoch, desk.clock.now(), request.current_metadata_offset)
            if reply.left_at is not None:
                heartbeats.leaving(broker, reply.left_at)
        exchange.answer(
            BrokerHeartbeatResponse(
                is_caught_up=reply.is_caught_up,
                is_fenced=reply.is_fenced,
                should_shut_down=reply.should_shut_down,
            )
        )

    command = Beat(
        broker,
        epoch,
        request.current_metadata_offset,
        request.want_fence,
        request.want_shut_down,
        tuple(request.offline_log_dirs),
        heartbeats.left_at(broker),
        heartbeats.reached(broker),
    )
    desk.controller.submit(command, done)

"""BrokerRegistration, versions 0 to 4.

2 names log directories, 3 the epoch of the last clean stop, 4 lets features begin at level 0. A broker of a
version without one of them has no such directory, or did not stop cleanly.
"""

from everlog.broker.desk.seat import Seat
from everlog.broker.exchange import Exchange
from everlog.controller.brokers import RegisterBroker
from everlog.controller.decisions import Refusal
from everlog.metadata.image import Endpoint
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import BrokerId
from everlog.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


def handle(desk: Seat, request: BrokerRegistrationRequest, exchange: Exchange) -> None:
    """Register the broker and tell it its epoch."""
    broker = BrokerId(request.broker_id)

    def done(reply: int | Refused | StorageError) -> None:
        if not isinstance(reply, int):
            exchange.answer(BrokerRegistrationResponse(error_code=Refusal.of(reply).code))
            return
        known = desk.image.brokers.get(broker)
        if known is None or known.fenced:
            # It is not waited for before it serves, and an earlier life never again.
            desk.heartbeats.forget(broker)
        exchange.answer(BrokerRegistrationResponse(broker_epoch=reply))

    if request.cluster_id != desk.cluster_id:
        exchange.answer(BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    if request.is_migrating_zk_broker:
        exchange.answer(BrokerRegistrationResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED))
        return
    command = RegisterBroker(
        broker,
        request.incarnation_id,
        tuple(Endpoint(one.name, one.host, one.port, one.security_protocol) for one in request.listeners),
        tuple(request.log_dirs),
        request.rack,
        request.previous_broker_epoch,
        {one.name: (one.min_supported_version, one.max_supported_version) for one in request.features},
        desk.heartbeats.alive(broker, desk.clock.now()),
    )
    desk.controller.submit(command, done)

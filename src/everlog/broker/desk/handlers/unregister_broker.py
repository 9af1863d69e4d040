"""UnregisterBroker, version 0."""

from everlog.broker.desk.seat import Seat
from everlog.broker.exchange import Exchange
from everlog.controller.brokers import UnregisterBroker
from everlog.controller.decisions import Refusal
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import BrokerId
from everlog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def handle(desk: Seat, request: UnregisterBrokerRequest, exchange: Exchange) -> None:
    """Forget a broker that has stopped for good."""
    broker = BrokerId(request.broker_id)

    def done(reply: Refused | StorageError | None) -> None:
        if reply is None:
            desk.heartbeats.forget(broker)
            exchange.answer(UnregisterBrokerResponse(error_message=None))
            return
        refusal = Refusal.of(reply)
        exchange.answer(UnregisterBrokerResponse(error_code=refusal.code, error_message=refusal.message))

    desk.controller.submit(UnregisterBroker(broker), done)

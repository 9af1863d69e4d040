"""FindCoordinator, versions 0 to 6.

1 asks for groups or transactions and answers with messages, 3 is flexible, 4 asks for many keys at once, 5
may answer that a transaction is to be aborted, 6 knows share groups, which are not served. One broker
coordinates all groups and transactions.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.model.errors import ErrorCode
from everlog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_MANY = 4
_GROUP, _TRANSACTION = 0, 1


def handle(broker: "Broker", request: FindCoordinatorRequest, exchange: Exchange) -> None:
    """Tell which broker coordinates each key."""
    if exchange.api_version >= _FIRST_WITH_MANY:
        found = [_find(broker, key, request.key_type, exchange) for key in request.coordinator_keys]
        exchange.answer(FindCoordinatorResponse(coordinators=found))
        return
    one = _find(broker, request.key, request.key_type, exchange)
    exchange.answer(
        FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def _find(broker: "Broker", key: str, key_type: int, exchange: Exchange) -> Coordinator:
    if key_type not in (_GROUP, _TRANSACTION):
        return _nobody(key, ErrorCode.INVALID_REQUEST, f"the key type is {key_type}, expected 0 or 1")
    here = broker.image.brokers.get(broker.node_id)
    host, port = ("", -1) if here is None else broker.listener_endpoint(exchange.listener_name, here)
    if port < 0:
        return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is not registered yet")
    return Coordinator(key=key, node_id=broker.node_id, host=host, port=port, error_message=None)


def _nobody(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)

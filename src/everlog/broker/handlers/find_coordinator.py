"""FindCoordinator, versions 0 to 6.

1 asks for groups or transactions and answers with messages, 3 is flexible, 4 asks for many keys at once, 5
may answer that a transaction is to be aborted, 6 knows share groups, which are not served. The coordinator is
the broker that leads the key's partition of the internal topic; the topic is made when it is first asked for.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.coordinator.partitions import OFFSETS_TOPIC, TXN_TOPIC, partition_for
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId
from everlog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_MANY = 4
_TOPICS = {0: OFFSETS_TOPIC, 1: TXN_TOPIC}


def handle(broker: "Broker", request: FindCoordinatorRequest, exchange: Exchange) -> None:
    """Tell which broker coordinates each key, once the topic that says so is there."""
    many = exchange.api_version >= _FIRST_WITH_MANY
    names = request.coordinator_keys if many else [request.key]
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        message = f"the key type is {request.key_type}, expected 0 or 1"
        _answer(exchange, [_nobody(name, ErrorCode.INVALID_REQUEST, message) for name in names])
        return

    def there(refusal: Refused | None) -> None:
        if refusal is not None:
            _answer(exchange, [_nobody(name, refusal.code, str(refusal)) for name in names])
        else:
            _answer(exchange, [_find(broker, name, topic, exchange) for name in names])

    broker.coordinators.internal_topics.ensure(topic, there)


def _answer(exchange: Exchange, found: list[Coordinator]) -> None:
    if exchange.api_version >= _FIRST_WITH_MANY:
        exchange.answer(FindCoordinatorResponse(coordinators=found))
        return
    one = found[0]
    exchange.answer(
        FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def _find(broker: "Broker", name: str, topic: str, exchange: Exchange) -> Coordinator:
    partitions = broker.image.topics[topic].partitions
    index = partition_for(name, len(partitions))
    leader = broker.image.brokers.get(BrokerId(partitions[index].leader))
    if leader is None or leader.fenced:
        message = f"{topic}-{index} has no leader now"
        return _nobody(name, ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
    host, port = broker.listener_endpoint(exchange.listener_name, leader)
    if port < 0:
        message = f"broker {leader.id} has no listener {exchange.listener_name}"
        return _nobody(name, ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
    return Coordinator(key=name, node_id=leader.id, host=host, port=port, error_message=None)


def _nobody(name: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=name, node_id=-1, host="", port=-1, error_code=code, error_message=message)

"""Blocks of producer ids for a broker, from whichever controller is active."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from everlog.broker.neighbours import told_code
from everlog.controller.producer_ids import Allocate, ProducerIdBlock
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import ProducerId
from everlog.wire.message import Message
from everlog.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

TIMEOUT_MS = 5_000
"""Whoever waits for a block is told after that long, and the next asks again."""
_VERSION = 0

Given = Callable[[ProducerIdBlock | Refused | StorageError], None]


def producer_id_blocks(broker: "Broker") -> Allocate:
    """What a broker's pool of ids asks for its blocks."""

    def allocate(given: Given) -> None:
        known = broker.image.brokers.get(broker.node_id)
        epoch = -1 if known is None else known.epoch

        def answered(answer: Message | Refused) -> None:
            given(_block(answer))
            broker.settle()  # A transaction that waited for its id has written something.

        request = AllocateProducerIdsRequest(broker_id=broker.node_id, broker_epoch=epoch)
        broker.channel.ask(request, _VERSION, answered, TIMEOUT_MS)

    return allocate


def _block(answer: Message | Refused) -> ProducerIdBlock | Refused:
    if isinstance(answer, Refused):
        return answer
    assert isinstance(answer, AllocateProducerIdsResponse), answer
    code = told_code(answer.error_code)
    if code is not ErrorCode.NONE:
        return Refused(code, f"the controller gives no producer ids: {code.name}")
    if answer.producer_id_len < 1:
        return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller gave a block without producer ids")
    return ProducerIdBlock(ProducerId(answer.producer_id_start), answer.producer_id_len)

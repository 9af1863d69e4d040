"""InitProducerId, versions 0 to 5.

2 is flexible, 3 names the id and epoch that the producer has, 4 may answer that it is fenced, 5 that its
transaction is to be aborted. A producer without a transactional id gets a fresh id, epoch 0, whatever it had.
There are no transactions yet: with a transactional id the answer is UNSUPPORTED_VERSION, which every client
takes as final, where a coordinator's error would make it try until it times out.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.controller.decisions import Refusal
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import ProducerId
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: InitProducerIdRequest, exchange: Exchange) -> None:
    """Give an idempotent producer an id that no other has had."""
    refusal = _refusal(request)
    if refusal is not None:
        exchange.answer(InitProducerIdResponse(error_code=refusal, producer_id=-1, producer_epoch=-1))
        return

    def done(taken: ProducerId | Refused | StorageError) -> None:
        if isinstance(taken, Refused | StorageError):
            # The broker may be registering, or the disk full: both pass, and clients know how to wait for it.
            code = Refusal.of(taken).code
            wait = code if code.retriable else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            exchange.answer(InitProducerIdResponse(error_code=wait, producer_id=-1, producer_epoch=-1))
            return
        exchange.answer(InitProducerIdResponse(producer_id=taken, producer_epoch=0))

    broker.producer_ids.take(done)


def _refusal(request: InitProducerIdRequest) -> ErrorCode | None:
    if request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is not None:
        return ErrorCode.UNSUPPORTED_VERSION
    return None

"""EndTxn, versions 0 to 5.

2 may answer that the producer is fenced, 3 is flexible, 4 may answer that the transaction is to be aborted, 5
answers the epoch, or id, that the producer goes on with: each transaction has its own (KIP-890). The answer
leaves when the decision is in the log; the markers follow it.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.broker.txn_codes import answer_code
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.ending import EPOCH_BUMP_VERSION, EndTransaction
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_FENCED = 2
_FIRST_WITH_EPOCH = 5


def handle(broker: "Broker", request: EndTxnRequest, exchange: Exchange) -> None:
    """Commit or abort a transaction."""
    bumps = exchange.api_version >= _FIRST_WITH_EPOCH

    def done(reply: ProducerStamp | Refused | StorageError) -> None:
        if isinstance(reply, Refused | StorageError):
            code = answer_code(reply, knows_fenced=exchange.api_version >= _FIRST_WITH_FENCED)
            exchange.answer(EndTxnResponse(error_code=code))
        elif bumps:
            exchange.answer(EndTxnResponse(producer_id=reply.producer_id, producer_epoch=reply.epoch))
        else:
            exchange.answer(EndTxnResponse())

    try:
        if not request.transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        shard = broker.coordinators.txn_shard(request.transactional_id)
    except Refused as refusal:
        done(refusal)
        return
    producer = ProducerStamp(request.producer_id, request.producer_epoch)
    version = EPOCH_BUMP_VERSION if bumps else 0
    shard.end(EndTransaction(request.transactional_id, producer, request.committed, version), done)

"""InitProducerId, versions 0 to 6.

2 is flexible, 3 names the id and epoch that the producer has (KIP-360), 4 may answer that it is fenced, 5
that its transaction is to be aborted, 6 is for two-phase commit (KIP-939) and advertised where
`transaction.two.phase.commit.enable` is set. A producer without a transactional id gets a fresh id, epoch 0,
whatever it had.
"""

from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.broker.txn_codes import answer_code
from everlog.controller.decisions import Refusal
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.initiation import Initiated, InitProducerId
from everlog.coordinator.txn.transaction import NO_TIMEOUT_MS
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import ProducerId
from everlog.model.settings import broker_table as keys
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_FENCED = 4


def handle(broker: "Broker", request: InitProducerIdRequest, exchange: Exchange) -> None:
    """Give a producer its id and epoch."""
    refusal = _refusal(broker, request)
    if refusal is not None:
        _refuse(exchange, refusal)
    elif request.transactional_id is None:
        _give_fresh(broker, exchange)
    else:
        _give_transactional(broker, request, request.transactional_id, exchange)


def _give_fresh(broker: "Broker", exchange: Exchange) -> None:
    def done(taken: ProducerId | Refused | StorageError) -> None:
        if isinstance(taken, Refused | StorageError):
            # The broker may be registering, or the disk full: both pass, and clients know how to wait for it.
            code = Refusal.of(taken).code
            _refuse(exchange, code if code.retriable else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        exchange.answer(InitProducerIdResponse(producer_id=taken, producer_epoch=0))

    broker.producer_ids.take(done)


def _give_transactional(
    broker: "Broker", request: InitProducerIdRequest, transactional_id: str, exchange: Exchange
) -> None:
    def done(reply: Initiated | Refused | StorageError) -> None:
        if isinstance(reply, Refused | StorageError):
            knows_fenced = exchange.api_version >= _FIRST_WITH_FENCED
            _refuse(exchange, answer_code(reply, knows_fenced=knows_fenced))
            return
        kept = reply.kept or ProducerStamp(-1, -1)
        exchange.answer(
            InitProducerIdResponse(
                producer_id=reply.producer.producer_id,
                producer_epoch=reply.producer.epoch,
                ongoing_txn_producer_id=kept.producer_id,
                ongoing_txn_producer_epoch=kept.epoch,
            )
        )

    try:
        shard = broker.coordinators.txn_shard(transactional_id)
    except Refused as refusal:
        done(refusal)
        return
    has_producer = request.producer_id != -1
    command = InitProducerId(
        transactional_id,
        NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms,
        ProducerStamp(request.producer_id, request.producer_epoch) if has_producer else None,
        request.keep_prepared_txn,
    )
    shard.init_producer_id(command, done)


def _refusal(broker: "Broker", request: InitProducerIdRequest) -> ErrorCode | None:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return None
    if request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.enable2_pc or request.keep_prepared_txn:
        if not broker.settings[keys.TRANSACTION_TWO_PHASE_COMMIT_ENABLE]:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if request.enable2_pc:
            return None
    if not 0 < request.transaction_timeout_ms <= broker.settings[keys.TRANSACTION_MAX_TIMEOUT_MS]:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return None


def _refuse(exchange: Exchange, code: ErrorCode) -> None:
    exchange.answer(InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1))

"""DescribeTransactions, version 0: what a transaction is doing, and in which partitions."""

from itertools import groupby
from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.coordinator.txn.transaction import Transaction
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


def handle(broker: "Broker", request: DescribeTransactionsRequest, exchange: Exchange) -> None:
    """Describe each transactional id once, or say why that cannot be."""
    exchange.answer(
        DescribeTransactionsResponse(
            transaction_states=[_described(broker, one) for one in dict.fromkeys(request.transactional_ids)]
        )
    )


def _described(broker: "Broker", transactional_id: str) -> TransactionState:
    try:
        return _state(_find(broker, transactional_id))
    except Refused as refusal:
        return TransactionState(transactional_id=transactional_id, error_code=refusal.code)


def _find(broker: "Broker", transactional_id: str) -> Transaction:
    if not transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    txn = broker.coordinators.txn_shard(transactional_id).get(transactional_id)
    if txn is None:
        raise Refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"nobody has the id {transactional_id!r}")
    return txn


def _state(txn: Transaction) -> TransactionState:
    return TransactionState(
        transactional_id=txn.transactional_id,
        transaction_state=txn.state.text,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_start_time_ms=txn.started_at,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=[one.partition for one in group])
            for topic, group in groupby(sorted(txn.partitions), key=lambda one: one.topic)
        ],
    )

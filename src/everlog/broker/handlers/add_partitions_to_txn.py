"""AddPartitionsToTxn, versions 0 to 5.

2 may answer that the producer is fenced, 3 is flexible, 4 is for brokers: many transactions at once, to be
added to or only looked at. 5 may answer that a transaction is to be aborted.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.broker.txn_codes import answer_code
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.joining import AddPartitions
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.topics import TopicPartition
from everlog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_FENCED = 2
_FIRST_WITH_MANY = 4
_EPOCH_BUMP_VERSION = 2

_Results = dict[TopicPartition, ErrorCode]


def handle(broker: "Broker", request: AddPartitionsToTxnRequest, exchange: Exchange) -> None:
    """Add the partitions to each transaction, and answer when that is written down for all."""
    has_many = exchange.api_version >= _FIRST_WITH_MANY
    transactions = request.transactions if has_many else [_only(request)]
    answers = [AddPartitionsToTxnResult(transactional_id=one.transactional_id) for one in transactions]
    missing = len(transactions)

    def done(at: int, results: _Results) -> None:
        nonlocal missing
        answers[at].topic_results = _topic_results(transactions[at].topics, results)
        missing -= 1
        if missing == 0:
            exchange.answer(_answer(answers, has_many))

    if not transactions:
        exchange.answer(AddPartitionsToTxnResponse())
    for at, transaction in enumerate(transactions):
        _add(broker, transaction, exchange.api_version, partial(done, at))


def _only(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        verify_only=False,
        topics=request.v3_and_below_topics,
    )


def _answer(answers: list[AddPartitionsToTxnResult], has_many: bool) -> AddPartitionsToTxnResponse:
    if has_many:
        return AddPartitionsToTxnResponse(results_by_transaction=answers)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=answers[0].topic_results)


def _add(
    broker: "Broker",
    transaction: AddPartitionsToTxnTransaction,
    version: int,
    done: Callable[[_Results], None],
) -> None:
    wanted = frozenset(
        TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions
    )
    unknown = {one for one in wanted if not _exists(broker, one)}
    if unknown:
        # All or nothing: a client must not take half of its partitions for added.
        results = dict.fromkeys(wanted, ErrorCode.OPERATION_NOT_ATTEMPTED)
        done(results | dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return

    def ended(reply: Refused | StorageError | None) -> None:
        code = ErrorCode.NONE
        if reply is not None:
            code = answer_code(reply, knows_fenced=version >= _FIRST_WITH_FENCED)
        done(dict.fromkeys(wanted, code))

    producer = ProducerStamp(transaction.producer_id, transaction.producer_epoch)
    try:
        if not transaction.transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        shard = broker.coordinators.txn_shard(transaction.transactional_id)
        if transaction.verify_only:
            done(shard.verify(transaction.transactional_id, producer, wanted))
            return
    except Refused as refusal:
        ended(refusal)
        return
    client_version = _EPOCH_BUMP_VERSION if version >= _FIRST_WITH_MANY else 0
    shard.add_partitions(AddPartitions(transaction.transactional_id, producer, wanted, client_version), ended)


def _exists(broker: "Broker", partition: TopicPartition) -> bool:
    topic = broker.image.topics.get(partition.topic)
    return topic is not None and 0 <= partition.partition < len(topic.partitions)


def _topic_results(
    topics: list[AddPartitionsToTxnTopic], results: _Results
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=results[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]

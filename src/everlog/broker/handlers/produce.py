"""Produce, versions 3 to 13.

3 brings transactions, 5 answers the log start offset, 7 allows zstd, 8 answers which records were refused,
9 is flexible, 10 hints at the leader, 12 lets a produce begin a transaction, 13 names topics by id.

The batch is checked, stamped and appended as it came; it is never taken apart into records here.
"""

from functools import partial
from typing import TYPE_CHECKING

from everlog.broker import txn_verification
from everlog.broker.exchange import Exchange
from everlog.broker.replicas import Replica
from everlog.log.partition import Appended, Origin, PartitionLog
from everlog.log.validate import RecordsRefused
from everlog.model.errors import CorruptDataError, ErrorCode, Refused, StorageError
from everlog.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    TRANSACTIONAL,
    BatchView,
    batch_at,
)
from everlog.wire.hot.produce import ProduceData, ProduceResult, write_produce_answer

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_ZSTD = 7
_ZSTD = 4
_CLIENT = Origin.CLIENT

_Results = list[tuple[str | bytes, list[ProduceResult]]]


def handle(broker: "Broker", request: ProduceData, exchange: Exchange, *, is_verified: bool = False) -> None:
    """Append what can be appended, and answer once it is as durable as the client asked for."""
    if (
        request.transactional_id is not None
        and not is_verified
        and txn_verification.hold(broker, request, exchange, partial(handle, is_verified=True))
    ):
        return
    acks = request.acks
    if acks not in (0, 1, -1):
        results: _Results = [
            (topic, [_refusal(index, ErrorCode.INVALID_REQUIRED_ACKS) for index, _ in partitions])
            for topic, partitions in request.topics
        ]
        _answer(exchange, acks, results)
        return
    pending: list[tuple[PartitionLog, Appended, list[ProduceResult], int]] = []
    results = []
    wall = broker.clock.wall()
    for topic, partitions in request.topics:
        topic_results: list[ProduceResult] = []
        results.append((topic, topic_results))
        held = (
            broker.replicas.by_name.get(topic) if isinstance(topic, str) else broker.replicas.by_id.get(topic)
        )
        for index, records in partitions:
            replica = None if held is None else held.get(index)
            if replica is None:
                topic_results.append(_refusal(index, _unknown(topic, held is not None)))
                continue
            try:
                batch = _only_batch(records, exchange.api_version)
                if batch.attributes & TRANSACTIONAL and request.transactional_id is None:
                    raise _no_transactional_id()
                if replica.internal:
                    raise _internal(replica)
                if acks == -1 and replica.min_insync > 1:
                    raise _too_few_replicas(replica)
                log = replica.log or replica.opened()
                if broker.housekeeping.without_room and replica.directory in broker.housekeeping.without_room:
                    raise StorageError(f"{replica.directory} has no room for more records")
                appended = log.append(batch, replica.leader_epoch, wall, _CLIENT)
            except (Refused, CorruptDataError, StorageError) as error:
                topic_results.append(_refused(index, replica, error))
                continue
            if replica.watchers and not appended.duplicate:
                broker.parked.appended(replica, batch.size)
            if appended.wait_for_sync and acks != 0:
                pending.append((log, appended, topic_results, len(topic_results)))
            topic_results.append(
                ProduceResult(index, 0, appended.base_offset, appended.append_time, log.start_offset)
            )
    if pending:
        _answer_after_sync(broker, exchange, acks, results, pending)
    else:
        _answer(exchange, acks, results)


def _answer(exchange: Exchange, acks: int, results: _Results) -> None:
    if acks == 0:
        # There is no answer to say it with, so a client that got something wrong is told by the
        # end of its connection.
        failed = any(result.error_code for _, topic_results in results for result in topic_results)
        exchange.answer_nothing(close=failed)
        return
    exchange.answer_parts((write_produce_answer(exchange.api_version, exchange.correlation_id, results),))


def _answer_after_sync(
    broker: "Broker",
    exchange: Exchange,
    acks: int,
    results: _Results,
    pending: list[tuple[PartitionLog, Appended, list[ProduceResult], int]],
) -> None:
    missing = len(pending)

    def ended(topic_results: list[ProduceResult], at: int, durable: bool) -> None:
        nonlocal missing
        if not durable:
            topic_results[at] = _refusal(topic_results[at].partition, ErrorCode.KAFKA_STORAGE_ERROR)
        missing -= 1
        if missing == 0:
            _answer(exchange, acks, results)

    for log, appended, topic_results, at in pending:
        waiter = partial(ended, topic_results, at)
        broker.group_commit.wait(log, appended.last_offset + 1, log.sync_due_at, waiter)


def _only_batch(records: memoryview | None, version: int) -> BatchView:
    """Return the one batch that a partition's records have to be."""
    if records is None or len(records) < HEADER_BYTES:
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"expected one record batch of at least {HEADER_BYTES} bytes, found "
            f"{0 if records is None else len(records)} bytes",
        )
    batch = BatchView(records)
    if batch.length + LENGTH_OVERHEAD != len(records):
        batch = batch_at(records)  # Says what is wrong with a length that no batch can have.
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"expected exactly one record batch, found {len(records) - batch.size} bytes behind the first",
        )
    if batch.attributes & CODEC_MASK == _ZSTD and version < _FIRST_WITH_ZSTD:
        raise Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce version {_FIRST_WITH_ZSTD} or newer, the request has {version}",
        )
    return batch


def _unknown(topic: str | bytes, topic_is_known: bool) -> ErrorCode:
    if isinstance(topic, str) or topic_is_known:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.UNKNOWN_TOPIC_ID


def _no_transactional_id() -> Refused:
    return Refused(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "the record batch is transactional and the request has no transactional id",
    )


def _internal(replica: Replica) -> Refused:
    return Refused(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"{replica.name.topic} is a coordinator's own, and clients may not write to it",
    )


def _too_few_replicas(replica: Replica) -> Refused:
    return Refused(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        f"{replica.name} has 1 replica in sync, min.insync.replicas is {replica.min_insync}",
    )


def _refusal(index: int, code: ErrorCode, message: str | None = None) -> ProduceResult:
    return ProduceResult(index, code, error_message=message)


def _refused(index: int, replica: Replica, error: Refused | CorruptDataError | StorageError) -> ProduceResult:
    start_offset = -1 if replica.log is None else replica.log.start_offset
    if isinstance(error, RecordsRefused):
        return ProduceResult(
            index,
            error.code,
            start_offset=start_offset,
            record_errors=tuple(error.record_errors),
            error_message=str(error),
        )
    if isinstance(error, Refused):
        code = error.code
    elif isinstance(error, StorageError):
        code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        code = ErrorCode.CORRUPT_MESSAGE
    return ProduceResult(index, code, start_offset=start_offset, error_message=str(error))

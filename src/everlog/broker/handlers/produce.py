"""Produce, versions 3 to 13.

3 brings transactions, 5 answers the log start offset, 7 allows zstd, 8 answers which records were refused,
9 is flexible, 10 hints at the leader, 12 lets a produce begin a transaction, 13 names topics by id.

The batch is checked, stamped and appended as it came; it is never taken apart into records here.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from everlog.broker.exchange import Exchange
from everlog.broker.leader_hints import elsewhere, endpoints
from everlog.broker.leadership import not_leader
from everlog.broker.replicas import Replica
from everlog.log.partition import Appended, Origin, PartitionLog
from everlog.log.validate import RecordsRefused
from everlog.model.errors import CorruptDataError, ErrorCode, Refused, StorageError
from everlog.model.ids import Instant, Offset
from everlog.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    TRANSACTIONAL,
    BatchView,
    batch_at,
)
from everlog.wire.hot.produce import LeaderHint, ProduceData, ProduceResult, write_produce_answer
from everlog.wire.hot.writing import NodeEndpoint

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_FIRST_WITH_ZSTD = 7
_ZSTD = 4
_CLIENT = Origin.CLIENT

_Results = list[tuple[str | bytes, list[ProduceResult]]]
_Place = tuple[list[ProduceResult], int]
"""Where the result of one partition stands in the answer."""


def handle(broker: "Broker", request: ProduceData, exchange: Exchange, *, is_verified: bool = False) -> None:
    """Append what can be appended, and answer once it is as durable as the client asked for."""
    if request.transactional_id is not None and not is_verified:
        # A broker is to serve a moment after its start, and its first records are rarely of a transaction.
        from everlog.broker.txn_verification import hold

        if hold(broker, request, exchange, partial(handle, is_verified=True)):
            return
    acks = request.acks
    if acks not in (0, 1, -1):
        results: _Results = [
            (topic, [_refusal(index, ErrorCode.INVALID_REQUIRED_ACKS) for index, _ in partitions])
            for topic, partitions in request.topics
        ]
        _answer(broker, exchange, acks, results)
        return
    syncing: list[tuple[PartitionLog, Appended, _Place]] = []
    committing: list[tuple[Replica, Offset, _Place]] = []
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
                topic_results.append(_elsewhere(broker, topic, index))
                continue
            try:
                if not replica.leads:
                    raise not_leader(replica)
                batch = _only_batch(records, exchange.api_version)
                if batch.attributes & TRANSACTIONAL and request.transactional_id is None:
                    raise _no_transactional_id()
                if replica.internal:
                    raise _internal(replica)
                log = replica.log or replica.opened()
                leading = replica.leading
                if acks == -1 and replica.min_insync > 1:
                    check_enough_in_sync(replica)
                if broker.housekeeping.without_room and replica.directory in broker.housekeeping.without_room:
                    raise StorageError(f"{replica.directory} has no room for more records")
                appended = log.append(batch, replica.leader_epoch, wall, _CLIENT)
            except (Refused, CorruptDataError, StorageError) as error:
                topic_results.append(_refused(index, replica, error))
                continue
            if leading is not None:
                if not appended.duplicate:
                    broker.replication.appended(replica, batch.size, appended.wait_for_sync)
                if acks == -1:
                    end = Offset(appended.last_offset + 1)
                    committing.append((replica, end, (topic_results, len(topic_results))))
            elif replica.watchers and not appended.duplicate:
                broker.parked.appended(replica, batch.size)
            if appended.wait_for_sync and (acks == 1 or (acks and leading is None)):
                syncing.append((log, appended, (topic_results, len(topic_results))))
            topic_results.append(
                ProduceResult(index, 0, appended.base_offset, appended.append_time, log.start_offset)
            )
    if syncing or committing:
        _answer_later(broker, exchange, request, results, syncing, committing)
    else:
        _answer(broker, exchange, acks, results)


def _answer(broker: "Broker", exchange: Exchange, acks: int, results: _Results) -> None:
    if acks == 0:
        # There is no answer to say it with, so a client that got something wrong is told by the
        # end of its connection.
        failed = any(result.error_code for _, topic_results in results for result in topic_results)
        exchange.answer_nothing(close=failed)
        return
    known: Sequence[NodeEndpoint] = ()
    if len(results) != 1 or len(results[0][1]) != 1 or results[0][1][0].leader is not None:
        leaders = [result.leader[0] for _, found in results for result in found if result.leader is not None]
        known = endpoints(broker, exchange.listener_name, leaders) if leaders else ()
    exchange.answer_parts(
        (write_produce_answer(exchange.api_version, exchange.correlation_id, results, known),)
    )


def _answer_later(
    broker: "Broker",
    exchange: Exchange,
    request: ProduceData,
    results: _Results,
    syncing: list[tuple[PartitionLog, Appended, _Place]],
    committing: list[tuple[Replica, Offset, _Place]],
) -> None:
    missing = len(syncing) + len(committing)

    def ended(place: _Place, code: ErrorCode) -> None:
        nonlocal missing
        topic_results, at = place
        if code:
            topic_results[at] = _refusal(topic_results[at].partition, code)
        missing -= 1
        if missing == 0:
            _answer(broker, exchange, request.acks, results)

    def synced(place: _Place, durable: bool) -> None:
        ended(place, ErrorCode.NONE if durable else ErrorCode.KAFKA_STORAGE_ERROR)

    for log, appended, place in syncing:
        broker.group_commit.wait(log, appended.last_offset + 1, log.sync_due_at, partial(synced, place))
    if committing:
        deadline = Instant(broker.clock.now() + max(request.timeout_ms, 0))
        for replica, end, place in committing:
            broker.replication.when_committed(
                replica, end, partial(ended, place), deadline=deadline, while_enough=True
            )


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


def _elsewhere(broker: "Broker", topic: str | bytes, index: int) -> ProduceResult:
    code, leader = elsewhere(broker, topic, index)
    return ProduceResult(index, code, leader=None if leader is None else LeaderHint(*leader))


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


def check_enough_in_sync(replica: Replica) -> None:
    """Refuse a write that waits for all replicas in sync where too few are, before anything is appended."""
    in_sync = 1 if replica.leading is None else len(replica.leading.isr)
    if in_sync < replica.min_insync:
        raise Refused(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{replica.name} has {in_sync} replica{'s' * (in_sync != 1)} in sync, "
            f"min.insync.replicas is {replica.min_insync}",
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
    hint = None
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        hint = LeaderHint(replica.leader, replica.leader_epoch)
    return ProduceResult(index, code, start_offset=start_offset, error_message=str(error), leader=hint)

"""Whether a write belongs to an ongoing transaction: asked of the coordinator before the append (KIP-890).

The coordinator is this broker or another one; both answer the same. Clients of transaction version 1 add a
partition before they write to it, so it is only asked whether they did. From version 2 on (Produce 12,
TxnOffsetCommit 5) the write itself adds the partition. A partition in which the transaction is open already
asks nobody.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from everlog.broker.exchange import Exchange
from everlog.broker.txn_questions import Answer, Wanted, coordinator_elsewhere
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.txn.joining import AddPartitions
from everlog.log.verification import Verification
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.settings import broker_table as keys
from everlog.model.topics import TopicPartition
from everlog.records.batch import HEADER_BYTES, BatchView
from everlog.wire.hot.produce import ProduceData

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_PRODUCE_FIRST_ABORTABLE = 11
_PRODUCE_FIRST_ADDING = 12
_OFFSETS_FIRST_ABORTABLE = 4
_OFFSETS_FIRST_ADDING = 5
_EPOCH_BUMP_VERSION = 2

_PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        # We lead the partition: a coordinator that does not know of it has yet to hear of it.
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)


class _Question(NamedTuple):
    partition: TopicPartition
    asked: Verification
    producer: ProducerStamp


def hold(
    broker: "Broker",
    request: ProduceData,
    exchange: Exchange,
    handle: Callable[["Broker", ProduceData, Exchange], None],
) -> bool:
    """Ask the coordinator about the partitions of a transactional produce; returns whether it has to wait.

    One that waits is handed to `handle` again when the answer is there. What the answer says is in the
    partitions' producers then, where the append finds it.
    """
    adds = exchange.api_version >= _PRODUCE_FIRST_ADDING
    questions = _questions(broker, request, epoch_bump=adds)
    if not questions:
        return False
    transactional_id = request.transactional_id
    assert transactional_id is not None
    producer = questions[0].producer
    if any(question.producer != producer for question in questions):
        several = Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the batches have several producers")
        _answer(questions, several)
        return False
    wanted = Wanted(transactional_id, producer, frozenset(question.partition for question in questions))
    held: ProduceData | None = None
    answered = False

    def done(results: Answer) -> None:
        nonlocal answered
        answered = True
        _answer(questions, results)
        if held is not None:
            handle(broker, held, exchange)

    _ask(broker, wanted, done, adds=adds, abortable=exchange.api_version >= _PRODUCE_FIRST_ABORTABLE)
    if answered:
        return False
    # The records are views of a frame whose place other requests take.
    held = request._replace(topics=[(topic, _copied(partitions)) for topic, partitions in request.topics])
    return True


def verify_offsets(
    broker: "Broker",
    transactional_id: str,
    producer: ProducerStamp,
    partition: TopicPartition,
    api_version: int,
    done: Callable[[Refused | None], None],
) -> None:
    """Ask whether a transaction may commit offsets to a partition of `__consumer_offsets`; None is yes.

    The append must follow in `done` itself, so that no marker can come between the two.
    """
    wanted = Wanted(transactional_id, producer, frozenset({partition}))
    markers = broker.coordinators.markers
    watch = markers.watch(partition, producer, epoch_bump=api_version >= _OFFSETS_FIRST_ADDING)

    def answered(results: Answer) -> None:
        markers.unwatch(watch)
        refusal = _refusal(results, partition)
        if refusal is None and watch.has_ended:
            # The coordinator has ended the transaction since it said yes, and its marker overtook the answer.
            refusal = Refused(
                ErrorCode.INVALID_TXN_STATE, f"the transaction of {transactional_id!r} is over in {partition}"
            )
        done(refusal)

    _ask(
        broker,
        wanted,
        answered,
        adds=api_version >= _OFFSETS_FIRST_ADDING,
        abortable=api_version >= _OFFSETS_FIRST_ABORTABLE,
    )


def _ask(
    broker: "Broker",
    wanted: Wanted,
    done: Callable[[Answer], None],
    *,
    adds: bool,
    abortable: bool,
) -> None:
    """Add the partitions to the transaction, or ask whether they were; the errors are the producer's."""
    if not adds and not broker.settings[keys.TRANSACTION_PARTITION_VERIFICATION_ENABLE]:
        done(dict.fromkeys(wanted.partitions, ErrorCode.NONE))
        return
    try:
        if not wanted.transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        coordinator = coordinator_elsewhere(broker, wanted.transactional_id)
        if coordinator is not None:
            _ask_elsewhere(broker, coordinator, wanted, done, adds=adds, abortable=abortable)
            return
        shard = broker.coordinators.txn_shard(wanted.transactional_id)
        if not adds:
            done(
                {
                    partition: _for_producer(code, abortable)
                    for partition, code in shard.verify(*wanted).items()
                }
            )
            return
    except Refused as refusal:
        done(_translated(refusal, adds))
        return

    def added(reply: Refused | StorageError | None) -> None:
        if reply is None:
            done(dict.fromkeys(wanted.partitions, ErrorCode.NONE))
        else:
            done(_translated(reply, adds))

    shard.add_partitions(
        AddPartitions(wanted.transactional_id, wanted.producer, wanted.partitions, _EPOCH_BUMP_VERSION),
        added,
        broker.settings[keys.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS],
    )


def _ask_elsewhere(
    broker: "Broker",
    coordinator: int,
    wanted: Wanted,
    done: Callable[[Answer], None],
    *,
    adds: bool,
    abortable: bool,
) -> None:
    def answered(results: Answer) -> None:
        if isinstance(results, Refused):
            done(_translated(results, adds))
        else:
            done({one: _told(code, adds, abortable) for one, code in results.items()})

    questions = broker.coordinators.questions
    if adds:
        questions.add(coordinator, wanted, answered)
    else:
        questions.verify(coordinator, wanted, answered)


def _told(code: ErrorCode, adds: bool, abortable: bool) -> ErrorCode:
    """What a coordinator elsewhere says of a partition, as the one here would have put it."""
    if code is ErrorCode.NONE or code is ErrorCode.TRANSACTION_ABORTABLE:
        return _for_producer(code, abortable)
    return _translated(Refused(code, ""), adds).code


def _questions(broker: "Broker", request: ProduceData, *, epoch_bump: bool) -> list[_Question]:
    """The partitions that a coordinator has to be asked about; what cannot be read is left to the append."""
    found: list[_Question] = []
    wall = broker.clock.wall()
    for topic, partitions in request.topics:
        for index, records in partitions:
            replica = broker.replicas.get(topic, index)
            if replica is None or records is None or len(records) < HEADER_BYTES:
                continue
            if not replica.leads:
                continue
            batch = BatchView(records)
            if not batch.is_transactional or batch.producer_id < 0:
                continue
            try:
                producers = replica.opened().producers
            except StorageError:
                continue
            asked = producers.begin_verification(batch, epoch_bump=epoch_bump, heard_at=wall)
            if asked is not None:
                producer = ProducerStamp(batch.producer_id, batch.producer_epoch)
                found.append(_Question(replica.name, asked, producer))
    return found


def _answer(questions: list[_Question], results: Answer) -> None:
    for question in questions:
        refusal = _refusal(results, question.partition)
        question.asked.answered(refusal)


def _refusal(results: Answer, partition: TopicPartition) -> Refused | None:
    if isinstance(results, Refused):
        return results
    code = results[partition]
    if code is ErrorCode.NONE:
        return None
    return Refused(code, f"{partition} was not added to the transaction")


def _for_producer(code: ErrorCode, abortable: bool) -> ErrorCode:
    """Clients before TRANSACTION_ABORTABLE know INVALID_TXN_STATE."""
    if code is ErrorCode.TRANSACTION_ABORTABLE and not abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _translated(refusal: Refused | StorageError, adds: bool) -> Refused:
    """The coordinator's refusal in the words that a producer acts on."""
    code = refusal.code if isinstance(refusal, Refused) else ErrorCode.KAFKA_STORAGE_ERROR
    if code is ErrorCode.PRODUCER_FENCED:
        # On this path producers abort and go on after this code, and give up after the other.
        return Refused(ErrorCode.INVALID_PRODUCER_EPOCH, str(refusal))
    if code in _PASSING or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        # Producers try again after NOT_ENOUGH_REPLICAS without asking for metadata first.
        return Refused(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction cannot be verified yet: {refusal}")
    return Refused(code, str(refusal))


def _copied(partitions: list[tuple[int, memoryview | None]]) -> list[tuple[int, memoryview | None]]:
    return [
        (index, None if records is None else memoryview(bytearray(records))) for index, records in partitions
    ]

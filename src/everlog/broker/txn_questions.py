"""Questions to the coordinators of transactions on other brokers: AddPartitionsToTxn, to add or to verify.

A client that pipelines its first write right behind its EndTxn gets there before the markers are written. The
coordinator says so at once, since others wait for its answers behind this one, and is asked again a moment
later: that is cheaper than letting the client send all its records again.
"""

from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from everlog.broker.neighbours import REQUEST_TIMEOUT_MS, neighbour, partition_image, told_code
from everlog.coordinator.machine import ProducerStamp
from everlog.coordinator.partitions import TXN_TOPIC
from everlog.metadata.image import NO_LEADER
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Instant
from everlog.model.settings import broker_table as keys
from everlog.model.topics import TopicPartition
from everlog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

LANE = "txns"
_VERSION = 5

RETRY_MS = 20
"""How long until a coordinator that is busy with the transaction is asked again."""

Answer = dict[TopicPartition, ErrorCode] | Refused
Done = Callable[[Answer], None]


class Wanted(NamedTuple):
    """Partitions that a producer writes to in its transaction."""

    transactional_id: str
    producer: ProducerStamp
    partitions: frozenset[TopicPartition]


def coordinator_elsewhere(broker: "Broker", transactional_id: str) -> int | None:
    """The other broker that coordinates an id; None if it is this one, or nobody knows yet.

    COORDINATOR_NOT_AVAILABLE while its partition has no leader.
    """
    index = broker.coordinators.txns.index_of(transactional_id)
    if index is None:
        return None
    known = partition_image(broker, TopicPartition(TXN_TOPIC, index))
    if known is None or known.leader == broker.node_id:
        return None
    if known.leader == NO_LEADER:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{TXN_TOPIC}-{index} has no leader now")
    return known.leader


class TxnQuestions:
    """What this broker asks other brokers about the transactions that write to it."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._again: list[tuple[Instant, Callable[[], None]]] = []
        """What is asked once more, and when; all wait equally long, so the first is due first."""

    def verify(self, coordinator: int, wanted: Wanted, done: Done) -> None:
        """Ask whether the partitions were added to their transaction; the codes are as told."""
        self._ask(coordinator, wanted, done, adds=False)

    def add(self, coordinator: int, wanted: Wanted, done: Done) -> None:
        """Have the partitions added; while the transaction before is being ended, ask again for a while."""
        settings, clock = self._broker.settings, self._broker.clock
        until = Instant(clock.now() + settings[keys.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS])

        def once() -> None:
            self._ask(coordinator, wanted, answered, adds=True)

        def answered(answer: Answer) -> None:
            at = Instant(clock.now() + RETRY_MS)
            if _is_busy(answer) and at < until:
                self._again.append((at, once))
                self._broker.alarm.ring_by(at)
            else:
                done(answer)

        once()

    def tick(self, now: Instant) -> None:
        """Ask once more what is due."""
        waiting, self._again = self._again, []
        due = [once for at, once in waiting if at <= now]
        self._again += [entry for entry in waiting if entry[0] > now]
        for once in due:
            once()
        if self._again:
            self._broker.alarm.ring_by(self._again[0][0])

    def _ask(self, coordinator: int, wanted: Wanted, done: Done, *, adds: bool) -> None:
        peer = neighbour(self._broker, coordinator, LANE)
        if peer is None:
            done(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"broker {coordinator} is not there"))
            return

        def answered(answer: object) -> None:
            if isinstance(answer, AddPartitionsToTxnResponse):
                done(_read(answer, wanted))
            else:
                done(Refused(ErrorCode.NETWORK_EXCEPTION, f"broker {coordinator} did not answer: {answer}"))

        peer.ask(_request(wanted, adds), _VERSION, REQUEST_TIMEOUT_MS, answered)


def _is_busy(answer: Answer) -> bool:
    return not isinstance(answer, Refused) and ErrorCode.CONCURRENT_TRANSACTIONS in answer.values()


def _request(wanted: Wanted, adds: bool) -> AddPartitionsToTxnRequest:
    topics = [
        AddPartitionsToTxnTopic(name=topic, partitions=[one.partition for one in group])
        for topic, group in groupby(sorted(wanted.partitions), key=lambda one: one.topic)
    ]
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=wanted.transactional_id,
        producer_id=wanted.producer.producer_id,
        producer_epoch=wanted.producer.epoch,
        verify_only=not adds,
        topics=topics,
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def _read(answer: AddPartitionsToTxnResponse, wanted: Wanted) -> Answer:
    code = told_code(answer.error_code)
    if code is not ErrorCode.NONE:
        return Refused(code, f"the coordinator of {wanted.transactional_id!r} answers {code.name}")
    told = {
        TopicPartition(topic.name, one.partition_index): told_code(one.partition_error_code)
        for transaction in answer.results_by_transaction
        if transaction.transactional_id == wanted.transactional_id
        for topic in transaction.topic_results
        for one in topic.results_by_partition
    }
    # What it does not mention it has not added.
    return {one: told.get(one, ErrorCode.UNKNOWN_SERVER_ERROR) for one in wanted.partitions}

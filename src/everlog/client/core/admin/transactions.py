"""Transactions as an administrator sees them: listed, described, aborted (P5, KIP-664)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from everlog.client.core.admin.outcomes import outcome
from everlog.client.core.errors import refusal
from everlog.client.core.metadata import Broker
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from everlog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from everlog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
ONGOING = "Ongoing"
NO_FILTER = -1


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """One line of the list of transactions."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id described; `started_at` is None while no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_at: int | None
    partitions: Sequence[TopicPartition]
    """What the open transaction has written to so far."""
    coordinator: Broker


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that a partition's leader remembers; `txn_start` is None without an open transaction."""

    place: TopicPartition
    producer_id: int
    producer_epoch: int
    last_timestamp: int
    coordinator_epoch: int
    txn_start: int | None


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The id and epoch that a transactional id has now; whoever holds an earlier epoch can write no more."""

    producer_id: int
    producer_epoch: int


def list_transactions_request(
    states: Iterable[str] = (), producer_ids: Iterable[int] = (), longer_than_ms: int = NO_FILTER
) -> ListTransactionsRequest:
    """Ask a broker for the transactional ids it looks after; open for longer than a span if that is given."""
    return ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=longer_than_ms
    )


def read_listed_transactions(
    response: ListTransactionsResponse, coordinator: int
) -> list[TransactionListing]:
    """The transactional ids of one broker; Refused if it could not list them."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, None, f"transactions of broker {coordinator}")
    return [
        TransactionListing(entry.transactional_id, entry.producer_id, entry.transaction_state, coordinator)
        for entry in response.transaction_states
    ]


def describe_transaction_request(transactional_id: str) -> DescribeTransactionsRequest:
    """Ask for one transactional id."""
    return DescribeTransactionsRequest(transactional_ids=[transactional_id])


def read_transaction(
    response: DescribeTransactionsResponse, transactional_id: str, coordinator: Broker
) -> Transaction:
    """The transactional id described; Refused if there is none."""
    for entry in response.transaction_states:
        if entry.transactional_id != transactional_id:
            continue
        if entry.error_code != ErrorCode.NONE:
            raise _refusal(entry.error_code, transactional_id)
        return Transaction(
            transactional_id,
            entry.transaction_state,
            entry.producer_id,
            entry.producer_epoch,
            entry.transaction_timeout_ms,
            entry.transaction_start_time_ms if entry.transaction_start_time_ms >= 0 else None,
            tuple(
                sorted(
                    TopicPartition(topic.topic, partition)
                    for topic in entry.topics
                    for partition in topic.partitions
                )
            ),
            coordinator,
        )
    raise _refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)


def fence_request(transaction: Transaction) -> InitProducerIdRequest:
    """Ask for the next epoch of a transactional id: that aborts what is open and shuts its producer out.

    The time-out stays what the producer had asked for.
    """
    return InitProducerIdRequest(
        transactional_id=transaction.transactional_id, transaction_timeout_ms=transaction.timeout_ms
    )


def read_fenced(response: InitProducerIdResponse, transactional_id: str) -> FencedProducer:
    """The new id and epoch; Refused if the transaction could not be aborted."""
    if response.error_code != ErrorCode.NONE:
        raise _refusal(response.error_code, transactional_id)
    return FencedProducer(response.producer_id, response.producer_epoch)


def describe_producers_request(places: Iterable[TopicPartition]) -> DescribeProducersRequest:
    """Ask a leader for the producers of partitions."""
    topics: dict[str, TopicRequest] = {}
    for place in sorted(places):
        named = topics.setdefault(place.topic, TopicRequest(name=place.topic, partition_indexes=[]))
        named.partition_indexes.append(place.partition)
    return DescribeProducersRequest(topics=list(topics.values()))


def read_producers(
    response: DescribeProducersResponse,
) -> dict[TopicPartition, Sequence[ActiveProducer] | Refused]:
    """The producers of each partition in an answer."""
    found: dict[TopicPartition, Sequence[ActiveProducer] | Refused] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            place = TopicPartition(topic.name, partition.partition_index)
            producers = [
                ActiveProducer(
                    place,
                    producer.producer_id,
                    producer.producer_epoch,
                    producer.last_timestamp,
                    producer.coordinator_epoch,
                    None if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset,
                )
                for producer in partition.active_producers
            ]
            found[place] = outcome(
                producers, partition.error_code, partition.error_message, f"producers of {place}"
            )
    return found


def abort_marker_request(producer: ActiveProducer) -> WriteTxnMarkersRequest:
    """Ask a partition's leader to end a producer's transaction there as aborted."""
    place = producer.place
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])],
        # -1 is a leader that has never had a marker of this producer; any coordinator is newer than none.
        coordinator_epoch=max(0, producer.coordinator_epoch),
    )
    return WriteTxnMarkersRequest(markers=[marker])


def marker_problem(response: WriteTxnMarkersResponse, producer: ActiveProducer) -> Refused | None:
    """Why the marker was not written, if it was not."""
    codes = [
        partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
        if TopicPartition(topic.name, partition.partition_index) == producer.place
    ]
    code = codes[0] if codes else ErrorCode.UNKNOWN_SERVER_ERROR
    if code == ErrorCode.NONE:
        return None
    about = f"transaction of producer {producer.producer_id} at {producer.place} offset {producer.txn_start}"
    return refusal(code, None if codes else "the answer leaves it out", about)


def hanging_candidates(
    producers: Iterable[ActiveProducer], now: int, max_timeout_ms: int
) -> list[ActiveProducer]:
    """Producers whose transaction is open although none may be open for so long."""
    return [
        producer
        for producer in producers
        if producer.txn_start is not None and now - producer.last_timestamp > max_timeout_ms
    ]


def hanging(
    candidates: Iterable[ActiveProducer],
    ids_by_producer: Mapping[int, str],
    partitions_by_id: Mapping[str, Collection[TopicPartition]],
) -> list[ActiveProducer]:
    """Those that no coordinator will ever end: it does not know the producer, or not that it wrote there."""
    return [
        producer
        for producer in candidates
        if producer.place not in partitions_by_id.get(ids_by_producer.get(producer.producer_id, ""), ())
    ]


def _refusal(code: int, transactional_id: str) -> Refused:
    meaning = "no such transactional id" if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND else None
    return refusal(code, meaning, f"transactional id {transactional_id!r}")

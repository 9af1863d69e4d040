"""Transactions as an administrator sees them: listed, described, aborted (P5, KIP-664)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from everlog.client.core.admin.outcomes import outcome
from everlog.client.core.errors import refusal
from everlog.client.core.metadata import Broker
from everlog.client.core.txn.prepared import PreparedTransaction
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
from everlog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
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
TWO_PHASE_VERSION = 6
"""The version of InitProducerId that can hold a transaction open (KIP-939)."""
_NO_TIMEOUT_MS = 2**31 - 1
_NEXT_OWNER_TIMEOUT_MS = 60_000
"""Asked for where an id is taken over only to abort: whoever uses it next says what it wants."""
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

    The time-out stays what the producer had asked for, if it had one (KIP-939).
    """
    timeout_ms = transaction.timeout_ms
    return InitProducerIdRequest(
        transactional_id=transaction.transactional_id,
        transaction_timeout_ms=_NEXT_OWNER_TIMEOUT_MS if timeout_ms == _NO_TIMEOUT_MS else timeout_ms,
    )


def read_fenced(response: InitProducerIdResponse, transactional_id: str) -> FencedProducer:
    """The new id and epoch; Refused if the transaction could not be aborted."""
    if response.error_code != ErrorCode.NONE:
        raise _refusal(response.error_code, transactional_id)
    return FencedProducer(response.producer_id, response.producer_epoch)


def commit_prepared_request(prepared: PreparedTransaction) -> EndTxnRequest:
    """Ask for a transaction that its producer has prepared to be committed."""
    return EndTxnRequest(
        transactional_id=prepared.transactional_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        committed=True,
    )


def commit_prepared_at_most(prepared: PreparedTransaction) -> int:
    """The newest version of EndTxn for it: from 5 on the end raises the epoch."""
    return 5 if prepared.version >= 2 else 4


def read_committed(response: EndTxnResponse, prepared: PreparedTransaction) -> Refused | None:
    """None once it is committed, by this request or one before; Refused if it was aborted."""
    if response.error_code == ErrorCode.NONE:
        return None
    return _refusal(response.error_code, prepared.transactional_id)


def abort_prepared_request(prepared: PreparedTransaction) -> InitProducerIdRequest:
    """Ask for the epoch after that of a transaction: aborts it, and nothing that came after it (KIP-360)."""
    return InitProducerIdRequest(
        transactional_id=prepared.transactional_id,
        transaction_timeout_ms=_NEXT_OWNER_TIMEOUT_MS,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
    )


def is_succeeded(found: Transaction | Refused, prepared: PreparedTransaction) -> bool:
    """Whether the producer of a transaction has gone on to a later epoch, so that the transaction is over."""
    if isinstance(found, Refused):
        return False
    return found.producer_id == prepared.producer_id and found.producer_epoch > prepared.producer_epoch


_IS_OVER = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)


def read_aborted(response: InitProducerIdResponse, prepared: PreparedTransaction) -> Refused | None:
    """None once the transaction is over, however it ended."""
    if response.error_code == ErrorCode.NONE or response.error_code in _IS_OVER:
        return None
    return _refusal(response.error_code, prepared.transactional_id)


def hold_request(prepared: PreparedTransaction) -> InitProducerIdRequest:
    """Ask for a transaction to stay open until it is ended, however long that takes (KIP-939)."""
    # The epoch is not named: a repeated request, whose answer was lost, must find what the first one left.
    return InitProducerIdRequest(
        transactional_id=prepared.transactional_id, enable2_pc=True, keep_prepared_txn=True
    )


def read_held(
    response: InitProducerIdResponse, prepared: PreparedTransaction
) -> PreparedTransaction | Refused:
    """The transaction under the epoch that alone can end it now; Refused if it is open no more."""
    if response.error_code != ErrorCode.NONE:
        return _refusal(response.error_code, prepared.transactional_id)
    found = (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
    if found != (prepared.producer_id, prepared.producer_epoch):
        expected = f"expected producer {prepared.producer_id} in epoch {prepared.producer_epoch}"
        said = "is open no more" if found[0] < 0 else f"is of producer {found[0]} in epoch {found[1]}"
        about = f"transactional id {prepared.transactional_id!r}"
        return refusal(ErrorCode.INVALID_TXN_STATE, f"its transaction {said}: {expected}", about)
    return replace(prepared, producer_id=response.producer_id, producer_epoch=response.producer_epoch)


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

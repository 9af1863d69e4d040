"""Transactions on the wire, and which of them hang (P5, KIP-664)."""

from dataclasses import replace

import pytest

from everlog.client.core.admin.transactions import (
    ActiveProducer,
    Transaction,
    abort_marker_request,
    describe_producers_request,
    fence_request,
    hanging,
    hanging_candidates,
    is_succeeded,
    marker_problem,
    read_fenced,
    read_listed_transactions,
    read_producers,
    read_transaction,
)
from everlog.client.core.metadata import Broker
from everlog.client.core.txn.prepared import PreparedTransaction
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from everlog.wire.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from everlog.wire.messages.init_producer_id import InitProducerIdResponse
from everlog.wire.messages.list_transactions import ListTransactionsResponse
from everlog.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

BROKER = Broker(1, "host-1", 9092)
ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
PRODUCER = ActiveProducer(ZERO, 7, 3, last_timestamp=1000, coordinator_epoch=5, txn_start=40)


def test_a_transaction_is_described_with_its_partitions_in_order() -> None:
    state = TransactionState(
        transactional_id="writer",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=5,
        producer_id=7,
        producer_epoch=3,
        topics=[TopicData(topic="orders", partitions=[1, 0])],
    )

    found = read_transaction(DescribeTransactionsResponse(transaction_states=[state]), "writer", BROKER)

    assert found == Transaction("writer", "Ongoing", 7, 3, 60_000, 5, (ZERO, ONE), BROKER)
    assert fence_request(found).transaction_timeout_ms == 60_000


def test_a_transaction_without_time_out_can_be_fenced_by_whoever_has_no_right_to_one() -> None:
    held = Transaction("writer", "Ongoing", 7, 3, 2**31 - 1, 5, (ZERO,), BROKER)
    assert fence_request(held).transaction_timeout_ms == 60_000
    assert not fence_request(held).enable2_pc


def test_a_start_time_of_minus_one_is_none() -> None:
    state = TransactionState(transactional_id="writer", transaction_start_time_ms=-1)

    found = read_transaction(DescribeTransactionsResponse(transaction_states=[state]), "writer", BROKER)

    assert found.started_at is None


def test_an_unknown_transactional_id_is_refused() -> None:
    state = TransactionState(transactional_id="writer", error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    for answer in (DescribeTransactionsResponse(transaction_states=[state]), DescribeTransactionsResponse()):
        with pytest.raises(Refused, match="'writer': TRANSACTIONAL_ID_NOT_FOUND: no such"):
            read_transaction(answer, "writer", BROKER)


def test_errors_of_lists_fences_and_producers_are_told() -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(Refused, match="transactions of broker 2"):
        read_listed_transactions(ListTransactionsResponse(error_code=code), 2)
    with pytest.raises(Refused, match="'writer'"):
        read_fenced(InitProducerIdResponse(error_code=code), "writer")
    failed = PartitionResponse(partition_index=1, error_code=code, error_message="no")
    answer = DescribeProducersResponse(topics=[TopicResponse(name="orders", partitions=[failed])])
    assert str(read_producers(answer)[ONE]) == "producers of orders-1: CLUSTER_AUTHORIZATION_FAILED: no"


def test_producers_are_asked_for_and_read_with_their_open_transactions() -> None:
    (asked,) = describe_producers_request([ONE, ZERO]).topics
    assert (asked.name, asked.partition_indexes) == ("orders", [0, 1])
    states = [
        ProducerState(
            producer_id=7,
            producer_epoch=3,
            last_timestamp=1000,
            coordinator_epoch=5,
            current_txn_start_offset=40,
        ),
        ProducerState(producer_id=8, current_txn_start_offset=-1),
    ]
    partition = PartitionResponse(partition_index=0, active_producers=states)
    answer = DescribeProducersResponse(topics=[TopicResponse(name="orders", partitions=[partition])])

    producers = read_producers(answer)[ZERO]
    assert not isinstance(producers, Refused)
    first, second = producers

    assert (first, second.txn_start) == (PRODUCER, None)


def test_the_marker_is_an_abort_in_the_name_of_the_newest_coordinator() -> None:
    (marker,) = abort_marker_request(PRODUCER).markers
    (young,) = abort_marker_request(replace(PRODUCER, coordinator_epoch=-1)).markers

    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, False)
    assert (marker.coordinator_epoch, young.coordinator_epoch) == (5, 0)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("orders", [0])]


def test_a_marker_that_was_refused_or_left_out_was_not_written() -> None:
    def answer(code: int) -> WriteTxnMarkersResponse:
        partition = WritableTxnMarkerPartitionResult(partition_index=0, error_code=code)
        topic = WritableTxnMarkerTopicResult(name="orders", partitions=[partition])
        return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=7, topics=[topic])])

    assert marker_problem(answer(0), PRODUCER) is None
    refused = marker_problem(answer(ErrorCode.INVALID_PRODUCER_EPOCH), PRODUCER)
    assert str(refused) == "transaction of producer 7 at orders-0 offset 40: INVALID_PRODUCER_EPOCH"
    assert marker_problem(WriteTxnMarkersResponse(), PRODUCER) is not None


def test_only_a_transaction_older_than_any_may_be_is_suspected() -> None:
    idle = replace(PRODUCER, txn_start=None)

    assert hanging_candidates([PRODUCER, idle], now=2000, max_timeout_ms=1000) == []
    assert hanging_candidates([PRODUCER, idle], now=2001, max_timeout_ms=1000) == [PRODUCER]


def test_what_a_coordinator_knows_to_be_open_there_does_not_hang() -> None:
    assert hanging([PRODUCER], {7: "writer"}, {"writer": (ZERO, ONE)}) == []


@pytest.mark.parametrize(
    ("ids", "partitions"),
    [
        ({}, {}),
        ({7: "writer"}, {"writer": (ONE,)}),
        ({7: "writer"}, {"writer": ()}),
        ({8: "writer"}, {"writer": (ZERO,)}),
    ],
    ids=["unknown producer", "other partition", "nothing open", "another's"],
)
def test_what_no_coordinator_knows_to_be_open_there_hangs(
    ids: dict[int, str], partitions: dict[str, tuple[TopicPartition, ...]]
) -> None:
    assert hanging([PRODUCER], ids, partitions) == [PRODUCER]


@pytest.mark.parametrize(("producer_id", "epoch", "is_later"), [(7, 3, False), (7, 4, True), (8, 9, False)])
def test_a_producer_that_went_on_leaves_a_prepared_transaction_behind(
    producer_id: int, epoch: int, is_later: bool
) -> None:
    found = Transaction("writer", "Ongoing", producer_id, epoch, 60_000, 5, (ZERO,), BROKER)
    prepared = PreparedTransaction("writer", 7, 3)

    assert is_succeeded(found, prepared) is is_later
    assert not is_succeeded(Refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "writer"), prepared)

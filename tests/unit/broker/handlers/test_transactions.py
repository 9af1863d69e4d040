"""The requests about transactions, one by one: filters, descriptions, markers, what is advertised (P5)."""

import pytest

from everlog.coordinator.machine import ProducerStamp
from everlog.model.errors import ErrorCode
from everlog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from everlog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from everlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from everlog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
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
from tests.unit.broker.simulated import SimulatedNode
from tests.unit.broker.transactional import NONE, V1, TxnProducer, a_node, committed

INIT_PRODUCER_ID = 22


def a_producer(node: SimulatedNode, name: str = "t") -> TxnProducer:
    producer = TxnProducer(node, name)
    assert producer.init().error_code == NONE
    return producer


# --- what clients are told


def api_versions(node: SimulatedNode, version: int = 4) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    return node.client().call(request, version, ApiVersionsResponse)


def test_transaction_version_2_is_supported_and_finalised() -> None:
    answer = api_versions(SimulatedNode())

    supported = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
    finalised = {one.name: one.max_version_level for one in answer.finalized_features}
    assert supported["transaction.version"] == (0, 2)
    assert finalised["transaction.version"] == 2


@pytest.mark.parametrize(("setting", "highest"), [("false", 5), ("true", 6)])
def test_two_phase_commit_is_advertised_where_it_is_allowed(setting: str, highest: int) -> None:
    answer = api_versions(SimulatedNode(transaction_two_phase_commit_enable=setting))

    versions = {one.api_key: one.max_version for one in answer.api_keys}
    assert versions[INIT_PRODUCER_ID] == highest


# --- InitProducerId


@pytest.mark.parametrize("version", range(7))
def test_a_transactional_id_is_given_in_every_version(version: int) -> None:
    node = a_node()
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)

    first = node.client().call(request, version, InitProducerIdResponse)
    second = node.client().call(request, version, InitProducerIdResponse)

    assert (first.error_code, first.producer_epoch) == (NONE, 0)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)


def test_the_first_who_asks_has_the_topic_made() -> None:
    node = SimulatedNode(transaction_state_log_num_partitions="3")
    producer = TxnProducer(node)

    assert producer.init().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert producer.init().error_code == NONE


@pytest.mark.parametrize(("two_phase", "keep"), [(True, False), (False, True), (True, True)])
def test_two_phase_commit_is_refused_where_it_is_not_allowed(two_phase: bool, keep: bool) -> None:
    answer = TxnProducer(a_node()).init(version=6, two_phase=two_phase, keep=keep)

    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_prepared_transaction_is_recovered_and_committed() -> None:
    node = a_node(transaction_two_phase_commit_enable="true")
    crashed = TxnProducer(node)
    crashed.init(version=6, two_phase=True)
    crashed.write(b"prepared", 0)
    crashed.write(b"prepared", 1)
    node.pass_time(24 * 3600 * 1000)

    recovered = TxnProducer(node)
    answer = recovered.init(version=6, two_phase=True, keep=True)

    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == crashed.stamp
    assert recovered.stamp.epoch > crashed.stamp.epoch
    assert crashed.end() is ErrorCode.PRODUCER_FENCED
    assert recovered.send(b"too early") is ErrorCode.INVALID_TXN_STATE
    assert recovered.end() is NONE
    assert committed(node, partition=0) == committed(node, partition=1) == [b"prepared"]
    recovered.write(b"next")
    assert recovered.end() is NONE
    assert committed(node) == [b"prepared", b"next"]


# --- AddPartitionsToTxn, AddOffsetsToTxn, EndTxn


def a_transaction(
    producer: TxnProducer, *partitions: int, verify_only: bool = False, topic: str = "orders"
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=producer.name,
        producer_id=producer.stamp.producer_id,
        producer_epoch=producer.stamp.epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
    )


def batched(node: SimulatedNode, *transactions: AddPartitionsToTxnTransaction) -> list[list[int]]:
    """The codes of each transaction's partitions."""
    request = AddPartitionsToTxnRequest(transactions=list(transactions))
    answer = node.client().call(request, 5, AddPartitionsToTxnResponse)
    return [
        [one.partition_error_code for topic in result.topic_results for one in topic.results_by_partition]
        for result in answer.results_by_transaction
    ]


def test_brokers_add_to_and_look_at_many_transactions_at_once() -> None:
    node = a_node()
    one, two = a_producer(node, "one"), a_producer(node, "two")
    fenced = TxnProducer(node, "two")
    fenced.stamp = ProducerStamp(two.stamp.producer_id, two.stamp.epoch + 1)

    assert batched(node, a_transaction(one, 0), a_transaction(fenced, 0, 1)) == [
        [NONE],
        [ErrorCode.PRODUCER_FENCED] * 2,
    ]
    assert batched(node, a_transaction(one, 0, 1, verify_only=True)) == [
        [NONE, ErrorCode.TRANSACTION_ABORTABLE]
    ]
    assert batched(node) == []


@pytest.mark.parametrize("verify_only", [True, False])
def test_one_unknown_partition_keeps_the_others_out(verify_only: bool) -> None:
    node = a_node()
    producer = a_producer(node)

    codes = batched(node, a_transaction(producer, 0, 7, verify_only=verify_only))

    assert codes == [[ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]]
    assert producer.add(-1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.add(0, topic="nobody") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(4))
def test_clients_add_partitions_in_every_version_of_theirs(version: int) -> None:
    producer = a_producer(a_node())

    assert producer.add(0, 1, version=version) is NONE


@pytest.mark.parametrize("version", range(5))
def test_offsets_are_added_in_every_version(version: int) -> None:
    node = a_node()
    producer = a_producer(node)
    request = AddOffsetsToTxnRequest(
        transactional_id="t",
        producer_id=producer.stamp.producer_id,
        producer_epoch=producer.stamp.epoch,
        group_id="g",
    )

    assert node.client().call(request, version, AddOffsetsToTxnResponse).error_code == NONE
    txn = node.broker.coordinators.txn_shard("t").get("t")
    assert txn is not None
    assert [str(one) for one in txn.partitions] == ["__consumer_offsets-0"]


@pytest.mark.parametrize("version", range(6))
def test_transactions_end_in_every_version(version: int) -> None:
    node = a_node()
    producer = a_producer(node)
    producer.version = V1
    producer.add(0)
    request = EndTxnRequest(
        transactional_id="t",
        producer_id=producer.stamp.producer_id,
        producer_epoch=producer.stamp.epoch,
        committed=True,
    )

    answer = node.client().call(request, version, EndTxnResponse)

    assert answer.error_code == NONE
    expected = (producer.stamp.producer_id, producer.stamp.epoch + 1) if version == 5 else (-1, -1)
    assert (answer.producer_id, answer.producer_epoch) == expected


def test_an_empty_transactional_id_is_no_id() -> None:
    node = a_node()
    nameless = TxnProducer(node, "")
    nameless.stamp = ProducerStamp(1, 0)

    assert nameless.init().error_code == ErrorCode.INVALID_REQUEST
    assert nameless.add(0) is ErrorCode.INVALID_REQUEST
    assert nameless.end() is ErrorCode.INVALID_REQUEST
    assert nameless.send(b"x") is ErrorCode.INVALID_REQUEST


# --- listings


def listing(node: SimulatedNode, **filters: object) -> ListTransactionsResponse:
    request = ListTransactionsRequest(**filters)  # type: ignore[arg-type]  # Each test gives what fits.
    return node.client().call(request, 2, ListTransactionsResponse)


def listed(node: SimulatedNode, **filters: object) -> list[tuple[str, str]]:
    answer = listing(node, **filters)
    assert answer.error_code == NONE
    return sorted((one.transactional_id, one.transaction_state) for one in answer.transaction_states)


def test_transactions_are_listed_by_state_producer_age_and_pattern() -> None:
    node = a_node()
    old, new = a_producer(node, "old"), a_producer(node, "new")
    old.write(b"x")
    node.clock.advance(1000)
    new.write(b"x")
    a_producer(node, "idle")

    assert listed(node) == [("idle", "Empty"), ("new", "Ongoing"), ("old", "Ongoing")]
    assert listed(node, state_filters=["Ongoing"]) == [("new", "Ongoing"), ("old", "Ongoing")]
    assert listed(node, producer_id_filters=[new.stamp.producer_id]) == [("new", "Ongoing")]
    assert listed(node, duration_filter=999, state_filters=["Ongoing"]) == [("old", "Ongoing")]
    assert listed(node, transactional_id_pattern="o.*") == [("old", "Ongoing")]


def test_a_state_that_does_not_exist_is_named_and_a_bad_pattern_refused() -> None:
    node = a_node()
    a_producer(node)

    answer = listing(node, state_filters=["Ongoing", "Nowhere"])

    assert answer.unknown_state_filters == ["Nowhere"]
    assert answer.transaction_states == []
    assert listing(node, transactional_id_pattern="(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_transaction_is_described_with_its_partitions() -> None:
    node = a_node(topics=("orders", "payments"))
    producer = a_producer(node)
    producer.write(b"x", 1)
    producer.write(b"x", 0)
    producer.write(b"x", topic="payments")
    request = DescribeTransactionsRequest(transactional_ids=["t", "nobody", ""])

    answer = node.client().call(request, 0, DescribeTransactionsResponse)

    found, nobody, empty = answer.transaction_states
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (
        NONE,
        "Ongoing",
        60_000,
    )
    assert found.transaction_start_time_ms == node.clock.wall()
    assert (found.producer_id, found.producer_epoch) == producer.stamp
    assert [(one.topic, one.partitions) for one in found.topics] == [("orders", [0, 1]), ("payments", [0])]
    assert (nobody.transactional_id, nobody.error_code) == ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    assert empty.error_code == ErrorCode.INVALID_REQUEST


def described(node: SimulatedNode, topic: str, partition: int) -> PartitionResponse:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    return node.client().call(request, 0, DescribeProducersResponse).topics[0].partitions[0]


def test_producers_are_described_with_the_start_of_their_open_transaction() -> None:
    node = a_node()
    producer = a_producer(node)
    producer.write(b"x")
    producer.end()
    producer.write(b"y")
    producer.write(b"z")

    (one,) = described(node, "orders", 0).active_producers

    assert (one.producer_id, one.producer_epoch) == producer.stamp
    assert (one.last_sequence, one.coordinator_epoch, one.current_txn_start_offset) == (1, 0, 2)
    assert one.last_timestamp == node.clock.wall()
    producer.end()
    (one,) = described(node, "orders", 0).active_producers
    assert one.current_txn_start_offset == -1


def test_producers_of_what_is_not_there_are_not_described() -> None:
    node = a_node()

    assert described(node, "orders", 9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert described(node, "nobody", 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert described(node, "a/b", 0).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert described(node, "orders", 1).active_producers == []


# --- WriteTxnMarkers


def marked(
    node: SimulatedNode,
    producer: ProducerStamp,
    *partitions: int,
    commit: bool = False,
    coordinator_epoch: int = 0,
    version: int = 2,
) -> list[int]:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
        topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=list(partitions))],
    )
    answer = node.client().call(WriteTxnMarkersRequest(markers=[marker]), 2, WriteTxnMarkersResponse)
    assert [one.producer_id for one in answer.markers] == [producer.producer_id]
    return [one.error_code for topic in answer.markers[0].topics for one in topic.partitions]


def test_a_marker_from_outside_ends_a_transaction_that_hangs() -> None:
    node = a_node()
    producer = a_producer(node)
    producer.write(b"x")
    raised = ProducerStamp(producer.stamp.producer_id, producer.stamp.epoch + 1)

    assert marked(node, raised, 0, 9) == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    replica = node.replica("orders")
    assert replica.last_stable_offset == replica.high_watermark == 2
    assert committed(node) == []


def test_markers_of_old_epochs_and_old_coordinators_are_refused() -> None:
    node = a_node()
    producer = a_producer(node)
    producer.write(b"x")
    raised = ProducerStamp(producer.stamp.producer_id, producer.stamp.epoch + 1)

    # Of version 2 and not above its records: it is late, and means a transaction before this one.
    assert marked(node, producer.stamp, 0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert marked(node, raised, 0, coordinator_epoch=5) == [NONE]
    assert marked(node, raised, 0, coordinator_epoch=4) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]


def test_no_markers_get_no_answers() -> None:
    answer = a_node().client().call(WriteTxnMarkersRequest(markers=[]), 1, WriteTxnMarkersResponse)

    assert answer.markers == []

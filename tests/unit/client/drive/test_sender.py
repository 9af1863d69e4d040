"""What a producer does when brokers refuse, forget, move away and hang up (P4), with brokers by script."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from everlog.client.aio.producer import Producer as AioProducer
from everlog.client.core.errors import Closed, TimedOut
from everlog.client.core.producer.delivery import Delivery
from everlog.client.drive.connection import Connection
from everlog.client.sync.producer import Producer
from everlog.model.errors import ErrorCode, Refused
from everlog.records.batch import batch_at
from everlog.wire.codec import RequestHeader
from everlog.wire.message import Message
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from everlog.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.client.builders import ORDERS_ID
from tests.unit.client.sync.scripted import ScriptedBroker

HANG_UP = "hang up"
Step = ErrorCode | str | Callable[[PartitionProduceResponse, ProduceResponse], None]
PATIENCE_S = 60.0


class Partition:
    """One partition of `orders`: keeps what it accepts, refuses as a list of steps says."""

    def __init__(self, *steps: Step, identity: ErrorCode = ErrorCode.NONE) -> None:
        self.steps = deque(steps)
        self.port = 0
        self.leader_port = 0
        """Of the broker that metadata name; another one may be asked for it."""
        self.identity = identity
        self.kept: list[tuple[int, int, int]] = []
        """Sequence, count and epoch of what was accepted."""
        self.tried: list[tuple[int, int]] = []
        """Sequence and count of what came."""
        self.metadata_requests = 0
        self.producer_ids = 0

    def __call__(self, _header: RequestHeader, request: Message) -> Message | None:
        match request:
            case MetadataRequest():
                self.metadata_requests += 1
                return self._metadata()
            case InitProducerIdRequest():
                self.producer_ids += 1
                return InitProducerIdResponse(
                    error_code=self.identity, producer_id=6 + self.producer_ids, producer_epoch=0
                )
            case ProduceRequest():
                return self._produce(request)
            case _:
                raise AssertionError(request)

    def _metadata(self) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=0)
        topic = MetadataResponseTopic(name="orders", topic_id=ORDERS_ID, partitions=[partition])
        broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.leader_port or self.port)
        return MetadataResponse(brokers=[broker], topics=[topic], controller_id=1, cluster_id="c")

    def _produce(self, request: ProduceRequest) -> ProduceResponse | None:
        step = self.steps.popleft() if self.steps else ErrorCode.NONE
        batch = batch_at(bytes(request.topic_data[0].partition_data[0].records or b""))
        self.tried.append((batch.base_sequence, batch.count))
        answer = PartitionProduceResponse(index=0, base_offset=-1)
        topic = TopicProduceResponse(topic_id=ORDERS_ID, partition_responses=[answer])
        response = ProduceResponse(responses=[topic])
        if isinstance(step, ErrorCode):
            answer.error_code = step
        elif isinstance(step, str):
            return None
        else:
            step(answer, response)
        if answer.error_code == ErrorCode.NONE:
            answer.base_offset = sum(count for _, count, _ in self.kept)
            self.kept.append((batch.base_sequence, batch.count, batch.producer_epoch))
        return response


@contextmanager
def producing(partition: Partition, **options: Any) -> Generator[Producer]:
    """A producer to the partition, each of whose records is a batch of its own."""
    settings: dict[str, Any] = {"linger_ms": 0, "batch_size": 0, "retry_backoff_ms": 5, **options}
    with ScriptedBroker(partition) as broker:
        partition.port = broker.port
        with Producer(f"127.0.0.1:{broker.port}", **settings) as producer:
            yield producer


def send_each(producer: Producer, count: int) -> list[Delivery]:
    """Send records so that each is a batch under way before the next."""
    deliveries: list[Delivery] = []
    # The first of all goes alone.
    producer.send("orders", b"before").result(PATIENCE_S)
    for number in range(count):
        deliveries.append(producer.send("orders", b"%d" % number))
        _wait_until(lambda: producer.metrics()["batches_sent"] == 1 + len(deliveries))
    return deliveries


def _wait_until(condition: Callable[[], bool]) -> None:
    event = threading.Event()
    for _ in range(int(PATIENCE_S * 1000)):
        if condition():
            return
        event.wait(0.001)
    raise AssertionError("it did not happen")


def offsets(deliveries: list[Delivery]) -> list[int | None]:
    return [
        None if delivery.exception(PATIENCE_S) is not None else delivery.result().offset
        for delivery in deliveries
    ]


def test_p4_a_batch_refused_for_now_is_sent_again_before_the_younger_ones() -> None:
    all_sent = threading.Event()

    def refuse(answer: PartitionProduceResponse, _response: ProduceResponse) -> None:
        assert all_sent.wait(PATIENCE_S)
        answer.error_code = ErrorCode.NOT_ENOUGH_REPLICAS

    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition = Partition(ErrorCode.NONE, refuse, out_of_order, out_of_order)
    with producing(partition) as producer:
        deliveries = send_each(producer, 3)
        all_sent.set()
        assert offsets(deliveries) == [1, 2, 3]
        metrics = producer.metrics()

    assert [sequence for sequence, _ in partition.tried] == [0, 1, 2, 3, 1, 2, 3]
    assert partition.kept == [(0, 1, 0), (1, 1, 0), (2, 1, 0), (3, 1, 0)]
    assert metrics["epoch_bumps"] == 0
    assert metrics["retries"] == 3


def test_p4_a_broker_that_hangs_up_gets_the_same_batches_with_the_same_numbers() -> None:
    partition = Partition(ErrorCode.NONE, HANG_UP, HANG_UP)
    with producing(partition) as producer:
        first = producer.send("orders", b"a")
        assert first.result(PATIENCE_S).offset == 0
        second = producer.send("orders", b"b")
        assert second.result(PATIENCE_S).offset == 1

    assert partition.tried == [(0, 1), (1, 1), (1, 1), (1, 1)]


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_p4_a_hole_in_the_numbers_is_closed_with_a_new_epoch_and_nothing_is_lost(code: ErrorCode) -> None:
    partition = Partition(ErrorCode.NONE, ErrorCode.INVALID_RECORD, code)
    with producing(partition) as producer:
        deliveries: list[Delivery] = []
        for number in range(4):
            deliveries.append(producer.send("orders", b"%d" % number))
            deliveries[-1].exception(PATIENCE_S)
        assert offsets(deliveries) == [0, None, 1, 2]
        assert producer.metrics()["epoch_bumps"] == 1

    assert partition.kept == [(0, 1, 0), (0, 1, 1), (1, 1, 1)]
    assert partition.producer_ids == 1


def test_p4_a_batch_that_the_broker_has_already_is_delivered() -> None:
    partition = Partition(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    with producing(partition) as producer:
        assert producer.send("orders", b"a").result(PATIENCE_S).offset == -1


def test_p4_what_cannot_be_delivered_in_time_has_failed_with_the_last_reason() -> None:
    partition = Partition(*[ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
    with producing(partition, request_timeout_ms=200, delivery_timeout_ms=400) as producer:
        error = producer.send("orders", b"a").exception(PATIENCE_S)
    assert isinstance(error, TimedOut)
    assert "delivery_timeout_ms=400" in str(error)
    assert "NOT_ENOUGH_REPLICAS" in str(error)


def test_p4_retries_are_counted_where_the_user_limits_them() -> None:
    partition = Partition(*[ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
    with producing(partition, retries=2) as producer:
        error = producer.send("orders", b"a").exception(PATIENCE_S)
    assert isinstance(error, Refused)
    assert len(partition.tried) == 3


def test_p4_a_batch_too_large_for_the_broker_is_halved_until_it_fits() -> None:
    partition = Partition(ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE)
    with producing(partition, batch_size=100_000, linger_ms=100_000) as producer:
        deliveries = [producer.send("orders", b"%d" % number) for number in range(4)]
        producer.flush(PATIENCE_S)
        assert offsets(deliveries) == [0, 1, 2, 3]
    assert partition.tried == [(0, 4), (0, 2), (0, 1), (1, 1), (2, 2)]


def test_p4_an_answer_that_names_the_new_leader_is_followed_without_asking() -> None:
    # KIP-951
    new = Partition()
    with ScriptedBroker(new) as new_broker:

        def moved(answer: PartitionProduceResponse, response: ProduceResponse) -> None:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            answer.current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
            response.node_endpoints.append(NodeEndpoint(node_id=2, host="127.0.0.1", port=new_broker.port))

        old = Partition(moved)
        with producing(old, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000) as producer:
            producer.send("orders", b"a").result(PATIENCE_S)
            asked = old.metadata_requests
        assert asked == 1
        assert old.tried == new.tried == [(0, 1)]


def test_p4_a_partition_without_a_hint_is_looked_up_again() -> None:
    partition = Partition(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with producing(partition) as producer:
        producer.send("orders", b"a").result(PATIENCE_S)
    assert partition.metadata_requests > 1


def test_p4_without_a_producer_id_records_fail_with_the_reason() -> None:
    partition = Partition(identity=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with producing(partition) as producer:
        error = producer.send("orders", b"a").exception(PATIENCE_S)
    assert isinstance(error, Refused)
    assert error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_p2_a_batch_grows_while_an_earlier_one_is_under_way() -> None:
    go_on = threading.Event()

    def hold(_answer: PartitionProduceResponse, _response: ProduceResponse) -> None:
        assert go_on.wait(PATIENCE_S)

    partition = Partition(hold)
    with producing(partition, max_in_flight_requests_per_connection=1, batch_size=100) as producer:
        first = producer.send("orders", b"a")
        _wait_until(lambda: producer.metrics()["batches_sent"] == 1)
        rest = [producer.send("orders", bytes(100)) for _ in range(200)]
        go_on.set()
        assert first.result(PATIENCE_S).offset == 0
        assert offsets(rest) == list(range(1, 201))
    assert partition.tried == [(0, 1), (1, 200)]


def test_a_throttled_producer_waits() -> None:
    # KIP-219
    def throttle(_answer: PartitionProduceResponse, response: ProduceResponse) -> None:
        response.throttle_time_ms = 400

    partition = Partition(throttle)
    with producing(partition) as producer:
        producer.send("orders", b"a").result(PATIENCE_S)
        later = producer.send("orders", b"b")
        with pytest.raises(TimedOut):
            later.result(0.1)
        assert later.result(PATIENCE_S).offset == 1


def test_no_more_requests_are_under_way_than_allowed() -> None:
    go_on = threading.Event()

    def hold(_answer: PartitionProduceResponse, _response: ProduceResponse) -> None:
        assert go_on.wait(PATIENCE_S)

    partition = Partition(ErrorCode.NONE, hold)
    with producing(partition, max_in_flight_requests_per_connection=3) as producer:
        deliveries = send_each(producer, 3)
        deliveries += [producer.send("orders", b"more") for _ in range(10)]
        with pytest.raises(TimedOut):
            producer.flush(0.1)
        metrics = producer.metrics()
        assert (metrics["requests_in_flight"], metrics["batches_sent"]) == (3, 4)
        go_on.set()
        assert offsets(deliveries) == list(range(1, 14))
    assert [count for _, count in partition.tried] == [1, 1, 1, 1, 10]


def test_p4_a_record_that_was_given_up_is_not_sent_later() -> None:
    refuses = True

    def answer_by_flag(answer: PartitionProduceResponse, _response: ProduceResponse) -> None:
        if refuses:
            answer.error_code = ErrorCode.NOT_ENOUGH_REPLICAS

    partition = Partition(*[answer_by_flag] * 10_000)
    with producing(
        partition, request_timeout_ms=200, delivery_timeout_ms=300, enable_idempotence=False
    ) as producer:
        given_up = [producer.send("orders", b"a"), producer.send("orders", b"b")]
        assert [type(delivery.exception(PATIENCE_S)) for delivery in given_up] == [TimedOut] * 2
        refuses = False
        assert producer.send("orders", b"c").result(PATIENCE_S).offset == 0
    assert [count for _, count, _ in partition.kept] == [1]


def test_whoever_does_not_wait_for_close_is_told_all_the_same_what_was_not_delivered() -> None:
    # It goes on asking for a producer id, which it needs before it can send.
    partition = Partition(identity=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def close_in_a_hurry(port: int) -> Delivery:
        producer = AioProducer(f"127.0.0.1:{port}", linger_ms=0, retry_backoff_ms=5)
        delivery = await producer.send("orders", b"a")
        closing = asyncio.create_task(producer.close())
        while not closing.done():
            await asyncio.sleep(0)
            closing.cancel()
        return delivery

    with ScriptedBroker(partition) as broker:
        partition.port = broker.port
        delivery = asyncio.run(close_in_a_hurry(broker.port))
        assert delivery.done()
        assert isinstance(delivery.exception(), Closed)


@pytest.mark.parametrize("cancellations", [1, 2, 3, 1000])
def test_whoever_is_cancelled_while_it_closes_leaves_no_connection_open(cancellations: int) -> None:
    partition = Partition(identity=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    async def close_in_a_hurry(port: int) -> list[Connection]:
        producer = AioProducer(f"127.0.0.1:{port}", linger_ms=0, retry_backoff_ms=5)
        await producer.send("orders", b"a")
        connections = [await producer.link.any_broker(PATIENCE_S), await producer.link.broker(1)]
        assert all(connection.is_open for connection in connections)
        closing = asyncio.create_task(producer.close())
        for _ in range(cancellations):
            await asyncio.sleep(0)
            closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        return connections

    with ScriptedBroker(partition) as broker:
        partition.port = broker.port
        connections = asyncio.run(close_in_a_hurry(broker.port))
    assert not any(connection.is_open for connection in connections)


def test_after_a_split_batches_are_made_smaller() -> None:
    too_large = 0

    def at_most_60(answer: PartitionProduceResponse, _response: ProduceResponse) -> None:
        nonlocal too_large
        if partition.tried[-1][1] > 60:
            answer.error_code = ErrorCode.MESSAGE_TOO_LARGE
            too_large += 1

    partition = Partition(*[at_most_60] * 10_000)
    with producing(partition, batch_size=1_000_000, linger_ms=100_000) as producer:
        for _ in range(5):
            deliveries = [producer.send("orders", bytes(100)) for _ in range(100)]
            producer.flush(PATIENCE_S)
            assert all(delivery.exception() is None for delivery in deliveries)
    assert too_large == 1
    assert sum(count for _, count, _ in partition.kept) == 500


class TwoLeaders:
    """Partition 0 of `orders` is with a broker that answers at once, partition 1 with one that is stuck."""

    def __init__(self) -> None:
        self.ports: tuple[int, int] = (0, 0)
        self.released = threading.Event()
        self.kept = 0

    def __call__(self, _header: RequestHeader, request: Message) -> Message | None:
        match request:
            case MetadataRequest():
                brokers = [
                    MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port)
                    for node, port in enumerate(self.ports)
                ]
                partitions = [
                    MetadataResponsePartition(partition_index=node, leader_id=node, leader_epoch=0)
                    for node in range(2)
                ]
                topic = MetadataResponseTopic(name="orders", topic_id=ORDERS_ID, partitions=partitions)
                return MetadataResponse(brokers=brokers, topics=[topic], controller_id=0, cluster_id="c")
            case InitProducerIdRequest():
                return InitProducerIdResponse(producer_id=7, producer_epoch=0)
            case ProduceRequest():
                (asked,) = request.topic_data[0].partition_data
                if asked.index == 1:
                    assert self.released.wait(PATIENCE_S)
                answer = PartitionProduceResponse(index=asked.index, base_offset=self.kept)
                self.kept += 1
                return ProduceResponse(
                    responses=[TopicProduceResponse(topic_id=ORDERS_ID, partition_responses=[answer])]
                )
            case _:
                raise AssertionError(request)


@pytest.mark.parametrize(("adapts", "at_most"), [(True, 50), (False, 100)])
def test_p1_a_broker_that_is_slow_gets_fewer_records_without_a_key_unless_that_is_switched_off(
    adapts: bool, at_most: int
) -> None:
    """With lines of 0 and n batches it is drawn once in n + 2: about 20 times in 200 (KIP-794)."""
    leaders = TwoLeaders()
    to_slow = 0
    with ScriptedBroker(leaders) as quick, ScriptedBroker(leaders) as slow:
        leaders.ports = (quick.port, slow.port)
        with Producer(
            f"127.0.0.1:{quick.port}",
            linger_ms=0,
            batch_size=100,
            max_in_flight_requests_per_connection=1,
            partitioner_adaptive_partitioning_enable=adapts,
        ) as producer:
            for _ in range(200):
                delivery = producer.send("orders", bytes(100))
                if "orders-1, pending" in repr(delivery):
                    to_slow += 1
                else:
                    assert delivery.result(PATIENCE_S).partition == 0
            leaders.released.set()
            producer.flush(PATIENCE_S)

    assert 0 < to_slow <= at_most
    assert adapts or to_slow == 100, "each has its turn"

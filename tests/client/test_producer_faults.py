"""A broker that dies, freezes and comes back under a producer (P4): each record once, in order, none lost."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from everlog import aio
from everlog.client.core.errors import Closed, TimedOut
from everlog.client.core.producer.delivery import Delivery
from everlog.client.core.producer.settings import ProducerOptions
from everlog.client.sync.producer import Producer
from everlog.model.errors import EverlogError
from tests.client.conftest import NewTopic, topic_maker
from tests.client.log_reading import read_log
from tests.conformance.target import Target

PATIENCE_S = 90.0
PARTITIONS = 3


@pytest.fixture
def victims_topic(victim: Target, fresh_topic: Callable[[], str]) -> NewTopic:
    return topic_maker(victim.bootstrap, fresh_topic)


class Load:
    """Sends numbered records on a thread of its own until told to stop."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._stop = threading.Event()
        self.deliveries: list[Delivery] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.wait(0.0005):
            number = len(self.deliveries)
            value = b"%d" % number
            self.deliveries.append(self._producer.send(self._topic, value, partition=number % PARTITIONS))

    def start(self) -> None:
        self._thread.start()

    def wait_for_more(self, count: int = 200) -> None:
        """Return once so many more records are delivered than are now."""
        target = self.delivered + count
        deadline = time.monotonic() + PATIENCE_S
        while self.delivered < target:
            assert time.monotonic() < deadline, f"{self.delivered} delivered, {target} wanted"
            time.sleep(0.02)

    @property
    def delivered(self) -> int:
        return sum(1 for delivery in self.deliveries if delivery.done() and delivery.exception() is None)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def loaded(producer: Producer, topic: str) -> Generator[Load]:
    load = Load(producer, topic)
    load.start()
    try:
        yield load
    finally:
        load.stop()


def check_log(bootstrap: str, topic: str, load: Load) -> None:
    """Every record was delivered, lies where its delivery says, once, and in the order of sending."""
    assert [str(error) for delivery in load.deliveries if (error := delivery.exception())] == []
    stored = read_log(bootstrap, topic)
    by_partition: list[list[int]] = [[] for _ in range(PARTITIONS)]
    for record in stored:
        by_partition[record.partition].append(int(record.value or b""))
    count = len(load.deliveries)
    assert by_partition == [list(range(index, count, PARTITIONS)) for index in range(PARTITIONS)]
    places = {(record.partition, record.offset): int(record.value or b"") for record in stored}
    for number, delivery in enumerate(load.deliveries):
        found = delivery.result()
        # A retry that the broker recognized long after may be answered without an offset.
        assert found.offset < 0 or places[found.partition, found.offset] == number


def test_p4_records_sent_while_the_broker_is_killed_and_restarted_are_there_once_and_in_order(
    victim: Target, victims_topic: NewTopic
) -> None:
    topic = victims_topic(PARTITIONS)
    with Producer(victim.bootstrap, linger_ms=1) as producer:
        with loaded(producer, topic) as load:
            for _ in range(3):
                load.wait_for_more()
                victim.kill()
                victim.start()
            load.wait_for_more()
        producer.flush(PATIENCE_S)
    check_log(victim.bootstrap, topic, load)


def test_p4_records_sent_while_the_broker_is_restarted_cleanly_are_there_once_and_in_order(
    victim: Target, victims_topic: NewTopic
) -> None:
    topic = victims_topic(PARTITIONS)
    with Producer(victim.bootstrap, linger_ms=1, compression_type="lz4") as producer:
        with loaded(producer, topic) as load:
            for _ in range(2):
                load.wait_for_more()
                victim.stop()
                victim.start()
            load.wait_for_more()
        producer.flush(PATIENCE_S)
    check_log(victim.bootstrap, topic, load)


def test_p4_requests_that_a_frozen_broker_answers_too_late_are_not_written_twice(
    victim: Target, victims_topic: NewTopic
) -> None:
    topic = victims_topic(PARTITIONS)
    with Producer(victim.bootstrap, linger_ms=1, request_timeout_ms=500) as producer:
        with loaded(producer, topic) as load:
            load.wait_for_more()
            for _ in range(2):
                victim.pause()
                # Long enough for requests to time out and be sent again, to a socket that still takes them.
                time.sleep(1.5)
                victim.resume()
                load.wait_for_more()
        producer.flush(PATIENCE_S)
        assert producer.metrics()["retries"] > 0
    check_log(victim.bootstrap, topic, load)


def test_p4_what_is_given_up_leaves_a_hole_that_does_not_stop_the_rest(
    victim: Target, victims_topic: NewTopic
) -> None:
    topic = victims_topic(1)
    with Producer(
        victim.bootstrap, linger_ms=0, request_timeout_ms=500, delivery_timeout_ms=1000
    ) as producer:
        sent = [producer.send(topic, b"0")]
        sent[0].result(PATIENCE_S)
        victim.pause()
        sent += [producer.send(topic, b"%d" % number) for number in range(1, 20)]
        assert isinstance(sent[-1].exception(PATIENCE_S), TimedOut)
        victim.resume()
        deadline = time.monotonic() + PATIENCE_S
        while True:
            sent.append(producer.send(topic, b"%d" % len(sent)))
            if sent[-1].exception(PATIENCE_S) is None and len(sent) > 30:
                break
            assert time.monotonic() < deadline
    # What was reported as delivered is there once; what was given up may be, once and in its place.
    stored = [int(record.value or b"") for record in read_log(victim.bootstrap, topic)]
    assert stored == sorted(set(stored))
    delivered = {number for number, delivery in enumerate(sent) if delivery.exception() is None}
    assert delivered <= set(stored)


@pytest.mark.parametrize("limit", [1, 3])
def test_p4_a_broker_that_does_not_answer_has_as_many_requests_as_it_may_and_no_more(
    victim: Target, victims_topic: NewTopic, limit: int
) -> None:
    topic = victims_topic(1)
    with Producer(victim.bootstrap, linger_ms=0, max_in_flight_requests_per_connection=limit) as producer:
        producer.send(topic, b"0").result(PATIENCE_S)
        victim.pause()
        sent: list[Delivery] = []
        deadline = time.monotonic() + PATIENCE_S / 4  # Requests are given up after 30 s.
        while (most := producer.metrics()["requests_in_flight"]) < limit:
            assert time.monotonic() < deadline, f"{most} requests are in flight"
            if most == len(sent):  # What is sent before would go into the same batch.
                sent.append(producer.send(topic, b"in flight"))
            time.sleep(0.01)
        sent += [producer.send(topic, b"waits") for _ in range(10)]
        for _ in range(20):
            time.sleep(0.01)
            assert producer.metrics()["requests_in_flight"] == limit
        assert not any(delivery.done() for delivery in sent)
        victim.resume()
        assert [delivery.result(PATIENCE_S).offset for delivery in sent] == [*range(1, limit + 11)]
        assert producer.metrics()["requests_in_flight"] == 0


def test_p2_a_full_buffer_blocks_send_and_then_says_why(victim: Target, victims_topic: NewTopic) -> None:
    topic = victims_topic(1)
    with Producer(victim.bootstrap, buffer_memory=20_000, max_block_ms=300) as producer:
        producer.send(topic, b"x").result(PATIENCE_S)
        victim.pause()
        kept: list[Delivery] = []
        with pytest.raises(TimedOut, match="buffer_memory=20000 is full"):
            kept.extend(producer.send(topic, bytes(1000)) for _ in range(100))
        assert 10 < len(kept) < 20
        victim.resume()
        producer.flush(PATIENCE_S)
        assert all(delivery.exception() is None for delivery in kept)
        producer.send(topic, bytes(1000)).result(PATIENCE_S)
    assert len(read_log(victim.bootstrap, topic)) == len(kept) + 2


def test_p2_a_send_that_waits_for_room_goes_on_once_there_is_some(
    victim: Target, victims_topic: NewTopic
) -> None:
    topic = victims_topic(1)
    with Producer(victim.bootstrap, buffer_memory=20_000) as producer:
        producer.send(topic, b"x").result(PATIENCE_S)
        victim.pause()
        threading.Timer(1.0, victim.resume).start()
        for _ in range(100):
            producer.send(topic, bytes(1000))
    assert len(read_log(victim.bootstrap, topic)) == 101


def test_close_with_a_time_out_fails_what_cannot_be_delivered(
    victim: Target, victims_topic: NewTopic
) -> None:
    topic = victims_topic(1)
    producer = Producer(victim.bootstrap)
    producer.send(topic, b"x").result(PATIENCE_S)
    victim.pause()
    delivery = producer.send(topic, b"y")
    with pytest.raises(TimedOut, match="so far"):
        producer.flush(0.2)
    producer.close(timeout=0.2)
    assert isinstance(delivery.exception(), Closed)


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_closing_says_in_the_log_how_many_records_were_lost_and_why(
    victim: Target, victims_topic: NewTopic, caplog: pytest.LogCaptureFixture, face: str
) -> None:
    topic = victims_topic(1)
    options: ProducerOptions = {"request_timeout_ms": 500, "delivery_timeout_ms": 1500}
    if face == "blocking":
        with Producer(victim.bootstrap, **options) as producer:
            producer.send(topic, b"delivered").result(PATIENCE_S)
            victim.kill()
            for _ in range(3):
                producer.send(topic, b"never heard of")
    else:
        asyncio.run(send_and_forget(victim, topic, options))

    (told,) = [record for record in caplog.records if "not delivered" in record.getMessage()]
    assert (told.name, told.levelname) == ("everlog.producer", "WARNING")
    assert "records that were not delivered: 3; the first error: " in told.getMessage()
    assert "delivery_timeout_ms=1500" in told.getMessage()


async def send_and_forget(target: Target, topic: str, options: ProducerOptions) -> None:
    async with aio.Producer(target.bootstrap, **options) as producer:
        await (await producer.send(topic, b"delivered"))
        target.kill()
        for _ in range(3):
            await producer.send(topic, b"never heard of")


def test_closing_says_nothing_if_nothing_was_lost(
    bootstrap: str, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        producer.send(topic, b"x")
    with Producer(bootstrap, transactional_id=f"id-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"taken back on purpose")
        producer.abort_transaction()
    assert [record.getMessage() for record in caplog.records if record.name == "everlog.producer"] == []


def test_records_without_idempotence_survive_a_restart_too(victim: Target, victims_topic: NewTopic) -> None:
    topic = victims_topic(PARTITIONS)
    with Producer(
        victim.bootstrap,
        linger_ms=1,
        acks=1,
        max_in_flight_requests_per_connection=1,
    ) as producer:
        with loaded(producer, topic) as load:
            load.wait_for_more()
            victim.stop()
            victim.start()
            load.wait_for_more()
        producer.flush(PATIENCE_S)
    assert [delivery for delivery in load.deliveries if delivery.exception() is not None] == []
    values = [int(record.value or b"") for record in read_log(victim.bootstrap, topic)]
    assert set(values) == set(range(len(load.deliveries)))


def test_a_broker_that_never_comes_back_ends_in_a_time_out_that_says_so(
    victim: Target, victims_topic: NewTopic
) -> None:
    topic = victims_topic(1)
    with Producer(victim.bootstrap, request_timeout_ms=500, delivery_timeout_ms=1500) as producer:
        producer.send(topic, b"x").result(PATIENCE_S)
        victim.kill()
        error = producer.send(topic, b"y").exception(PATIENCE_S)
        assert isinstance(error, EverlogError)
        assert "delivery_timeout_ms=1500" in str(error)
        assert victim.bootstrap in str(error)

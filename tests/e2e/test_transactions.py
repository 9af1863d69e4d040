"""Transactions of real clients against a real broker: commit, abort, fencing, kill, time-out (P5, C6)."""

import asyncio
import gc
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests import brokers
from tests.brokers import BrokerProcess

pytestmark = pytest.mark.e2e

# Neither has types that are whole.
_admin: Any = import_module("confluent_kafka.admin")
_aiokafka: Any = import_module("aiokafka")

WAIT_S = 20.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = brokers.start_up(tmp_path / "data", tmp_path / "errors")
    try:
        yield process
    finally:
        process.stop()


def create(broker: BrokerProcess, *topics: str, partitions: int = 2) -> None:
    admin = _admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([_admin.NewTopic(topic, partitions, 1) for topic in topics]).values():
        future.result(WAIT_S)


def a_producer(broker: BrokerProcess, name: str = "t", timeout_ms: int = 60_000) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    producer.init_transactions(WAIT_S)
    return producer


def a_consumer(broker: BrokerProcess, group: str = "g") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )


def read(broker: BrokerProcess, topic: str, partitions: int = 2) -> list[bytes]:
    """All committed records of a topic, to the end of each partition as it is now."""
    consumer = a_consumer(broker, "reader")
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    values: list[bytes] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ended) < partitions:
        assert time.monotonic() < deadline, (values, ended)
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
        else:
            values.append(message.value() or b"")
    consumer.close()
    return sorted(values)


def send(producer: Producer, topic: str, *values: bytes) -> None:
    for at, value in enumerate(values):
        producer.produce(topic, value, partition=at % 2)
    assert producer.flush(WAIT_S) == 0


def test_a_transaction_of_librdkafka_is_read_whole_or_not_at_all(broker: BrokerProcess) -> None:
    create(broker, "out")
    producer = a_producer(broker)
    for at, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        send(producer, "out", b"%d left" % at, b"%d right" % at)
        if commit:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)

    assert read(broker, "out") == [b"0 left", b"0 right", b"2 left", b"2 right"]


def test_the_older_of_two_producers_is_fenced(broker: BrokerProcess) -> None:
    create(broker, "out")
    zombie = a_producer(broker)
    zombie.begin_transaction()
    send(zombie, "out", b"zombie")
    successor = a_producer(broker)

    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(WAIT_S)

    assert fenced.value.args[0].code() == KafkaError._FENCED
    successor.begin_transaction()
    send(successor, "out", b"successor")
    successor.commit_transaction(WAIT_S)
    assert read(broker, "out") == [b"successor"]


def take(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, found
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message)
    return found


@pytest.mark.parametrize("kill", [False, True])
def test_each_record_is_worked_on_exactly_once(broker: BrokerProcess, tmp_path: Path, kill: bool) -> None:
    """Read, process, write: half of the transactions are aborted, and the broker is killed in the middle."""
    create(broker, "in", "out", partitions=2)
    source = Producer({"bootstrap.servers": broker.bootstrap})
    for at in range(40):
        source.produce("in", b"%d" % at, partition=at % 2)
    source.flush(WAIT_S)
    consumer, producer = a_consumer(broker), a_producer(broker)
    consumer.subscribe(["in"])
    process = broker
    done = 0
    for step in range(8):
        messages = take(consumer, min(10 if step % 2 else 5, 40 - done))
        producer.begin_transaction()
        for message in messages:
            producer.produce("out", b"done " + (message.value() or b""), partition=message.partition() or 0)
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WAIT_S)
        if step % 2 == 0 and step < 6:
            producer.abort_transaction(WAIT_S)
            for one in consumer.committed(consumer.assignment(), WAIT_S):
                consumer.seek(TopicPartition(one.topic, one.partition, max(one.offset, 0)))
        else:
            producer.commit_transaction(WAIT_S)
            done += len(messages)
        if kill and step == 3:
            process.kill()
            port = process.address[1]
            process = brokers.start(
                ["up", "--dir", str(tmp_path / "data"), "--port", str(port)], tmp_path / "errors"
            )
            # librdkafka 2.16 hangs when it adds offsets over a connection that broke, with Apache Kafka too.
            producer = a_producer(process)
        if done >= 40:
            break
    try:
        assert read(process, "out") == sorted(b"done %d" % at for at in range(40))
    finally:
        consumer.close()
        if process is not broker:
            process.stop()


def test_a_producer_that_is_gone_holds_readers_up_no_longer_than_its_timeout(broker: BrokerProcess) -> None:
    create(broker, "out")
    gone = a_producer(broker, timeout_ms=1500)
    gone.begin_transaction()
    send(gone, "out", b"left open")
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    send(plain, "out", b"behind")
    consumer = a_consumer(broker)
    consumer.assign([TopicPartition("out", 0, 0)])
    begun = time.monotonic()

    (message,) = take(consumer, 1)

    assert message.value() == b"behind"
    assert time.monotonic() - begun < 40
    consumer.close()


async def test_transactions_of_aiokafka(tmp_path: Path) -> None:
    directory = tmp_path / f"{id(asyncio.get_running_loop())}"
    directory.mkdir()
    broker = await asyncio.to_thread(brokers.start_up, directory / "data", directory / "errors")
    try:
        await asyncio.to_thread(create, broker, "in", "out")
        await _aiokafka_transactions(broker.bootstrap)
    finally:
        await asyncio.to_thread(broker.stop)
    # The fenced client leaves futures whose errors nobody took. They are told of when they are collected,
    # with a traceback for which CPython 3.11 parses source: amid the import of a later test that breaks.
    gc.collect()


async def _aiokafka_transactions(bootstrap: str) -> None:
    producer = _aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="t")
    await producer.start()
    async with producer.transaction():
        await producer.send_and_wait("out", b"committed", partition=0)
        await producer.send_offsets_to_transaction({_aiokafka.TopicPartition("in", 0): 7}, "g")
    await producer.begin_transaction()
    await producer.send_and_wait("out", b"aborted", partition=0)
    await producer.abort_transaction()
    successor = _aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="t")
    await successor.start()
    async with successor.transaction():
        await successor.send_and_wait("out", b"successor", partition=0)
    with pytest.raises(_aiokafka.errors.ProducerFenced):
        async with producer.transaction():
            await producer.send_and_wait("out", b"zombie", partition=0)
    await successor.stop()
    await producer.stop()

    consumer = _aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id="g", isolation_level="read_committed", enable_auto_commit=False
    )
    await consumer.start()
    consumer.assign([_aiokafka.TopicPartition("out", 0), _aiokafka.TopicPartition("in", 0)])
    await consumer.seek_to_beginning(_aiokafka.TopicPartition("out", 0))
    found = [(await asyncio.wait_for(consumer.getone(), WAIT_S)).value for _ in range(2)]
    assert found == [b"committed", b"successor"]
    assert await consumer.committed(_aiokafka.TopicPartition("in", 0)) == 7
    await consumer.stop()

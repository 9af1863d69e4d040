"""Records by the thousand, most on the short way: all arrive, each where its delivery says (P1, P2)."""

import threading
from typing import Any

import pytest

from everlog import Closed, Producer, RecordMetadata
from everlog.client.core.producer.delivery import Delivery
from everlog.records.murmur2 import partition_of_key
from tests.client.conftest import NewTopic
from tests.client.log_reading import Stored, read_log

THREADS, EACH = 4, 3000


def sizes(number: int) -> int:
    """Mostly small, now and then as large as a batch."""
    return 20_000 if number % 500 == 499 else number % 150


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"batch_size": 1000, "buffer_memory": 120_000, "max_request_size": 50_000},
        {"compression_type": "zstd", "linger_ms": 0},
        {"enable_idempotence": False, "acks": "1", "max_in_flight_requests_per_connection": 1},
    ],
)
def test_p1_threads_send_at_once_and_each_finds_its_records_in_order(
    bootstrap: str, new_topic: NewTopic, settings: dict[str, Any]
) -> None:
    topic = new_topic(3)
    sent: list[list[tuple[bytes, bytes | None, Delivery]]] = [[] for _ in range(THREADS)]
    told: dict[bytes, RecordMetadata | None] = {}
    with Producer(bootstrap, **settings) as producer:

        def work(name: int) -> None:
            for number in range(EACH):
                key = b"key-%d" % (number % 7) if number % 3 == 0 else None
                value = b"%d:%d:" % (name, number) + bytes(sizes(number))

                def hear(found: RecordMetadata | None, _error: object, value: bytes = value) -> None:
                    told[value] = found

                on_delivery = hear if number % 10 == 0 else None
                delivery = producer.send(topic, value, key, on_delivery=on_delivery)
                sent[name].append((value, key, delivery))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
        assert producer.metrics()["buffer_used_bytes"] == 0

    log = {(stored.partition, stored.offset): stored for stored in read_log(bootstrap, topic)}
    assert len(log) == THREADS * EACH
    for records in sent:
        last = dict.fromkeys(range(3), -1)
        for value, key, delivery in records:
            found = delivery.result(0)
            stored: Stored = log[found.partition, found.offset]
            assert (stored.value, stored.key) == (value, key)
            assert stored.timestamp == found.timestamp
            assert key is None or found.partition == partition_of_key(key, 3)
            assert found.offset > last[found.partition]
            last[found.partition] = found.offset
            if value in told:
                assert told[value] == found
    assert len(told) == THREADS * EACH // 10


def test_p1_a_closed_producer_takes_nothing_the_short_way(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    producer = Producer(bootstrap, linger_ms=1000)
    for _ in range(10):
        producer.send(topic, b"before")
    producer.close()

    with pytest.raises(Closed):
        producer.send(topic, b"after")
    assert [stored.value for stored in read_log(bootstrap, topic)] == [b"before"] * 10


def test_p1_a_subclass_may_have_a_send_of_its_own(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()

    class Counting(Producer):
        calls = 0

        def send(self, *args: Any, **named: Any) -> Delivery:
            self.calls += 1
            return super().send(*args, **named)

    with Counting(bootstrap) as producer:
        for _ in range(100):
            producer.send(topic, b"pizza")

    assert producer.calls == 100
    assert len(read_log(bootstrap, topic)) == 100

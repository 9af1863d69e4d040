"""A broker that freezes, dies and comes back under tables (P2, P4, C7): each row once, and in order."""

import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from everlog import Consumer, Producer, TimedOut
from tests.client.conftest import NewTopic, topic_maker
from tests.client.log_reading import read_log
from tests.conformance.target import Target

pa: Any = import_module("pyarrow")
PATIENCE_S = 90.0
pytestmark = pytest.mark.timeout(300)
PARTITIONS = 2
SCHEMA = pa.schema([("value", pa.binary()), ("partition", pa.int32())])


@pytest.fixture
def victims_topic(victim: Target, fresh_topic: Callable[[], str]) -> NewTopic:
    return topic_maker(victim.bootstrap, fresh_topic)


def numbered(start: int, count: int) -> Any:
    numbers = range(start, start + count)
    values = pa.array([b"%08d" % number + b"x" * 92 for number in numbers], pa.binary())
    return pa.record_batch(
        [values, pa.array([number % PARTITIONS for number in numbers], pa.int32())], schema=SCHEMA
    )


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_p4_each_row_is_written_once_though_the_broker_dies(
    victim: Target, victims_topic: NewTopic, codec: Any
) -> None:
    topic = victims_topic(PARTITIONS)
    rows, step = 40_000, 2_000
    half_way, restarted = threading.Event(), threading.Event()

    def stream() -> Iterator[Any]:
        for start in range(0, rows, step):
            if start == rows // 2:
                half_way.set()
                assert restarted.wait(PATIENCE_S)
            yield numbered(start, step)

    def break_it() -> None:
        assert half_way.wait(PATIENCE_S)
        victim.kill()
        restarted.set()
        victim.start()

    breaker = threading.Thread(target=break_it)
    breaker.start()
    options: dict[str, Any] = {"buffer_memory": 500_000, "max_request_size": 60_000}
    with Producer(victim.bootstrap, compression_type=codec, **options) as producer:
        reader = pa.RecordBatchReader.from_batches(SCHEMA, stream())
        batches = producer.send_arrow(topic, reader).result(PATIENCE_S)
    breaker.join()

    assert sum(batch.record_count for batch in batches) == rows
    stored = read_log(victim.bootstrap, topic)
    for partition in range(PARTITIONS):
        found = [int((record.value or b"")[:8]) for record in stored if record.partition == partition]
        assert found == list(range(partition, rows, PARTITIONS))


def test_p2_a_table_that_finds_no_room_says_so_and_takes_no_more_memory(
    victim: Target, victims_topic: NewTopic
) -> None:
    topic = victims_topic(PARTITIONS)
    memory = 300_000
    with Producer(
        victim.bootstrap, buffer_memory=memory, max_request_size=50_000, max_block_ms=700
    ) as producer:
        producer.send_arrow(topic, numbered(0, 1)).result(PATIENCE_S)
        victim.pause()
        with pytest.raises(TimedOut, match="buffer_memory=300000 is full"):
            producer.send_arrow(topic, pa.Table.from_batches([numbered(1, 20_000)]))
        assert producer.metrics()["buffer_used_bytes"] <= memory
        victim.resume()
        producer.flush(PATIENCE_S)
        producer.send_arrow(topic, numbered(1, 10)).result(PATIENCE_S)


def test_c7_columns_go_on_when_the_broker_is_back(victim: Target, victims_topic: NewTopic) -> None:
    topic = victims_topic()
    values = [b"%d" % number for number in range(2_000)]
    with Producer(victim.bootstrap) as producer:
        producer.send_arrow(topic, pa.table({"value": values[:1_000]})).result(PATIENCE_S)
        with Consumer(victim.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([(topic, 0)])
            found: list[bytes] = []
            while len(found) < 1_000:
                found += consumer.poll_arrow(PATIENCE_S).column("value").to_pylist()
            victim.kill()
            victim.start()
            producer.send_arrow(topic, pa.table({"value": values[1_000:]})).result(PATIENCE_S)
            while len(found) < 2_000:
                found += consumer.poll_arrow(PATIENCE_S).column("value").to_pylist()
    assert found == values

"""A consumer of partitions that it chooses itself: positions, seeks, pauses, what it says (C1, C7, C8)."""

import threading
import time
from typing import Any

import pytest

from everlog import (
    Closed,
    ConfigError,
    Consumer,
    ConsumerRecord,
    DeserializationError,
    Misused,
    NoOffset,
    OffsetOutOfRange,
    Producer,
    Refused,
    TopicPartition,
    Unreachable,
    Woken,
)
from tests import brokers
from tests.client.conftest import NewTopic
from tests.client.log_reading import create_topic
from tests.client.log_writing import Transactions, write
from tests.client.polling import PATIENCE_S, poll_nothing, poll_records, poll_until, poll_values

NUMBERS = [b"%d" % number for number in range(1000)]


@pytest.fixture
def topic(bootstrap: str, new_topic: NewTopic) -> str:
    """A topic with a thousand numbers in its one partition."""
    name = new_topic()
    write(bootstrap, name, NUMBERS)
    return name


def from_start(bootstrap: str, *places: tuple[str, int], **options: object) -> Consumer:
    consumer = Consumer(bootstrap, auto_offset_reset="earliest", **options)  # type: ignore[arg-type]
    consumer.assign(places)
    return consumer


def test_c1_all_records_come_in_order_and_at_most_500_at_a_time(bootstrap: str, topic: str) -> None:
    with from_start(bootstrap, (topic, 0)) as consumer:
        first = poll_records(consumer, 1)
        assert len(first) <= 500
        rest = poll_records(consumer, 1000 - len(first))
        records = first + rest
    assert [record.value for record in records] == NUMBERS
    assert [record.offset for record in records] == list(range(1000))
    assert {(record.topic, record.partition, record.key) for record in records} == {(topic, 0, None)}


def test_c1_max_poll_records_and_max_records_bound_a_poll(bootstrap: str, topic: str) -> None:
    with from_start(bootstrap, (topic, 0), max_poll_records=7) as consumer:
        assert len(poll_records(consumer, 1)) == 7
        assert [record.offset for record in consumer.poll(1.0, max_records=3)] == [7, 8, 9]
        assert consumer.position((topic, 0)) == 10


def test_c1_polls_wait_for_records_that_come_later(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with from_start(bootstrap, (topic, 0)) as consumer:
        assert consumer.poll(0.1) == []
        write(bootstrap, topic, [b"late"])
        assert poll_values(consumer, 1) == [b"late"]


def test_c1_a_fetch_waits_for_fetch_min_bytes_as_long_as_fetch_max_wait_ms(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    write(bootstrap, topic, [b"little"])
    began = time.monotonic()
    with from_start(bootstrap, (topic, 0), fetch_min_bytes=100_000, fetch_max_wait_ms=1500) as consumer:
        assert poll_values(consumer, 1) == [b"little"]
        # A broker's timers may be a little early, and whoever is slow only makes it later.
        assert time.monotonic() - began >= 1.4


def test_c1_a_fetch_that_waits_is_answered_once_there_is_fetch_min_bytes(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    wait_ms = int(PATIENCE_S * 1000)
    with from_start(
        bootstrap,
        (topic, 0),
        fetch_min_bytes=50_000,
        fetch_max_wait_ms=wait_ms,
        request_timeout_ms=2 * wait_ms,
    ) as consumer:
        write(bootstrap, topic, [b"little"])
        for _ in range(5):
            assert consumer.poll(0.2) == []
        began = time.monotonic()
        write(bootstrap, topic, [bytes(10_000)] * 5)
        records = poll_records(consumer, 6)
        assert time.monotonic() - began < PATIENCE_S / 2, "it was not the wait that ended it"
    assert records[0].value == b"little"


def test_c1_many_partitions_are_all_read(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(40)
    for partition in range(40):
        write(bootstrap, topic, NUMBERS[:20], partition=partition)
    with from_start(bootstrap, *[(topic, partition) for partition in range(40)]) as consumer:
        records = poll_records(consumer, 800)
    for partition in range(40):
        assert [each.value for each in records if each.partition == partition] == NUMBERS[:20]


def test_c1_a_record_larger_than_the_fetch_limits_comes_through(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    large = [b"x" * 500_000, b"y" * 700_000, b"z"]
    write(bootstrap, topic, large)
    write(bootstrap, topic, NUMBERS[:50], partition=1)
    limits = {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 2000}
    with from_start(bootstrap, (topic, 0), (topic, 1), **limits) as consumer:
        records = poll_records(consumer, 53)
    assert [record.value for record in records if record.partition == 0] == large
    assert [record.value for record in records if record.partition == 1] == NUMBERS[:50]


def test_c1_fetching_ahead_is_bounded(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    write(bootstrap, topic, [b"x" * 10_000] * 400, batch_size=20_000)
    limits = {"max_partition_fetch_bytes": 50_000, "prefetch_max_bytes": 100_000, "max_poll_records": 1}
    with from_start(bootstrap, (topic, 0), **limits) as consumer:
        poll_records(consumer, 1)
        for _ in range(20):
            assert len(consumer.poll(PATIENCE_S)) == 1
            assert consumer.metrics()["bytes_buffered"] <= 200_000
        assert len(poll_records(consumer, 379)) == 379


def test_c7_seek_goes_anywhere_while_records_are_fetched_ahead(bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with from_start(bootstrap, place, max_poll_records=10) as consumer:
        assert poll_values(consumer, 1) == NUMBERS[:10]
        for target in (500, 3, 990, 3):
            consumer.seek(place, target)
            assert consumer.position(place) == target
            assert poll_records(consumer, 1)[0].offset == target


def test_c7_seek_to_beginning_end_and_time(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="-1")
    place = TopicPartition(topic, 0)
    at = 1_700_000_000_000
    write(bootstrap, topic, NUMBERS[:10], timestamps=[at + 1000 * number for number in range(10)])
    with from_start(bootstrap, place) as consumer:
        consumer.seek_to_end()
        assert consumer.position(place) == 10
        consumer.seek_to_beginning(place)
        assert consumer.position(place) == 0
        consumer.seek_to_time(at + 3500, place)
        assert consumer.position(place) == 4
        assert poll_values(consumer, 6) == NUMBERS[4:10]
        consumer.seek_to_time(at + 1_000_000)
        assert consumer.position(place) == 10
        found = consumer.offsets_for_times({place: at + 2000})[place]
        assert found is not None
        assert (found.offset, found.timestamp) == (2, at + 2000)
        assert consumer.offsets_for_times({place: at + 1_000_000}) == {place: None}


def test_c7_by_duration_counts_back_from_now(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    now = int(time.time() * 1000)
    write(bootstrap, topic, NUMBERS[:4], timestamps=[now - 9_000_000, now - 7_300_000, now - 3_000_000, now])
    with Consumer(bootstrap, auto_offset_reset="by_duration:PT2H") as consumer:
        consumer.assign([(topic, 0)])
        assert poll_values(consumer, 2) == NUMBERS[2:4]


def test_c7_a_paused_partition_brings_nothing_until_it_is_resumed(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    for partition in (0, 1):
        write(bootstrap, topic, NUMBERS[:300], partition=partition)
    with from_start(bootstrap, (topic, 0), (topic, 1), max_poll_records=10) as consumer:
        seen = poll_records(consumer, 1)
        # One of the two is in the middle of a chunk that was taken over.
        consumer.pause((topic, 0), (topic, 1))
        assert consumer.paused() == {(topic, 0), (topic, 1)}
        poll_nothing(consumer)
        consumer.resume((topic, 1))
        seen += poll_until(consumer, lambda: consumer.position((topic, 1)) == 300)
        assert consumer.position((topic, 0)) == sum(record.partition == 0 for record in seen) < 300
        consumer.resume()
        seen += poll_until(consumer, lambda: consumer.position((topic, 0)) == 300)
    for partition in (0, 1):
        assert [each.value for each in seen if each.partition == partition] == NUMBERS[:300]


def test_c7_a_seek_in_a_paused_partition_holds_when_it_is_resumed(bootstrap: str, topic: str) -> None:
    with from_start(bootstrap, (topic, 0), max_poll_records=10) as consumer:
        poll_records(consumer, 1)
        consumer.pause((topic, 0))
        consumer.seek((topic, 0), 700)
        poll_nothing(consumer, 1)
        consumer.resume((topic, 0))
        assert poll_records(consumer, 1)[0].offset == 700


def test_c7_taking_a_partition_away_drops_what_was_fetched_of_it(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    for partition in (0, 1):
        write(bootstrap, topic, NUMBERS, partition=partition)
    with from_start(bootstrap, (topic, 0), (topic, 1), max_poll_records=5) as consumer:
        poll_records(consumer, 1)
        consumer.assign([(topic, 1)])
        assert consumer.assignment() == {(topic, 1)}
        rest = poll_until(consumer, lambda: consumer.position((topic, 1)) == 1000)
        assert {record.partition for record in rest} == {1}
        with pytest.raises(Misused, match="is not assigned"):
            consumer.position((topic, 0))


def test_c8_lag_and_bounds_of_partitions(bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with from_start(bootstrap, place, max_poll_records=100) as consumer:
        assert consumer.lag() == {place: 1000}
        poll_records(consumer, 100)
        assert consumer.lag(place) == {place: 900}
        assert consumer.beginning_offsets() == {place: 0}
        assert consumer.end_offsets(place) == {place: 1000}
        assert [each.index for each in consumer.partitions_for(topic)] == [0]
        assert topic in consumer.topics()
        metrics = consumer.metrics()
        assert (metrics["records_polled"], metrics["partitions"], metrics["lag"]) == (100, 1, 900)
        assert metrics["fetches"] >= 1
        assert metrics["bytes_fetched"] >= sum(map(len, NUMBERS))


def test_c7_offsets_that_are_gone_lead_to_a_reset(bootstrap: str, topic: str) -> None:
    with from_start(bootstrap, (topic, 0)) as consumer:
        consumer.seek((topic, 0), 5000)
        assert poll_records(consumer, 1)[0].offset == 0
    with Consumer(bootstrap, auto_offset_reset="latest") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 5000)
        poll_until(consumer, lambda: consumer.position((topic, 0)) == 1000)


def test_c7_without_a_rule_for_resets_poll_names_the_partitions(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    write(bootstrap, topic, NUMBERS[:5])
    with Consumer(bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        with pytest.raises(NoOffset, match=f"{topic}-0, {topic}-1") as none:
            consumer.poll(PATIENCE_S)
        assert set(none.value.places) == {(topic, 0), (topic, 1)}
        consumer.seek((topic, 0), 0)
        consumer.seek((topic, 1), 77)
        with pytest.raises(OffsetOutOfRange, match=f"offset 77 of {topic}-1") as beyond:
            poll_records(consumer, 6)
        assert beyond.value.offsets == {(topic, 1): 77}
        consumer.seek((topic, 1), 0)
        assert consumer.position((topic, 1)) == 0
        poll_until(consumer, lambda: consumer.lag() == {(topic, 0): 0, (topic, 1): 0})
        assert consumer.poll(0.1) == []


def test_c6_read_committed_sees_neither_aborted_nor_open_transactions(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    first, second = Transactions(bootstrap, f"{topic}-1"), Transactions(bootstrap, f"{topic}-2")
    first.begin(topic, [b"aborted-1", b"aborted-2"])
    write(bootstrap, topic, [b"plain"])
    first.abort()
    second.begin(topic, [b"committed"])
    second.commit()
    first.begin(topic, [b"open"])
    write(bootstrap, topic, [b"behind"])
    with from_start(bootstrap, (topic, 0), isolation_level="read_committed") as consumer:
        assert poll_values(consumer, 2) == [b"plain", b"committed"]
        poll_nothing(consumer)
        assert consumer.lag() == {(topic, 0): 0}
        first.abort()
        assert poll_values(consumer, 1) == [b"behind"]
        # The marker behind it takes an offset too, and a position goes past it.
        end = consumer.end_offsets()[TopicPartition(topic, 0)]
        poll_until(consumer, lambda: consumer.position((topic, 0)) == end)
    with from_start(bootstrap, (topic, 0)) as consumer:
        assert poll_values(consumer, 6)[:2] == [b"aborted-1", b"aborted-2"]


def test_c1_deserializers_make_what_poll_returns_and_leave_null_alone(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        for key, value in ((b"a", b"1"), (None, None), (b"c", b"3")):
            producer.send(topic, value, key)
    with from_start(bootstrap, (topic, 0), key_deserializer=bytes.decode, value_deserializer=int) as consumer:
        read = poll_records(consumer, 3)
        assert [(record.key, record.value) for record in read] == [("a", 1), (None, None), ("c", 3)]
    with from_start(bootstrap, (topic, 0), key_deserializer=int) as consumer:
        with pytest.raises(DeserializationError, match=f"key of {topic}-0 at offset 0"):
            consumer.poll(PATIENCE_S)
        consumer.seek((topic, 0), 1)
        assert poll_values(consumer, 1)[0] is None


def test_c1_a_record_that_cannot_be_read_is_named_and_can_be_left_out(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    write(bootstrap, topic, [b"1", b"2", b"three", b"4"])
    with from_start(bootstrap, (topic, 0), value_deserializer=int) as consumer:
        assert poll_values(consumer, 2) == [1, 2]
        with pytest.raises(DeserializationError, match=f"value of {topic}-0 at offset 2"):
            consumer.poll(PATIENCE_S)
        with pytest.raises(DeserializationError) as failed:
            consumer.poll(PATIENCE_S)
        assert isinstance(failed.value.__cause__, ValueError)
        consumer.seek(failed.value.place, failed.value.offset + 1)
        assert poll_values(consumer, 1) == [4]


def test_c1_iteration_moves_the_position_record_by_record(bootstrap: str, topic: str) -> None:
    with from_start(bootstrap, (topic, 0)) as consumer:
        seen: list[ConsumerRecord] = []
        for record in consumer:
            seen.append(record)
            assert consumer.position((topic, 0)) == record.offset + 1
            if len(seen) == 20:
                break
        assert [record.value for record in seen] == NUMBERS[:20]
        assert poll_records(consumer, 1)[0].offset == 20


def test_c1_whole_chunks_can_be_taken_between_polls(bootstrap: str, topic: str) -> None:
    with from_start(bootstrap, (topic, 0), max_poll_records=10) as consumer:
        assert poll_values(consumer, 10) == NUMBERS[:10]
        values: list[bytes | None] = []
        while len(values) < 990:
            for chunk in consumer.take_chunks(PATIENCE_S):
                values += [record.value for record in chunk.records()]
        assert values == NUMBERS[10:]
        assert consumer.position((topic, 0)) == 1000


def test_c1_wakeup_ends_a_poll_that_waits(bootstrap: str, new_topic: NewTopic) -> None:
    with from_start(bootstrap, (new_topic(), 0)) as consumer:
        timer = threading.Timer(0.2, consumer.wakeup)
        timer.start()
        with pytest.raises(Woken):
            consumer.poll(PATIENCE_S * 2)
        timer.join()
        assert consumer.poll(0.05) == []
        consumer.wakeup()
        with pytest.raises(Woken):
            consumer.poll(0.05)


def test_c1_closing_ends_a_poll_and_an_iteration_of_another_thread(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    write(bootstrap, topic, [b"one"])
    consumer = from_start(bootstrap, (topic, 0))
    ended: list[object] = []
    began = threading.Event()

    def iterate() -> None:
        for record in consumer:
            ended.append(record.value)
            began.set()
        ended.append("ended")

    thread = threading.Thread(target=iterate)
    thread.start()
    assert began.wait(PATIENCE_S)
    consumer.close()
    thread.join(PATIENCE_S)
    assert ended == [b"one", "ended"]
    for call in (consumer.poll, consumer.topics):
        with pytest.raises(Closed):
            call()
    consumer.close()


def test_c1_an_assignment_of_nothing_is_the_same_as_unsubscribe(bootstrap: str, topic: str) -> None:
    with Consumer(bootstrap, group_id=f"g-{topic}", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        poll_records(consumer, 1)
        consumer.assign([])
        assert consumer.assignment() == set()
        assert consumer.subscription() == set()
        consumer.assign([(topic, 0)])
        assert consumer.assignment() == {(topic, 0)}
        consumer.assign([])
        assert consumer.assignment() == set()
        consumer.subscribe([topic])


def test_c1_what_does_not_fit_is_refused_by_name(bootstrap: str, topic: str) -> None:
    with Consumer(bootstrap) as consumer:
        with pytest.raises(Misused, match="subscribe needs a group: expected the setting group_id"):
            consumer.subscribe([topic])
        with pytest.raises(Misused, match="nothing to poll"):
            consumer.poll(0.1)
        with pytest.raises(Misused, match="group_id"):
            consumer.commit()
        consumer.assign([(topic, 0)])
        with pytest.raises(Misused, match=f"{topic}-7 is not assigned"):
            consumer.seek((topic, 7), 0)
        with pytest.raises(Misused, match="offset -1: expected 0 or more"):
            consumer.seek((topic, 0), -1)
        with pytest.raises(TypeError, match="expected a partition"):
            consumer.pause("orders")  # type: ignore[arg-type]
        with pytest.raises(Refused, match=f"partition {topic}-9"):
            consumer.end_offsets((topic, 9))
        with pytest.raises(Refused, match="no such topic"):
            consumer.beginning_offsets(("no-such-topic", 0))
    wrongs: list[dict[str, Any]] = [
        {"auto_offset_reset": "newest"},
        {"auto_offset_reset": "by_duration:1h"},
        {"max_poll_records": 0},
        {"group_protocol": "raft"},
        {"value_deserializer": "json"},
    ]
    for wrong in wrongs:
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            Consumer(bootstrap, **wrong)


def test_c1_an_address_where_no_broker_is_is_told() -> None:
    address = f"127.0.0.1:{brokers.free_port()}"
    with Consumer(address, auto_offset_reset="earliest") as consumer:
        consumer.assign([("orders", 0)])
        with pytest.raises(Unreachable, match=address):
            poll_records(consumer, 1)


def test_c1_a_topic_that_is_made_later_is_read_then(bootstrap: str, new_topic: NewTopic) -> None:
    missing = f"{new_topic()}-later"
    with from_start(bootstrap, (missing, 0), allow_auto_create_topics=False) as consumer:
        poll_nothing(consumer, 1)
        create_topic(bootstrap, missing, 1, {})
        write(bootstrap, missing, [b"now"])
        assert poll_values(consumer, 1) == [b"now"]

"""Sending records to a real broker, and reading them back with another client (P1-P4)."""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Literal, get_args

import pytest

from everlog import aio
from everlog.client.core.errors import Closed, TimedOut, Unsendable, UnsendableType
from everlog.client.core.producer.accumulator import Accumulator
from everlog.client.core.producer.delivery import Delivery
from everlog.client.core.producer.partitioner import partition_of_key
from everlog.client.sync.producer import Producer
from everlog.model.errors import ConfigError, ErrorCode, EverlogError, Refused
from tests.client.conftest import NewTopic
from tests.client.log_reading import read_log
from tests.conformance import raw

PATIENCE_S = 60.0
Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: tuple[Codec, ...] = get_args(Codec)


def test_p1_a_record_lies_where_its_delivery_says(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2, retention_ms="-1")
    with Producer(bootstrap) as producer:
        delivery = producer.send(
            topic,
            b"value",
            b"key",
            partition=1,
            headers=[("one", b"1"), ("none", None)],
            timestamp=1_700_000_000_123,
        )
        found = delivery.result(PATIENCE_S)

    assert found == (topic, 1, 0, 1_700_000_000_123)
    assert delivery.done()
    stored = read_log(bootstrap, topic)
    assert stored == [
        (1, 0, b"key", b"value", (("one", b"1"), ("none", None)), 1_700_000_000_123, 0),
    ]


def test_p1_null_and_empty_keys_and_values_are_told_apart(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        for value in (None, b""):
            for key in (None, b""):
                producer.send(topic, value, key)

    assert [(record.key, record.value) for record in read_log(bootstrap, topic)] == [
        (None, None),
        (b"", None),
        (None, b""),
        (b"", b""),
    ]


def test_p1_a_record_without_a_timestamp_gets_the_time_it_was_sent(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    before = int(time.time() * 1000)
    with Producer(bootstrap) as producer:
        found = producer.send(topic, b"now").result(PATIENCE_S)
    assert before <= found.timestamp <= int(time.time() * 1000)
    assert read_log(bootstrap, topic)[0].timestamp == found.timestamp


def test_p1_the_brokers_clock_is_told_where_it_counts(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(1, message_timestamp_type="LogAppendTime")
    with Producer(bootstrap) as producer:
        found = producer.send(topic, b"now", timestamp=1).result(PATIENCE_S)
    assert found.timestamp == read_log(bootstrap, topic)[0].timestamp
    assert found.timestamp > 1


def test_p1_keys_go_to_the_partition_that_kafkas_clients_choose(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(5)
    keys = [b"customer-%d" % number for number in range(200)]
    with Producer(bootstrap) as producer:
        for key in keys:
            producer.send(topic, key, key)

    stored = read_log(bootstrap, topic)
    assert len(stored) == len(keys)
    assert all(record.partition == partition_of_key(record.key or b"", 5) for record in stored)


def test_p1_records_without_a_key_reach_all_partitions_in_runs(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(4)
    with Producer(bootstrap, batch_size=2000) as producer:
        for number in range(2000):
            producer.send(topic, b"%06d" % number + bytes(94))
            if number % 30 == 29:
                # A producer that is ahead of its broker stays with a partition for longer.
                producer.flush(PATIENCE_S)

    by_partition: defaultdict[int, list[int]] = defaultdict(list)
    for record in read_log(bootstrap, topic):
        by_partition[record.partition].append(int((record.value or b"")[:6]))
    assert len(by_partition) == 4
    assert all(numbers == sorted(numbers) for numbers in by_partition.values())
    switches = sum(1 for numbers in by_partition.values() for one, two in pairwise(numbers) if two != one + 1)
    assert switches < 2000 / 10


def test_p1_sticky_is_murmur2_of_keys_and_runs_of_records_without(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(5)
    with Producer(bootstrap, partitioner="sticky", batch_size=2_000) as producer:
        keyed = [producer.send(topic, bytes(100), b"%d" % number) for number in range(50)]
        placed = [delivery.result(PATIENCE_S).partition for delivery in keyed]
        check_runs(producer, topic, None)
    assert placed == [partition_of_key(b"%d" % number, 5) for number in range(50)]


def test_p1_with_keys_ignored_one_key_goes_in_runs_to_many_partitions(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(5)
    with Producer(bootstrap, partitioner_ignore_keys=True, batch_size=2_000) as producer:
        check_runs(producer, topic, b"always the same")
    assert {record.key for record in read_log(bootstrap, topic)} == {b"always the same"}


def check_runs(producer: Producer, topic: str, key: bytes | None) -> None:
    """Several partitions get records, each about a batch, some twenty, before it is another's turn."""
    deliveries: list[Delivery] = []
    for number in range(600):
        deliveries.append(producer.send(topic, bytes(100), key))
        if number % 30 == 29:
            # A producer that is ahead of its broker stays with a partition for longer.
            producer.flush(PATIENCE_S)
    partitions = [delivery.result(PATIENCE_S).partition for delivery in deliveries]
    changes = sum(one != other for one, other in pairwise(partitions))
    assert len(set(partitions)) > 1
    assert changes <= len(partitions) / 10


def test_p1_a_partitioner_of_another_name_is_refused(bootstrap: str) -> None:
    with pytest.raises(ConfigError, match="'murmur2' or 'sticky', which are the same, 'round_robin'"):
        Producer(bootstrap, partitioner="random")  # type: ignore[arg-type]


def test_p1_round_robin_gives_each_partition_its_turn(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    with Producer(bootstrap, partitioner="round_robin") as producer:
        for number in range(9):
            producer.send(topic, b"%d" % number, b"the same key")

    stored = read_log(bootstrap, topic)
    assert [record.partition for record in stored] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_p1_a_partitioner_of_the_users_own_decides(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    seen: list[tuple[object, ...]] = []

    def last(topic: str, key: bytes | None, value: bytes | None, partitions: object) -> int:
        seen.append((topic, key, value, partitions))
        return 2

    with Producer(bootstrap, partitioner=last) as producer:
        assert producer.send(topic, b"v", b"k").result(PATIENCE_S).partition == 2
    assert seen == [(topic, b"k", b"v", range(3))]


def test_p1_serializers_make_bytes_and_are_not_asked_about_none(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(
        bootstrap, key_serializer=str.encode, value_serializer=lambda value: b"%d" % value
    ) as producer:
        producer.send(topic, 42, "key")
        producer.send(topic, None, None)

    assert [(record.key, record.value) for record in read_log(bootstrap, topic)] == [
        (b"key", b"42"),
        (None, None),
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_p3_batches_are_compressed_and_come_back_whole(
    bootstrap: str, new_topic: NewTopic, codec: Codec
) -> None:
    topic = new_topic()
    values = [b"a line that repeats itself " * 4 + b"%d" % number for number in range(2000)]
    with Producer(bootstrap, compression_type=codec) as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush(PATIENCE_S)
        ratio = producer.metrics()["compression_ratio"]

    assert [record.value for record in read_log(bootstrap, topic)] == values
    assert {batch.codec for batch in raw.batches(bootstrap, topic, 0)} == {codec}
    assert ratio == 1.0 if codec == "none" else ratio < 0.5


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 12), ("zstd", 1, 19)])
def test_p3_a_higher_level_packs_tighter(
    bootstrap: str, new_topic: NewTopic, codec: Codec, low: int, high: int
) -> None:
    topic = new_topic()
    value = b" ".join(b"%d" % (number * number) for number in range(20_000))
    sent: list[int] = []
    for level in (low, high):
        with Producer(bootstrap, compression_type=codec, compression_level=level) as producer:
            producer.send(topic, value).result(PATIENCE_S)
            sent.append(producer.metrics()["bytes_sent"])
    assert sent[1] < sent[0]
    assert [record.value for record in read_log(bootstrap, topic)] == [value, value]


def test_p2_a_full_batch_goes_though_the_linger_is_long(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap, linger_ms=100_000, batch_size=1000) as producer:
        waiting = producer.send(topic, bytes(100))
        with pytest.raises(TimedOut):
            waiting.result(0.2)
        producer.send(topic, bytes(1000))
        assert waiting.result(PATIENCE_S).offset == 0


def test_p2_a_batch_that_is_not_full_goes_when_it_has_lingered(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap, linger_ms=200, batch_size=100_000) as producer:
        producer.partitions_for(topic)
        producer.send(topic, b"before").result(PATIENCE_S)
        began = time.monotonic()
        producer.send(topic, b"x").result(PATIENCE_S)
        assert time.monotonic() - began >= 0.15


def test_p2_a_flush_sends_what_has_not_lingered(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap, linger_ms=100_000) as producer:
        deliveries = [producer.send(topic, b"%d" % number) for number in range(10)]
        producer.flush(PATIENCE_S)
        assert [delivery.done() for delivery in deliveries] == [True] * 10
        assert [delivery.result().offset for delivery in deliveries] == list(range(10))


def test_p2_a_lack_of_memory_sends_what_has_not_lingered(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    with Producer(bootstrap, linger_ms=100_000, batch_size=1_000_000, buffer_memory=10_000) as producer:
        for number in range(50):
            producer.send(topic, bytes(1000), partition=number % 2)
        assert producer.metrics()["records_delivered"] > 0
    assert len(read_log(bootstrap, topic)) == 50


def test_leaving_the_block_loses_nothing(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    with Producer(bootstrap, linger_ms=100_000) as producer:
        deliveries = [producer.send(topic, b"%d" % number) for number in range(5000)]
    assert all(delivery.exception() is None for delivery in deliveries)
    assert sorted(int(record.value or b"") for record in read_log(bootstrap, topic)) == list(range(5000))


def test_threads_may_send_at_once_and_each_ones_order_is_kept(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    with Producer(bootstrap, batch_size=500) as producer:

        def send_all(thread: int) -> None:
            for number in range(1000):
                producer.send(topic, b"%d" % number, b"%d" % thread)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(send_all, range(4)))

    by_thread: defaultdict[bytes | None, list[int]] = defaultdict(list)
    for record in read_log(bootstrap, topic):
        by_thread[record.key].append(int(record.value or b""))
    assert by_thread == {b"%d" % thread: list(range(1000)) for thread in range(4)}


def test_callbacks_are_called_on_the_network_thread_in_order(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    told: list[int] = []
    threads: set[int] = set()

    with Producer(bootstrap) as producer:

        def note(metadata: object, error: EverlogError | None) -> None:
            assert error is None
            threads.add(threading.get_ident())
            told.append(metadata.offset)  # type: ignore[attr-defined]

        for number in range(3000):
            producer.send(topic, b"%0100d" % number, on_delivery=note)
    assert told == list(range(3000))
    assert threading.get_ident() not in threads


def test_a_callback_is_called_on_the_network_thread_though_the_record_was_delivered_within_send(
    bootstrap: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    threads: list[int] = []
    append = Accumulator.append

    def append_and_wait(accumulator: Accumulator, *arguments: Any) -> Delivery | None:
        delivery = append(accumulator, *arguments)
        assert delivery is not None
        delivery.result(PATIENCE_S)
        return delivery

    monkeypatch.setattr(Accumulator, "append", append_and_wait)
    with Producer(bootstrap, value_serializer=bytes) as producer:
        producer.send(topic, b"x", on_delivery=lambda _found, _error: threads.append(threading.get_ident()))
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


def test_a_callback_that_fails_is_logged_and_stops_nothing(
    bootstrap: str, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()

    def fail(metadata: object, error: EverlogError | None) -> None:
        raise ValueError("a bug of the application")

    with Producer(bootstrap) as producer:
        producer.send(topic, b"1", on_delivery=fail)
        producer.flush(PATIENCE_S)
        assert producer.send(topic, b"2").result(PATIENCE_S).offset == 1
    assert "a bug of the application" in caplog.text


def test_a_callback_may_send(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        producer.send(topic, b"1").result(PATIENCE_S)
        producer.send(topic, b"2", on_delivery=lambda _found, _error: producer.send(topic, b"3"))
        producer.flush(PATIENCE_S)
    assert [record.value for record in read_log(bootstrap, topic)] == [b"1", b"2", b"3"]


def test_a_callback_that_would_wait_for_itself_is_told(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    caught: list[Exception] = []
    with Producer(bootstrap) as producer:

        def wait(metadata: object, error: EverlogError | None) -> None:
            try:
                producer.flush()
            except EverlogError as refused:
                caught.append(refused)

        producer.send(topic, b"1", on_delivery=wait)
    assert "may not wait" in str(caught[0])


def test_an_unknown_topic_is_refused_where_it_may_not_be_created(
    bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    with Producer(bootstrap, allow_auto_create_topics=False) as producer:
        with pytest.raises(Refused) as caught:
            producer.send(fresh_topic(), b"x")
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_is_created_by_sending_to_it(bootstrap: str, fresh_topic: Callable[[], str]) -> None:
    topic = fresh_topic()
    with Producer(bootstrap) as producer:
        assert producer.send(topic, b"x").result(PATIENCE_S).offset == 0


def test_an_unknown_partition_is_refused(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    with Producer(bootstrap) as producer, pytest.raises(Refused, match="from 0 to 1"):
        producer.send(topic, b"x", partition=2)


def test_partitions_that_are_added_are_used(bootstrap: str, new_topic: NewTopic) -> None:
    from everlog.client.sync.admin import Admin

    topic = new_topic(1)
    with Producer(bootstrap, metadata_max_age_ms=300) as producer, Admin(bootstrap) as admin:
        producer.send(topic, b"x").result(PATIENCE_S)
        admin.create_partitions({topic: 3})
        deadline = time.monotonic() + PATIENCE_S
        while len(producer.partitions_for(topic)) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert producer.send(topic, b"y", partition=2).result(PATIENCE_S).partition == 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"value": 1}, "value should be bytes"),
        ({"value": b"", "key": "text"}, "key should be bytes"),
        ({"value": b"", "key": 7}, "key should be bytes"),
        ({"value": b"", "headers": [("a", 1)]}, "a header's value should be bytes"),
        ({"value": b"", "headers": {"a": b""}}, "headers should be a list"),
    ],
)
@pytest.mark.parametrize("partitioner", ["murmur2", "round_robin"])
def test_a_record_of_the_wrong_kind_is_refused_by_name(
    bootstrap: str,
    new_topic: NewTopic,
    wrong: dict[str, object],
    words: str,
    partitioner: Literal["murmur2", "round_robin"],
) -> None:
    topic = new_topic()
    with Producer(bootstrap, partitioner=partitioner) as producer:
        with pytest.raises(UnsendableType, match=f"a record for {topic}-0: {words}") as refused:
            producer.send(topic, **wrong)  # type: ignore[arg-type]
        assert isinstance(refused.value, TypeError)
        assert not refused.value.retriable
        assert producer.send(topic, b"right").result(PATIENCE_S).offset == 0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"partition": "0"}, "partition is '0': expected a number from 0 to 1"),
        ({"partition": 0.5}, "partition is 0.5: expected a number from 0 to 1"),
        ({"topic": 5}, "a record for topic 5: expected its name, a str"),
        ({"topic": b"orders"}, "a record for topic b'orders': expected its name"),
        ({"topic": ["orders"]}, r"a record for topic \['orders'\]: expected its name"),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused_by_name(
    bootstrap: str, new_topic: NewTopic, wrong: dict[str, Any], words: str
) -> None:
    topic = new_topic(2)
    given: dict[str, Any] = {"topic": topic, "value": b"x", **wrong}

    async def on_a_loop() -> None:
        async with aio.Producer(bootstrap) as producer:
            with pytest.raises(UnsendableType, match=words):
                await producer.send(**given)

    with Producer(bootstrap) as producer:
        producer.send(topic, b"known now").result(PATIENCE_S)
        with pytest.raises(UnsendableType, match=words) as refused:
            producer.send(**given)
        assert isinstance(refused.value, TypeError)
        if "topic" in wrong:
            with pytest.raises(UnsendableType, match=words):
                producer.send_arrow(wrong["topic"], None)
    asyncio.run(on_a_loop())


@pytest.mark.parametrize("chosen", ["0", None, 1.0])
def test_a_partitioner_that_gives_no_number_is_told_so(
    bootstrap: str, new_topic: NewTopic, chosen: Any
) -> None:
    topic = new_topic(2)

    def choose(topic: str, key: bytes | None, value: bytes | None, partitions: object) -> Any:
        return chosen

    with (
        Producer(bootstrap, partitioner=choose) as producer,
        pytest.raises(UnsendableType, match=f"{topic}: the partitioner chose {chosen!r}: expected a number"),
    ):
        producer.send(topic, b"x")


@pytest.mark.parametrize("timestamp", [-5, 1 << 63])
def test_a_time_that_no_record_can_have_is_refused_by_name(
    bootstrap: str, new_topic: NewTopic, timestamp: int
) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        with pytest.raises(Unsendable, match=f"a record for {topic}-0: timestamp is {timestamp}") as refused:
            producer.send(topic, b"x", timestamp=timestamp)
        assert isinstance(refused.value, ValueError)
        assert producer.send(topic, b"right").result(PATIENCE_S).offset == 0


def test_a_record_above_max_request_size_is_refused_at_once(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap, max_request_size=10_000) as producer:
        with pytest.raises(Refused, match="max_request_size, 10000") as caught:
            producer.send(topic, bytes(10_000))
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        producer.send(topic, bytes(9_000)).result(PATIENCE_S)


def test_batches_that_the_broker_finds_too_large_are_split_and_nothing_is_lost_or_doubled(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(1, max_message_bytes="20000")
    with Producer(bootstrap, linger_ms=100_000, batch_size=1_000_000) as producer:
        deliveries = [producer.send(topic, b"%06d" % number + bytes(494)) for number in range(1000)]
        producer.flush(PATIENCE_S)
        assert [delivery.result().offset for delivery in deliveries] == list(range(1000))
        assert producer.metrics()["batches_split"] > 0
    assert [int((record.value or b"")[:6]) for record in read_log(bootstrap, topic)] == list(range(1000))


def test_a_single_record_that_the_broker_finds_too_large_fails_alone(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(1, max_message_bytes="5000")
    with Producer(bootstrap) as producer:
        before = producer.send(topic, b"before")
        large = producer.send(topic, bytes(50_000))
        after = producer.send(topic, b"after")
        producer.flush(PATIENCE_S)
        error = large.exception()
        assert isinstance(error, Refused)
        assert error.code is ErrorCode.MESSAGE_TOO_LARGE
        assert before.exception() is None
        assert after.exception() is None
    assert [record.value for record in read_log(bootstrap, topic)] == [b"before", b"after"]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_p4_each_kind_of_acks_delivers(bootstrap: str, new_topic: NewTopic, acks: int | str) -> None:
    topic = new_topic()
    with Producer(bootstrap, acks=acks) as producer:  # type: ignore[arg-type]
        found = [producer.send(topic, b"%d" % number) for number in range(500)]
        producer.flush(PATIENCE_S)
        offsets = [delivery.result().offset for delivery in found]
    assert offsets == ([-1] * 500 if acks == 0 else list(range(500)))
    raw.wait_for_ends(bootstrap, topic, {0: 500}, PATIENCE_S)
    assert [int(record.value or b"") for record in read_log(bootstrap, topic)] == list(range(500))


def test_p4_batches_carry_sequence_numbers_by_default_and_none_if_not_wanted(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    for idempotent in (True, False):
        with Producer(bootstrap, enable_idempotence=idempotent) as producer:
            for number in range(3):
                producer.send(topic, b"%d" % number).result(PATIENCE_S)
    batches = raw.batches(bootstrap, topic, 0)
    assert [batch.base_sequence for batch in batches] == [0, 1, 2, -1, -1, -1]
    assert [batch.producer_id >= 0 for batch in batches] == [True] * 3 + [False] * 3


def test_metrics_count_what_was_done(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        for _ in range(100):
            producer.send(topic, bytes(100))
        producer.flush(PATIENCE_S)
        found = producer.metrics()
    assert found["records_sent"] == found["records_delivered"] == 100
    assert found["records_failed"] == found["retries"] == found["buffer_used_bytes"] == 0
    assert 100 * 100 < found["bytes_sent"] < 100 * 200
    assert 0 < found["request_latency_avg_ms"] <= found["request_latency_max_ms"]
    assert found["records_per_batch_avg"] >= 1


def test_metrics_tell_of_batches_that_wait_and_of_those_that_left(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    with Producer(bootstrap, linger_ms=60_000) as producer:
        for number in range(100):
            producer.send(topic, bytes(100), partition=number % 2)
        waiting = producer.metrics()
        producer.flush(PATIENCE_S)
        left = producer.metrics()
    assert (waiting["batches_waiting"], waiting["batches_sent"], waiting["requests_sent"]) == (2, 0, 0)
    assert (left["batches_waiting"], left["batches_sent"]) == (0, 2)
    assert left["requests_sent"] in (1, 2)
    # Nothing is compressed, so that a batch leaves as large as it was.
    assert left["batch_size_avg"] == left["bytes_sent"] / 2
    assert 50 * 100 < left["batch_size_avg"] < 50 * 120
    assert 0 < left["queue_time_avg_ms"] < 60_000


def test_a_closed_producer_refuses(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    producer = Producer(bootstrap)
    producer.send(topic, b"x")
    producer.close(PATIENCE_S)
    producer.close()
    with pytest.raises(Closed):
        producer.send(topic, b"y")
    with pytest.raises(Closed):
        producer.flush()


def test_a_wrong_setting_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="did you mean linger_ms"):
        Producer("127.0.0.1:1", linger=5)  # type: ignore[call-arg]


def test_a_send_without_a_broker_gives_up_by_name_after_max_block_ms() -> None:
    with (
        Producer("127.0.0.1:1", max_block_ms=300) as producer,
        pytest.raises(EverlogError, match=r"127\.0\.0\.1:1"),
    ):
        producer.send("orders", b"x")

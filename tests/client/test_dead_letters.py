"""Records whose handler fails become dead letters, and nothing is committed before that (C8)."""

import asyncio
import json
from collections.abc import Callable, Generator

import pytest

import everlog
from everlog import aio
from everlog.admin import TopicPartition
from everlog.client.core.dead_letters import DeadLetter, Handled, read_dead_letter
from tests.client.conftest import NewTopic
from tests.client.log_reading import read_log

FreshName = Callable[[], str]
PATIENCE_S = 60.0


class Wrong(Exception):
    """What a handler raises here."""


@pytest.fixture
def producer(bootstrap: str) -> Generator[everlog.Producer]:
    """A producer without a transactional id."""
    with everlog.Producer(bootstrap) as producer:
        yield producer


def consumer_of(
    bootstrap: str, topic: str, group_id: str, *, committed_only: bool = False
) -> everlog.Consumer:
    return everlog.Consumer(
        bootstrap,
        topics=[topic],
        group_id=group_id,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed" if committed_only else "read_uncommitted",
    )


def write(producer: everlog.Producer, topic: str, *values: bytes) -> None:
    for value in values:
        producer.send(topic, value, b"key", headers=[("own", b"1")]).result(PATIENCE_S)


def handle_all(
    letters: everlog.DeadLetters,
    consumer: everlog.Consumer,
    handler: Callable[[everlog.ConsumerRecord], object],
    count: int,
) -> Handled:
    """Poll until so many records were handled or given up."""
    done = Handled()
    while done.handled + done.dead < count:
        done += letters.process(consumer.poll(PATIENCE_S), handler)
    return done


def letters_in(bootstrap: str, topic: str) -> list[DeadLetter]:
    """The dead letters of a topic, as our own consumer reads them."""
    found: list[DeadLetter] = []
    expected = len(read_log(bootstrap, topic))
    with everlog.Consumer(bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        while len(found) < expected:
            found += [letter for each in consumer.poll(PATIENCE_S) if (letter := read_dead_letter(each))]
    return found


def committed(bootstrap: str, group_id: str, topic: str) -> int | None:
    with everlog.Admin(bootstrap) as admin:
        found = admin.list_group_offsets(group_id)
    entry = found.get(TopicPartition(topic, 0))
    return None if entry is None else entry.offset


def test_a_record_is_tried_again_and_then_given_up_with_its_story(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName
) -> None:
    topic, group_id = new_topic(), fresh_topic()
    write(producer, topic, b"good", b"bad", b"better")
    seen: list[bytes] = []
    told: list[tuple[int, str]] = []

    def handle(record: everlog.ConsumerRecord) -> None:
        seen.append(record.value)
        if record.value == b"bad":
            raise Wrong("no such customer")

    with consumer_of(bootstrap, topic, group_id) as consumer:
        letters = everlog.DeadLetters(
            consumer,
            producer,
            tries=3,
            retry_backoff_ms=1,
            on_dead_letter=lambda record, error: told.append((record.offset, str(error))),
        )
        done = handle_all(letters, consumer, handle, 3)
        assert letters.run(handle, idle_timeout=0.1) == Handled()

    assert (done.handled, done.dead) == (2, 1)
    assert seen == [b"good", b"bad", b"bad", b"bad", b"better"]
    assert told == [(1, "no such customer")]
    assert committed(bootstrap, group_id, topic) == 3
    (letter,) = letters_in(bootstrap, f"{topic}.dlq")
    assert (letter.record.key, letter.record.value) == (b"key", b"bad")
    assert (letter.topic, letter.partition, letter.offset) == (topic, 0, 1)
    assert (letter.error, letter.message) == (f"{Wrong.__module__}.Wrong", "no such customer")
    assert (letter.tries, letter.group) == (3, group_id)
    assert letter.at is not None
    assert letter.timestamp is not None
    assert letter.at >= letter.timestamp
    assert letter.headers == (("own", b"1"),)


def test_what_cannot_be_read_and_what_is_fatal_is_given_up_at_once(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName
) -> None:
    topic = new_topic()
    write(producer, topic, b"{", b'{"n": 1}', b'{"n": 2}')
    seen: list[int] = []

    def handle(record: everlog.ConsumerRecord) -> None:
        seen.append(record.value["n"])
        if record.value["n"] == 2:
            raise Wrong("for ever")

    with consumer_of(bootstrap, topic, fresh_topic()) as consumer:
        letters = everlog.DeadLetters(
            consumer, producer, fatal=Wrong, value_deserializer=json.loads, topic="dead-" + topic
        )
        handle_all(letters, consumer, handle, 3)

    assert seen == [1, 2]
    broken, fatal = letters_in(bootstrap, "dead-" + topic)
    assert (broken.error, broken.record.value, broken.tries) == ("json.decoder.JSONDecodeError", b"{", 1)
    assert (fatal.message, fatal.record.value, fatal.tries) == ("for ever", b'{"n": 2}', 1)


def test_nothing_is_committed_behind_a_record_that_was_neither_handled_nor_buried(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName
) -> None:
    topic, group_id = new_topic(), fresh_topic()
    write(producer, topic, b"0", b"1", b"2", b"3")
    seen: list[bytes] = []

    def handle(record: everlog.ConsumerRecord) -> None:
        seen.append(record.value)
        if record.value == b"2" and seen.count(b"2") == 1:
            raise KeyboardInterrupt

    with consumer_of(bootstrap, topic, group_id) as consumer:
        letters = everlog.DeadLetters(consumer, producer)
        with pytest.raises(KeyboardInterrupt):
            letters.run(handle)
        assert committed(bootstrap, group_id, topic) == 2
        # The same consumer goes on with the record that was interrupted.
        handle_all(letters, consumer, handle, 2)

    assert seen == [b"0", b"1", b"2", b"2", b"3"]
    assert committed(bootstrap, group_id, topic) == 4


def test_a_dead_letter_that_cannot_be_delivered_keeps_its_record(
    bootstrap: str, new_topic: NewTopic, fresh_topic: FreshName
) -> None:
    topic, group_id = new_topic(), fresh_topic()
    new = new_topic(1, max_message_bytes="100")
    with everlog.Producer(bootstrap) as producer:
        write(producer, topic, b"bad" * 100)

        def handle(record: everlog.ConsumerRecord) -> None:
            raise Wrong

        with consumer_of(bootstrap, topic, group_id) as consumer:
            letters = everlog.DeadLetters(consumer, producer, topic=new, tries=1)
            for _ in range(2):
                with pytest.raises(everlog.Refused, match="MESSAGE_TOO_LARGE"):
                    letters.run(handle)

    assert committed(bootstrap, group_id, topic) is None


def test_stopping_ends_after_the_record_in_hand(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName
) -> None:
    topic, group_id = new_topic(), fresh_topic()
    write(producer, topic, b"0", b"1", b"2")

    with consumer_of(bootstrap, topic, group_id) as consumer:
        letters = everlog.DeadLetters(consumer, producer)
        done = letters.run(lambda _record: letters.stop())

    assert done.handled == 1
    assert committed(bootstrap, group_id, topic) == 1


def test_in_transactions_a_failed_try_leaves_nothing_behind(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName
) -> None:
    topic, out, group_id = new_topic(), new_topic(), fresh_topic()
    write(producer, topic, b"0", b"bad", b"2")

    with everlog.Producer(bootstrap, transactional_id=fresh_topic()) as copier:
        copier.init_transactions()

        def handle(record: everlog.ConsumerRecord) -> None:
            copier.send(out, record.value)
            if record.value == b"bad":
                raise Wrong("after it was sent")

        with consumer_of(bootstrap, topic, group_id, committed_only=True) as consumer:
            letters = everlog.DeadLetters(consumer, copier, tries=2, retry_backoff_ms=1)
            done = handle_all(letters, consumer, handle, 3)

    assert (done.handled, done.dead) == (2, 1)
    assert [record.value for record in read_log(bootstrap, out)] == [b"0", b"2"]
    (letter,) = letters_in(bootstrap, f"{topic}.dlq")
    assert (letter.record.value, letter.tries) == (b"bad", 2)
    assert committed(bootstrap, group_id, topic) == 3


def test_the_asyncio_face_does_the_same(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName
) -> None:
    topic, group_id = new_topic(), fresh_topic()
    write(producer, topic, b"good", b"bad")
    seen: list[bytes] = []

    async def handle(record: everlog.ConsumerRecord) -> None:
        await asyncio.sleep(0)
        seen.append(record.value)
        if record.value == b"bad":
            raise Wrong("async")

    async def work() -> tuple[int, int]:
        async with (
            aio.Producer(bootstrap) as out,
            aio.Consumer(
                bootstrap,
                topics=[topic],
                group_id=group_id,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
            ) as consumer,
        ):
            letters = aio.DeadLetters(consumer, out, tries=2, retry_backoff_ms=1)
            done = Handled()
            while done.handled + done.dead < 2:
                done += await letters.process(await consumer.poll(PATIENCE_S), handle)
            assert await letters.run(handle, idle_timeout=0.1) == Handled()
            return done.handled, done.dead

    assert asyncio.run(work()) == (1, 1)
    assert seen == [b"good", b"bad", b"bad"]
    (letter,) = letters_in(bootstrap, f"{topic}.dlq")
    assert (letter.message, letter.tries) == ("async", 2)
    assert committed(bootstrap, group_id, topic) == 2


def test_settings_that_would_lose_records_are_refused_by_name(
    bootstrap: str, producer: everlog.Producer
) -> None:
    with (
        everlog.Consumer(bootstrap, group_id="g") as committing,
        everlog.Consumer(bootstrap) as alone,
        everlog.Consumer(bootstrap, group_id="g", enable_auto_commit=False) as fit,
    ):
        with pytest.raises(everlog.ConfigError, match="enable_auto_commit=True"):
            everlog.DeadLetters(committing, producer)
        with pytest.raises(everlog.ConfigError, match="group_id=None"):
            everlog.DeadLetters(alone, producer)
        with pytest.raises(everlog.ConfigError, match="tries=0"):
            everlog.DeadLetters(fit, producer, tries=0)
        with pytest.raises(everlog.ConfigError, match="topic='no/name'"):
            everlog.DeadLetters(fit, producer, topic="no/name")
        with (
            everlog.Producer(bootstrap, value_serializer=str.encode) as typed,
            pytest.raises(everlog.ConfigError, match="value_serializer of the producer"),
        ):
            everlog.DeadLetters(fit, typed)

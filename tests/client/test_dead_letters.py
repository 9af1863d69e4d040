"""Records whose handler fails become dead letters, and nothing is committed before that (C8)."""

import asyncio
import json
import time
from collections.abc import Callable, Generator

import pytest

import everlog
from everlog.admin import TopicPartition
from everlog.client.aio import dead_letters as asyncio_letters
from everlog.client.core.dead_letters import DeadLetter, DeadLetterOptions, Handled, read_dead_letter
from everlog.client.sync import dead_letters as blocking_letters
from tests.client.conftest import NewTopic, topic_maker
from tests.client.dead_letter_faces import FACES, PATIENCE_S, Face, open_worker
from tests.client.log_reading import read_log
from tests.conformance.target import Target

FreshName = Callable[[], str]

INTERRUPTED_S = 10.0
"""Far less than a commit or an abort waits for a broker by default."""

both_faces = pytest.mark.parametrize("face", FACES)


class Wrong(Exception):
    """What a handler raises here."""


@pytest.fixture
def producer(bootstrap: str) -> Generator[everlog.Producer]:
    """A producer without a transactional id."""
    with everlog.Producer(bootstrap) as producer:
        yield producer


def write(producer: everlog.Producer, topic: str, *values: bytes) -> None:
    for value in values:
        producer.send(topic, value, b"key", headers=[("own", b"1")]).result(PATIENCE_S)


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


@both_faces
def test_a_record_is_tried_again_and_then_given_up_with_its_story(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName, face: Face
) -> None:
    topic, group_id = new_topic(), fresh_topic()
    write(producer, topic, b"good", b"bad", b"better")
    seen: list[bytes] = []
    told: list[tuple[int, str]] = []

    async def handle(record: everlog.ConsumerRecord) -> None:
        seen.append(record.value)
        if record.value == b"bad":
            raise Wrong("no such customer")

    options: DeadLetterOptions = {
        "tries": 3,
        "retry_backoff_ms": 1,
        "on_dead_letter": lambda record, error: told.append((record.offset, str(error))),
    }
    with open_worker(face, bootstrap, topic, group_id, options) as worker:
        done = worker.handle_all(handle, 3)
        assert worker.run(handle, idle_timeout=0.1) == Handled()

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


@both_faces
def test_what_cannot_be_read_and_what_is_fatal_is_given_up_at_once(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName, face: Face
) -> None:
    topic = new_topic()
    write(producer, topic, b"{", b'{"n": 1}', b'{"n": 2}')
    seen: list[int] = []

    async def handle(record: everlog.ConsumerRecord) -> None:
        seen.append(record.value["n"])
        if record.value["n"] == 2:
            raise Wrong("for ever")

    options: DeadLetterOptions = {"fatal": Wrong, "value_deserializer": json.loads, "topic": "dead-" + topic}
    with open_worker(face, bootstrap, topic, fresh_topic(), options) as worker:
        worker.handle_all(handle, 3)

    assert seen == [1, 2]
    broken, fatal = letters_in(bootstrap, "dead-" + topic)
    assert (broken.error, broken.record.value, broken.tries) == ("json.decoder.JSONDecodeError", b"{", 1)
    assert (fatal.message, fatal.record.value, fatal.tries) == ("for ever", b'{"n": 2}', 1)


@pytest.mark.parametrize(
    ("face", "interrupt"),
    [*((face, KeyboardInterrupt) for face in FACES), ("asyncio", asyncio.CancelledError)],
)
def test_nothing_is_committed_behind_a_record_that_was_neither_handled_nor_buried(
    bootstrap: str,
    producer: everlog.Producer,
    new_topic: NewTopic,
    fresh_topic: FreshName,
    face: Face,
    interrupt: type[BaseException],
) -> None:
    topic, group_id = new_topic(), fresh_topic()
    write(producer, topic, b"0", b"1", b"2", b"3")
    seen: list[bytes] = []

    async def handle(record: everlog.ConsumerRecord) -> None:
        seen.append(record.value)
        if record.value == b"2" and seen.count(b"2") == 1:
            raise interrupt

    with open_worker(face, bootstrap, topic, group_id) as worker:
        with pytest.raises(interrupt):
            worker.run(handle)
        assert committed(bootstrap, group_id, topic) == 2
        # The same consumer goes on with the record that was interrupted.
        worker.handle_all(handle, 2)

    assert seen == [b"0", b"1", b"2", b"2", b"3"]
    assert committed(bootstrap, group_id, topic) == 4


INTERRUPTS = [*((face, KeyboardInterrupt) for face in FACES), ("asyncio", asyncio.CancelledError)]


@pytest.mark.parametrize(("face", "interrupt"), INTERRUPTS)
@pytest.mark.parametrize("is_transactional", [False, True], ids=["alone", "transactional"])
def test_an_interrupt_is_not_lost_to_a_broker_that_says_nothing(
    victim: Target,
    fresh_topic: FreshName,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    face: Face,
    interrupt: type[BaseException],
    is_transactional: bool,
) -> None:
    for module in (blocking_letters, asyncio_letters):
        monkeypatch.setattr(module, "LAST_COMMIT_S", 0.3)
    new_topic = topic_maker(victim.bootstrap, fresh_topic)
    topic, out, group_id = new_topic(), new_topic(), fresh_topic()
    with everlog.Producer(victim.bootstrap) as producer:
        write(producer, topic, b"0", b"1", b"2")
    seen: list[bytes] = []
    began = 0.0

    async def handle(record: everlog.ConsumerRecord) -> None:
        nonlocal began
        seen.append(record.value)
        if record.value == b"2" and seen.count(b"2") == 1:
            await worker.flush()
            victim.pause()
            began = time.monotonic()
            raise interrupt
        await worker.send(out, record.value)

    transactional_id = fresh_topic() if is_transactional else None
    with open_worker(face, victim.bootstrap, topic, group_id, transactional_id=transactional_id) as worker:
        with pytest.raises(interrupt):
            worker.run(handle)
        assert time.monotonic() - began < INTERRUPTED_S
        assert "interrupted, and what was handled before could not be settled" in caplog.text
        victim.resume()
        if not is_transactional:
            # What is not known to be committed comes again.
            worker.handle_all(handle, 3)
            assert seen == [b"0", b"1", b"2", b"0", b"1", b"2"]
            assert committed(victim.bootstrap, group_id, topic) == 3


@both_faces
def test_what_a_handler_sent_is_delivered_before_its_record_is_committed(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName, face: Face
) -> None:
    topic, out = new_topic(), new_topic()
    write(producer, topic, b"0", b"1")

    with open_worker(face, bootstrap, topic, fresh_topic(), linger_ms=60_000) as worker:

        async def handle(record: everlog.ConsumerRecord) -> None:
            await worker.send(out, record.value)

        worker.handle_all(handle, 2)
        assert [record.value for record in read_log(bootstrap, out)] == [b"0", b"1"]


@both_faces
def test_a_dead_letter_that_cannot_be_delivered_keeps_its_record(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName, face: Face
) -> None:
    topic, group_id = new_topic(), fresh_topic()
    options: DeadLetterOptions = {"topic": new_topic(1, max_message_bytes="100"), "tries": 1}
    write(producer, topic, b"bad" * 100)

    async def handle(record: everlog.ConsumerRecord) -> None:
        raise Wrong

    with open_worker(face, bootstrap, topic, group_id, options) as worker:
        for _ in range(2):
            with pytest.raises(everlog.Refused, match="MESSAGE_TOO_LARGE"):
                worker.run(handle)

    assert committed(bootstrap, group_id, topic) is None


@both_faces
def test_stopping_ends_after_the_record_in_hand(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName, face: Face
) -> None:
    topic, group_id = new_topic(), fresh_topic()
    write(producer, topic, b"0", b"1", b"2")

    with open_worker(face, bootstrap, topic, group_id) as worker:

        async def handle(_record: everlog.ConsumerRecord) -> None:
            worker.stop()

        done = worker.run(handle)

    assert done.handled == 1
    assert committed(bootstrap, group_id, topic) == 1


@both_faces
def test_stopping_before_the_run_begins_ends_it_at_once_and_only_that_one(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName, face: Face
) -> None:
    topic = new_topic()
    write(producer, topic, b"0")

    async def handle(_record: everlog.ConsumerRecord) -> None:
        worker.stop()

    with open_worker(face, bootstrap, topic, fresh_topic()) as worker:
        worker.stop()
        assert worker.run(handle) == Handled()
        assert worker.run(handle) == Handled(1, 0)


@both_faces
def test_in_transactions_a_failed_try_leaves_nothing_behind(
    bootstrap: str, producer: everlog.Producer, new_topic: NewTopic, fresh_topic: FreshName, face: Face
) -> None:
    topic, out, group_id = new_topic(), new_topic(), fresh_topic()
    write(producer, topic, b"0", b"bad", b"2")

    options: DeadLetterOptions = {"tries": 2, "retry_backoff_ms": 1}
    with open_worker(face, bootstrap, topic, group_id, options, transactional_id=fresh_topic()) as worker:

        async def handle(record: everlog.ConsumerRecord) -> None:
            await worker.send(out, record.value)
            if record.value == b"bad":
                raise Wrong("after it was sent")

        done = worker.handle_all(handle, 3)

    assert (done.handled, done.dead) == (2, 1)
    assert [record.value for record in read_log(bootstrap, out)] == [b"0", b"2"]
    (letter,) = letters_in(bootstrap, f"{topic}.dlq")
    assert (letter.record.value, letter.tries) == (b"bad", 2)
    assert committed(bootstrap, group_id, topic) == 3


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

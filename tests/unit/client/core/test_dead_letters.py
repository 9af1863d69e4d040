"""What is decided about records that fail: how often they are tried, and what is committed when (C8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlog.client.core.dead_letters import (
    Abort,
    Answer,
    Begin,
    Bury,
    DeadLetterSettings,
    Handle,
    Handling,
    Settle,
    Step,
    Stop,
    Wait,
    decoded,
    letter_headers,
    read_dead_letter,
    tries_before,
)
from everlog.model.topics import TopicPartition
from everlog.records.rows import ConsumerRecord

NOW = 1_700_000_000_000
PLACE = TopicPartition("orders", 0)


def a_record(
    offset: int, headers: tuple[tuple[str, bytes | None], ...] = (), partition: int = 0
) -> ConsumerRecord:
    return ConsumerRecord("orders", partition, offset, 1000 + offset, 0, b"key", b"value", headers, 7)


def settings(tries: int = 3) -> DeadLetterSettings:
    return DeadLetterSettings(tries=tries, retry_backoff_ms=10, retry_backoff_max_ms=25)


class World:
    """Does what is asked, with a handler that fails so often for each offset, and keeps what became of it."""

    def __init__(
        self, failures: dict[int, int], *, transactional: bool, stop_after: int | None = None
    ) -> None:
        self.failures = dict(failures)
        self.transactional = transactional
        self.stop_after = stop_after
        self.steps: list[Step] = []
        self.effects: list[tuple[str, int]] = []
        """Committed effects of handlers and dead letters, by offset."""
        self.open: list[tuple[str, int]] = []
        self.committed = 0
        self.calls = 0
        self.in_transaction = False

    def run(self, handling: Handling) -> None:
        steps = handling.steps()
        answer: Answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return
            self.steps.append(step)
            answer = self._do(step)

    def _do(self, step: Step) -> Answer:
        match step:
            case Begin():
                assert not self.in_transaction
                self.in_transaction, self.open = True, []
            case Abort():
                assert self.in_transaction
                self.in_transaction, self.open = False, []
            case Handle(record):
                assert self.in_transaction == self.transactional
                if self.calls == self.stop_after:
                    return Stop()
                self.calls += 1
                # The worst handler: it has its effect, and fails then.
                self.open.append(("handled", record.offset))
                if self.failures.get(record.offset, 0):
                    self.failures[record.offset] -= 1
                    if not self.transactional:
                        self.open.pop()
                    return ValueError("no")
            case Bury(record):
                self.open.append(("dead", record.offset))
            case Settle(offsets):
                self.effects += self.open
                self.open = []
                self.in_transaction = False
                assert offsets[PLACE].offset > self.committed
                self.committed = offsets[PLACE].offset
            case Wait():
                assert not self.in_transaction
        return None


@pytest.mark.parametrize("transactional", [False, True])
def test_a_record_is_given_up_after_its_last_try_and_the_others_are_handled(transactional: bool) -> None:
    world = World({1: 99, 2: 2}, transactional=transactional)
    handling = Handling(settings(), [a_record(offset) for offset in range(4)], transactional=transactional)

    world.run(handling)

    assert world.effects == [("handled", 0), ("dead", 1), ("handled", 2), ("handled", 3)]
    assert (handling.outcome.handled, handling.outcome.dead) == (3, 1)
    assert [step.tries for step in world.steps if isinstance(step, Bury)] == [3]
    assert [step.seconds for step in world.steps if isinstance(step, Wait)] == [0.01, 0.02] * 2
    assert handling.unsettled == {}


@given(
    st.dictionaries(st.integers(0, 5), st.integers(0, 5), max_size=6),
    st.integers(1, 4),
    st.booleans(),
    st.none() | st.integers(0, 20),
)
def test_whatever_fails_and_whenever_it_stops_each_committed_record_has_one_effect(
    failures: dict[int, int], tries: int, transactional: bool, stop_after: int | None
) -> None:
    records = [a_record(offset) for offset in range(6)]
    world = World(failures, transactional=transactional, stop_after=stop_after)
    handling = Handling(settings(tries), records, transactional=transactional)

    world.run(handling)

    expected = [
        ("dead" if failures.get(offset, 0) >= tries else "handled", offset)
        for offset in range(world.committed)
    ]
    assert world.effects == expected
    assert handling.unsettled == ({PLACE: world.committed} if world.committed < 6 else {})
    if stop_after is None:
        assert world.committed == 6


def test_partitions_are_settled_each_by_its_own_offsets() -> None:
    records = [a_record(5), a_record(9, partition=1), a_record(6)]
    world = list(Handling(settings(), records, transactional=False).steps())

    (settled,) = (step for step in world if isinstance(step, Settle))
    assert {str(place): entry.offset for place, entry in settled.offsets.items()} == {
        "orders-0": 7,
        "orders-1": 10,
    }
    assert settled.offsets[PLACE].leader_epoch == 7


def test_headers_tell_the_story_and_are_read_back() -> None:
    own = (("own", b"1"), ("empty", None))
    record = a_record(4, own)

    headers = letter_headers(record, KeyError("customer"), 3, "billing", NOW)
    letter = read_dead_letter(ConsumerRecord("orders.dlq", 0, 0, NOW, 0, b"k", b"v", headers))

    assert letter is not None
    assert (letter.topic, letter.partition, letter.offset, letter.timestamp) == ("orders", 0, 4, 1004)
    assert (letter.error, letter.message, letter.tries) == ("KeyError", "'customer'", 3)
    assert (letter.at, letter.group, letter.headers) == (NOW, "billing", own)


def test_tries_are_counted_on_when_a_letter_was_sent_back() -> None:
    first = letter_headers(a_record(4), ValueError(), 3, "billing", NOW)
    letter = read_dead_letter(ConsumerRecord("orders.dlq", 0, 0, NOW, 0, None, None, first))
    assert letter is not None
    again = a_record(9, letter.replay_headers)

    assert tries_before(again) == 3
    second = dict(letter_headers(again, ValueError(), 2, "billing", NOW))
    assert (second["dead-letter.tries"], second["dead-letter.offset"]) == (b"5", b"9")


def test_what_is_no_dead_letter_is_told_apart_and_broken_numbers_are_none() -> None:
    assert read_dead_letter(a_record(0, (("dead-letter.tries", b"3"),))) is None
    broken = read_dead_letter(a_record(0, (("dead-letter.topic", b"t"), ("dead-letter.offset", b"x"))))
    assert broken is not None
    assert (broken.offset, broken.tries, broken.error) == (None, 0, "")


def test_a_long_message_is_cut() -> None:
    told = dict(letter_headers(a_record(0), ValueError("x" * 9000), 1, "g", NOW))

    assert len(told["dead-letter.message"] or b"") == 4096


def test_nulls_are_not_deserialized() -> None:
    reading = DeadLetterSettings(value_deserializer=int, key_deserializer=int)
    tombstone = ConsumerRecord("orders", 0, 0, 0, 0, b"7", None, ())

    assert (decoded(reading, tombstone).key, decoded(reading, tombstone).value) == (7, None)

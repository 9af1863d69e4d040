"""The log behaves like a list, whatever is done to it and however it stops (L1, L3, L4, L10)."""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from everlog.log.settings import LogSettings
from everlog.model.errors import Refused
from everlog.model.ids import Offset, Timestamp
from tests.unit.log.builders import NOON, Machine, Sequenced, a_batch, records_of

SETTINGS = LogSettings(segment_bytes=600, index_interval_bytes=100, segment_index_bytes=400)


@dataclass(frozen=True)
class Kept:
    """One batch of the model."""

    base_offset: int
    values: tuple[bytes, ...]
    timestamp: int

    @property
    def end(self) -> int:
        return self.base_offset + len(self.values)


class LogIsAList(RuleBasedStateMachine):
    """Does to a log and to a list of batches the same, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(SETTINGS)
        self.batches: list[Kept] = []
        self.start = 0
        self.durable_start = 0
        self.durable_end = 0
        self.sequence = 0
        self.epoch = 0
        self.counter = 0

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else self.machine.log.end_offset

    @rule(count=st.integers(1, 4), size=st.integers(0, 120), late_ms=st.integers(-500, 500))
    def append(self, count: int, size: int, late_ms: int) -> None:
        self.counter += 1
        content = tuple(f"{self.counter}/{at}".encode().ljust(size, b"-") for at in range(count))
        end = self.machine.log.end_offset
        appended = self.machine.append(a_batch(content, timestamp=NOON + late_ms), self.epoch)
        assert (appended.base_offset, appended.last_offset) == (end, end + count - 1)
        self.batches.append(Kept(end, content, NOON + late_ms))

    @rule(count=st.integers(1, 3))
    def append_twice(self, count: int) -> None:
        sender = Sequenced(77, self.sequence)
        self.counter += 1
        content = tuple(f"{self.counter}/{at}".encode() for at in range(count))
        state = self.machine.log.producers.get(77)
        if state is not None and state.last_sequence + 1 != self.sequence:
            # A cut or a crash has taken the producer's last batches away; it goes on where the log does.
            with pytest.raises(Refused):
                self.machine.append(a_batch(content, sender=sender), self.epoch)
            sender = Sequenced(77, state.last_sequence + 1)
            self.sequence = state.last_sequence + 1
        first = self.machine.append(a_batch(content, sender=sender), self.epoch)
        again = self.machine.append(a_batch(content, sender=sender), self.epoch)
        assert again.duplicate
        assert again.base_offset == first.base_offset
        self.sequence += count
        self.batches.append(Kept(first.base_offset, content, NOON))

    @rule()
    def roll(self) -> None:
        self.machine.log.roll()

    @rule()
    def sync(self) -> None:
        self.machine.sync()
        self.durable_end = self.machine.log.end_offset

    @rule()
    def checkpoint(self) -> None:
        self.machine.directory.checkpoint()
        self.durable_start = self.start

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = self.start + int(share * (self.machine.log.end_offset - self.start))
        self.machine.log.truncate_to(Offset(offset))
        self.batches = [batch for batch in self.batches if batch.end <= offset]
        # The cut lies before the batch that holds the offset, and the log may have begun within that batch.
        self.start = min(self.start, self.machine.log.end_offset)
        self.durable_end = min(self.durable_end, self.machine.log.end_offset)
        # What was cut off may be followed by other records only in a newer epoch.
        self.epoch += 1
        assert self.machine.log.end_offset <= offset

    @rule(share=st.floats(0, 1))
    def move_start(self, share: float) -> None:
        offset = self.start + int(share * (self.machine.log.end_offset - self.start))
        self.machine.log.move_start_to(Offset(offset))
        self.start = offset
        self.machine.log.enforce_retention(self.machine.clock.wall(), self.machine.log.end_offset)

    @rule()
    def remove_what_is_due(self) -> None:
        self.machine.clock.advance(60_000)
        deletions = self.machine.directory.due_deletions(self.machine.clock.now())
        if deletions is not None:
            deletions.run()

    @rule()
    def stop_cleanly(self) -> None:
        self.machine.stop()
        self.durable_end, self.durable_start = self.machine.log.end_offset, self.start
        assert self.machine.log.report.scanned_bytes == 0

    @rule()
    def kill(self) -> None:
        end = self.machine.log.end_offset
        self.machine.kill()
        assert self.machine.log.end_offset == end
        self._start_found_again()

    @rule(seed=st.integers(0, 1000))
    def lose_power(self, seed: int) -> None:
        self.machine.lose_power(seed)
        end = self.machine.log.end_offset
        assert end >= self.durable_end
        self.batches = [batch for batch in self.batches if batch.end <= end]
        self._start_found_again()

    def _start_found_again(self) -> None:
        start = self.machine.log.start_offset
        # A start that no checkpoint has may be forgotten; the records before it are there then.
        assert min(self.durable_start, self.start) <= start <= max(self.start, self.durable_start)
        self.start = start

    @invariant()
    def it_reads_like_the_list(self) -> None:
        log = self.machine.log
        assert log.start_offset == self.start
        expected = [
            (batch.base_offset + at, value)
            for batch in self.batches
            for at, value in enumerate(batch.values)
            if batch.base_offset + at >= self.start
        ]
        found = [(record.offset, record.value) for record in records_of(log)]
        assert found == expected

    @invariant()
    def a_moment_is_found_where_the_list_has_it(self) -> None:
        log = self.machine.log
        for moment in (NOON - 100, NOON, NOON + 100):
            expected = next(
                (
                    max(batch.base_offset, self.start)
                    for batch in self.batches
                    if batch.timestamp >= moment and batch.end > self.start
                ),
                None,
            )
            found = log.offset_for_time(Timestamp(moment), log.end_offset)
            assert (None if found is None else found.offset) == expected

    @precondition(lambda self: self.machine.log.end_offset > self.start)
    @invariant()
    def the_recovery_point_is_not_above_what_was_synced(self) -> None:
        assert self.machine.log.recovery_point <= max(self.durable_end, 0)


LogIsAList.TestCase.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLogIsAList = LogIsAList.TestCase

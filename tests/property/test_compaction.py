"""A compacted log is a dictionary, whatever is written, compacted and restarted (L6, checks C19)."""

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from everlog.log.compaction import CleanerMemory
from everlog.model.ids import Offset
from everlog.records.compression import Codec
from everlog.records.key_scan import SLOT_BYTES
from everlog.records.reader import read_records
from everlog.sim.chance import SimRandom
from tests.unit.log.builders import ORDERS, Sequenced
from tests.unit.log.compacting import COMPACT, Compacted

SETTINGS = replace(COMPACT, segment_bytes=500, index_interval_bytes=80, producer_id_expiration_ms=1 << 60)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
VALUES = st.one_of(st.none(), st.binary(max_size=30))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)
CODECS = st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD])


class CompactedLogIsADictionary(RuleBasedStateMachine):
    """Does to a log and to a dictionary the same, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Compacted(SETTINGS)
        self.ever: dict[int, tuple[bytes, bytes | None, int]] = {}
        """Every record written and not lost, by offset: key, value, timestamp."""
        self.undecided: dict[int, list[int]] = {}
        """Offsets of records in open transactions, by producer."""
        self.aborted: set[int] = set()
        self.durable_end = 0
        self.next_sequence: dict[int, int] = {}
        self.first_gone_ok: dict[int, int] = {}
        """For each tombstone that a round has seen: when it may go."""
        self.cleaned_to = 0

    @rule(pairs=PAIRS, codec=CODECS, producer=st.sampled_from([-1, -1, 3]), late_ms=st.integers(-50, 50))
    def write(
        self, pairs: list[tuple[bytes, bytes | None]], codec: Codec, producer: int, late_ms: int
    ) -> None:
        self._append(pairs, codec, producer, transactional=False)
        self.machine.clock.advance(max(0, late_ms))

    @rule(pairs=PAIRS, producer=st.sampled_from([7, 8]), codec=CODECS)
    def write_in_a_transaction(
        self, pairs: list[tuple[bytes, bytes | None]], producer: int, codec: Codec
    ) -> None:
        offsets = self._append(pairs, codec, producer, transactional=True)
        self.undecided.setdefault(producer, []).extend(offsets)

    def _append(
        self,
        pairs: list[tuple[bytes, bytes | None]],
        codec: Codec,
        producer: int,
        *,
        transactional: bool,
    ) -> list[int]:
        sender = None
        if producer >= 0:
            sequence = self.next_sequence.get(producer, 0)
            sender = Sequenced(producer, sequence)
            self.next_sequence[producer] = sequence + len(pairs)
        wall = self.machine.clock.wall()
        base = self.machine.put(*pairs, codec=codec, sender=sender, transactional=transactional).base_offset
        offsets = list(range(base, base + len(pairs)))
        for offset, (key, value) in zip(offsets, pairs, strict=True):
            self.ever[offset] = (key, value, wall)
        return offsets

    @precondition(lambda self: self.undecided)
    @rule(commit=st.booleans(), first=st.booleans())
    def end_transaction(self, commit: bool, first: bool) -> None:
        producer = (min if first else max)(self.undecided)
        offsets = self.undecided.pop(producer)
        self.machine.end_txn(producer, commit=commit)
        if not commit:
            self.aborted.update(offsets)

    @rule()
    def roll(self) -> None:
        self.machine.log.roll()

    @rule()
    def sync(self) -> None:
        self.machine.sync()
        self.durable_end = self.machine.log.end_offset

    @rule(keys=st.integers(1, 8), step_bytes=st.sampled_from([1, 200, 5000]))
    def compact(self, keys: int, step_bytes: int) -> None:
        self.machine.seal()
        self.durable_end = self.machine.log.end_offset
        self.machine.memory = CleanerMemory(keys * SLOT_BYTES, 1.0, 300)
        self.machine.step_bytes = step_bytes
        wall = self.machine.clock.wall()
        for _ in range(3):
            if not self.machine.dirty().dirty_bytes:
                break
            end = self.machine.clean().end_offset
            assert end > self.cleaned_to, "a round gets on"
            self.cleaned_to = end
            for offset, (_, value, _) in self.ever.items():
                if value is None and offset < end:
                    self.first_gone_ok.setdefault(offset, wall + SETTINGS.delete_retention_ms)
        self.machine.directory.checkpoint()

    @rule(ms=st.sampled_from([1, 1000, 9_999, 10_001]))
    def wait(self, ms: int) -> None:
        self.machine.clock.advance(ms)

    @rule()
    def stop_cleanly(self) -> None:
        self.machine.stop()
        self.durable_end = self.machine.log.end_offset

    @rule(seed=st.integers(0, 1000))
    def lose_power(self, seed: int) -> None:
        self.machine.files = self.machine.files.after_crash(SimRandom(seed))
        self.machine.kill()
        end = self.machine.log.end_offset
        assert end >= self.durable_end
        for offset in [offset for offset in self.ever if offset >= end]:
            del self.ever[offset]
        # A transaction whose marker was lost is open again; who has it goes on with what the log knows.
        open_now = {state.producer_id: state for state in self.machine.log.producers}
        self.next_sequence = {producer: state.last_sequence + 1 for producer, state in open_now.items()}
        undecided: dict[int, list[int]] = {}
        for producer, state in open_now.items():
            first = state.txn_first_offset
            if first is not None:
                undecided[producer] = [
                    record.offset
                    for batch in self.machine.batches()
                    if batch.producer_id == producer and batch.base_offset >= first
                    for record in read_records(batch)
                ]
        self.undecided = undecided
        self.aborted = {
            offset
            for offset in self.aborted
            if offset < end and not any(offset in offsets for offsets in undecided.values())
        }

    def _committed(self) -> list[tuple[int, bytes | None, bytes | None, int]]:
        """What a reader of committed records gets, from the start to the last stable offset."""
        log = self.machine.log
        stable = self.machine.stable
        aborted = log.aborted_between(log.start_offset, stable)
        found: list[tuple[int, bytes | None, bytes | None, int]] = []
        for batch in self.machine.batches():
            hidden = batch.is_transactional and any(
                txn.producer_id == batch.producer_id
                and txn.first_offset <= batch.base_offset < txn.last_offset
                for txn in aborted
            )
            if batch.is_control or hidden or batch.last_offset >= stable:
                continue
            found += [(r.offset, r.key, r.value, r.timestamp) for r in read_records(batch)]
        return found

    @invariant()
    def readers_hold_what_the_dictionary_holds(self) -> None:
        stable = self.machine.stable
        found = self._committed()
        offsets = [offset for offset, _, _, _ in found]
        assert offsets == sorted(set(offsets))
        for offset, key, value, timestamp in found:
            assert offset not in self.aborted, "aborted data came back"
            assert self.ever[offset] == (key, value, timestamp), "a record was changed or moved"
        expected = {
            key: (value, offset)
            for offset, (key, value, _) in sorted(self.ever.items())
            if offset < stable and offset not in self.aborted
        }
        last = {key: (value, offset) for offset, key, value, _ in found}
        wall = self.machine.clock.wall()
        for key, (value, offset) in expected.items():
            may_be_gone = value is None and self.first_gone_ok.get(offset, 1 << 62) <= wall
            if not may_be_gone or key in last:
                assert last.get(key) == (value, offset), (key, last.get(key), value, offset)
        assert set(last) <= set(expected)

    @invariant()
    def the_clean_part_has_each_key_once(self) -> None:
        end = self.machine.directory.clean_ends.get(ORDERS, Offset(0))
        keys = [key for offset, key, _, _ in self._committed() if offset < end]
        assert len(keys) == len(set(keys)), keys

    @invariant()
    def a_producer_can_go_on(self) -> None:
        for producer, sequence in self.next_sequence.items():
            state = self.machine.log.producers.get(producer)
            if state is not None:
                assert state.last_sequence + 1 == sequence


CompactedLogIsADictionary.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestCompactedLogIsADictionary = CompactedLogIsADictionary.TestCase

"""A crash at every change of the disk while a log is compacted, with unsynced changes lost or torn (L6, L10).

After every one of them the log is opened and must have each key's last value, at its old offset, nothing
that was aborted or cut off, and an end that did not move back; opening it again must change no file; and
compaction must be able to go on. `EVERLOG_CRASH_SEEDS` draws more often what a crash leaves.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from everlog.log import leftovers
from everlog.log.compaction_rewrite import CleanedWriter
from everlog.log.compaction_run import LogChangedError
from everlog.log.compaction_swap import Swap, Swaps
from everlog.log.segment import SUFFIXES
from everlog.model.ids import Instant, Offset
from everlog.records.batch import whole_batches
from everlog.records.reader import read_records
from everlog.sim.chance import SimRandom
from everlog.sim.disk import SimFiles
from everlog.sim.faults import Crashed, Moment, Operation
from everlog.sim.handle import SimFile
from everlog.sim.platter import Loss
from tests.unit.log.builders import ORDERS, PATH, Sequenced
from tests.unit.log.compacting import COMPACT, Compacted

SEEDS = int(os.environ.get("EVERLOG_CRASH_SEEDS", "2"))
SETTINGS = replace(COMPACT, segment_bytes=500, index_interval_bytes=80)

Written = tuple[int, bytes | None, bytes | None]


@dataclass(slots=True)
class Told:
    """What the world was told of the log."""

    records: list[Written] = field(default_factory=list[Written])
    """All committed records ever written and not cut off, by offset, key and value."""
    synced_end: int = 0
    tombstones_gone: bool = False
    """Whether compaction may have removed tombstones by now."""


class CrashingLog(Compacted):
    """A log whose every change of the disk is a place to crash at."""

    def __init__(self, name: str) -> None:
        super().__init__(SETTINGS)
        self.step_bytes = 1000
        self.told = Told()
        self.points = 0
        self.name = name
        self._sequences: dict[int, int] = {}
        assert self.log.end_offset == 0

    def write(self, *pairs: tuple[bytes, bytes | None], producer: int = -1) -> None:
        """Append committed records."""
        self.told.records += [(self.log.end_offset + at, key, value) for at, (key, value) in enumerate(pairs)]
        self.put(*pairs, sender=self._sender(producer, len(pairs)))

    def transact(self, producer: int, *pairs: tuple[bytes, bytes | None], commit: bool) -> None:
        """A whole transaction."""
        if commit:
            self.told.records += [
                (self.log.end_offset + at, key, value) for at, (key, value) in enumerate(pairs)
            ]
        self.put(*pairs, sender=self._sender(producer, len(pairs)), transactional=True)
        self.end_txn(producer, commit=commit)

    def _sender(self, producer: int, count: int) -> Sequenced | None:
        if producer < 0:
            return None
        first = self._sequences.get(producer, 0)
        self._sequences[producer] = first + count
        return Sequenced(producer, first)

    def make_durable(self) -> None:
        self.seal()
        self.told.synced_end = self.log.end_offset
        self.directory.checkpoint()

    def compact(self) -> None:
        self.directory.clean_ends.setdefault(ORDERS, Offset(0))
        self.directory.checkpoint()
        self.clean()
        self.directory.checkpoint()

    def crash_everywhere(self) -> None:
        """From here on, crash at every point."""

        def watch(operation: Operation, moment: Moment) -> None:
            if moment is not Moment.AFTER:
                self.crash(f"{moment.value} {operation}")

        self.files.watch = watch

    def crash(self, when: str) -> None:
        self.points += 1
        variants = [(Loss.NONE, 0), (Loss.ALL, 0), *((Loss.SOME, seed) for seed in range(SEEDS))]
        for loss, seed in variants:
            chance = SimRandom(f"{self.name}/{when}/{seed}")
            try:
                self._survive(self.files.after_crash(chance, loss), chance)
            except Exception as error:
                raise AssertionError(
                    f"{self.name}: crash {when}, loss {loss.value}, seed {seed}: {error}"
                ) from error

    def _survive(self, disk: SimFiles, chance: SimRandom) -> None:
        found = self._opened(disk)
        self._check(found)
        kept = found.pairs()
        tree = without_empty_indexes(disk)
        again = self._opened(disk.after_crash(chance, Loss.NONE))
        assert again.pairs() == kept, "recovering a second time differs"
        assert without_empty_indexes(again.files) == tree, "recovering a second time changed files"
        torn = self._opened(disk.after_crash(chance, Loss.SOME))
        assert torn.pairs() == kept, "crashing right after the recovery differs"
        end = found.log.end_offset
        found.put((b"after", b"1"))
        found.seal()
        if found.dirty().dirty_bytes:
            found.clean()
        assert found.contents().pop(b"after") == b"1"
        self._check_values(found, end)

    def _opened(self, disk: SimFiles) -> Compacted:
        """The log as a broker opens it at its start."""
        machine = Compacted(SETTINGS)
        machine.files = disk
        machine.clock = self.clock
        machine.kill()
        for _ in machine.directory.recover(lambda _partition: SETTINGS):
            pass
        assert machine.directory.problems == []
        return machine

    def _check(self, found: Compacted) -> None:
        told = self.told
        end = found.log.end_offset
        assert end >= told.synced_end, (end, told.synced_end)
        assert found.stable == end, "a transaction hangs"
        offsets = [record.offset for record in found.records()]
        assert offsets == sorted(set(offsets)), offsets
        self._check_values(found, end)
        names = found.files.names(PATH)
        assert not [name for name in names if name.endswith((".swap", ".cleaned", ".deleted"))], names
        check_indexes(found)

    def _check_values(self, found: Compacted, end: int) -> None:
        """Every key has the value that a dictionary has after the records below `end`."""
        expected = {key: (value, offset) for offset, key, value in self.told.records if offset < end}
        seen = committed(found)
        last = {key: (value, offset) for offset, key, value in seen if key != b"after"}
        for record in seen:
            assert record in self.told.records or record[1] == b"after", record
        for key, (value, offset) in expected.items():
            if value is None and self.told.tombstones_gone:
                assert last.get(key, (None, offset)) == (None, offset), (key, last.get(key))
            else:
                assert last.get(key) == (value, offset), (key, last.get(key), value, offset)
        assert set(last) <= set(expected)


def committed(machine: Compacted) -> list[Written]:
    """What a reader of committed records gets."""
    log = machine.log
    aborted = log.aborted_between(log.start_offset, log.end_offset)
    found: list[Written] = []
    for batch in machine.batches():
        hidden = any(
            txn.producer_id == batch.producer_id and txn.first_offset <= batch.base_offset < txn.last_offset
            for txn in aborted
        )
        if not batch.is_control and not (hidden and batch.is_transactional):
            found += [(record.offset, record.key, record.value) for record in read_records(batch)]
    return found


def check_indexes(machine: Compacted) -> None:
    """Every lookup by index gives what a walk over the log gives."""
    log = machine.log
    batches = machine.batches()
    for offset in range(log.start_offset, log.end_offset):
        piece = log.read(Offset(offset), 1, log.end_offset)
        expected = next((batch for batch in batches if batch.last_offset >= offset), None)
        assert (bytes(next(whole_batches(piece.read())).raw) if piece else None) == (
            bytes(expected.raw) if expected else None
        ), offset


def without_empty_indexes(disk: SimFiles) -> dict[str, bytes | None]:
    return {
        path: content for path, content in disk.tree().items() if content != b"" or not path.endswith("index")
    }


def fill(log: CrashingLog) -> None:
    """Several segments with puts, deletes and both kinds of transactions."""
    for n in range(8):
        log.write((b"a", b"%d" % n), (b"b%d" % (n % 3), b"%d" % n), producer=5 if n % 2 else -1)
        log.transact(7, (b"t%d" % (n % 2), b"%d" % n), (b"a", b"t%d" % n), commit=n % 3 != 0)
    log.write((b"b0", None), (b"gone", b"1"))
    log.write((b"gone", None), producer=6)


def one_round(log: CrashingLog) -> None:
    """The first round over a log, with appends going on."""
    fill(log)
    log.make_durable()
    log.crash_everywhere()
    counter = 0

    def append() -> None:
        nonlocal counter
        counter += 1
        if counter % 4 == 0:
            log.write((b"a", b"meanwhile %d" % counter))

    log.between_jobs = append
    log.compact()


def rounds_that_merge(log: CrashingLog) -> None:
    """Later rounds: segments are merged, tombstones and markers go."""
    fill(log)
    log.make_durable()
    log.compact()
    log.write((b"a", b"second"), (b"b1", None))
    log.make_durable()
    log.clock.advance(SETTINGS.delete_retention_ms + 1)
    log.told.tombstones_gone = True
    segments = log.log.segment_count
    log.crash_everywhere()
    log.compact()
    assert log.log.segment_count < segments


def a_cut_in_between(log: CrashingLog) -> None:
    """The log is cut while a rewritten segment waits for its place, and others are written then."""
    for at_job in (3, 4, 5):
        attempt = CrashingLog(f"{log.name} at job {at_job}")
        _cut_at(attempt, at_job)
        log.points += attempt.points


def _cut_at(log: CrashingLog, at_job: int) -> None:
    for n in range(4):
        # A record that compaction took for the sake of one that is cut off would be lost with it, so there
        # is none: what is compacted lies below the high watermark, and what is cut off above.
        log.write((b"a" if n < 2 else b"c%d" % n, b"%d" % n), (b"b%d" % n, b"%d" % n))
    log.make_durable()
    jobs, keep = 0, 4

    def cut() -> None:
        nonlocal jobs
        jobs += 1
        if jobs == at_job:
            # Until the cut has returned, what is cut off may be there or not; its own tests look at that.
            log.files.watch = None
            log.told.synced_end = keep
            log.log.truncate_to(Offset(keep))
            log.told.records = [record for record in log.told.records if record[0] < keep]
            log.crash_everywhere()
            log.crash("after the cut")

    log.between_jobs = cut
    try:
        log.compact()
    except LogChangedError:
        pass
    log.between_jobs = lambda: None
    log.write((b"other", b"1"))
    log.make_durable()
    log.compact()


HISTORIES: dict[str, Callable[[CrashingLog], None]] = {
    "one round": one_round,
    "rounds that merge": rounds_that_merge,
    "a cut in between": a_cut_in_between,
}


@pytest.mark.parametrize("name", HISTORIES)
def test_every_crash_in_a_round_is_survived(name: str) -> None:
    log = CrashingLog(name)
    HISTORIES[name](log)
    print(f"{name}: {log.points} crash points")

    assert log.points > 60


def test_every_crash_in_the_recovery_of_a_round_is_survived() -> None:
    whole = CrashingLog("counting")
    fill(whole)
    whole.make_durable()
    begun = whole.files.operations
    whole.compact()
    points = 0
    for part in range(1, 12):
        log = CrashingLog(f"recovery, part {part}")
        fill(log)
        log.make_durable()
        log.files.crash_at(begun + (whole.files.operations - begun) * part // 12, Moment.HALFWAY)
        with pytest.raises(Crashed):
            log.compact()
        log.files = log.files.after_crash(SimRandom(f"recovery/{part}"))
        log.crash_everywhere()
        log.kill()
        assert log.log.end_offset >= log.told.synced_end
        points += log.points

    assert points > 10


Patch = Callable[[pytest.MonkeyPatch], None]


def the_new_segment_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """It takes the old ones' place while its bytes may still be lost."""
    really_finish = CleanedWriter.finish

    def finish(self: CleanedWriter) -> None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(SimFile, "sync", no_sync)
            really_finish(self)

    def no_sync(self: SimFile) -> None:
        pass

    patch.setattr(CleanedWriter, "finish", finish)


def names_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    """The old names may be gone before the new ones are there."""

    def sync_names(self: Swaps) -> int:
        return 0

    patch.setattr(Swaps, "sync_names", sync_names)


def a_swap_is_not_finished_at_the_start(patch: pytest.MonkeyPatch) -> None:
    """What is `.swap` is thrown away like what is `.cleaned`."""

    def drop(files: SimFiles, path: str) -> None:
        for name in files.names(path):
            if name.endswith(leftovers.SWAP_SUFFIX):
                files.unlink(f"{path}/{name}")

    patch.setattr(leftovers, "_finish_swaps", drop)


def old_segments_go_before_the_new_one_is_there(patch: pytest.MonkeyPatch) -> None:
    """The old names are given up together with the first sync, and not after it."""
    really_begin = Swaps.begin

    def begin(self: Swaps, swap: Swap) -> bool:
        for segment in swap.old:
            for suffix in SUFFIXES:
                if self._files.exists(segment.stem + suffix):  # pyright: ignore[reportPrivateUsage]
                    self._files.unlink(segment.stem + suffix)  # pyright: ignore[reportPrivateUsage]
        return really_begin(self, swap)

    patch.setattr(Swaps, "begin", begin)


def a_cut_leaves_the_swap_alone(patch: pytest.MonkeyPatch) -> None:
    """A start-up after the cut finishes the swap, and brings back what was cut off."""

    def settle(self: Swaps, due: Instant) -> None:
        pass

    patch.setattr(Swaps, "settle", settle)


MUTANTS: dict[str, tuple[Patch, str]] = {
    "the new segment is not synced": (the_new_segment_is_not_synced, "one round"),
    "names are not synced": (names_are_not_synced, "rounds that merge"),
    "a swap is not finished at the start": (a_swap_is_not_finished_at_the_start, "one round"),
    "old segments go before the new one is there": (
        old_segments_go_before_the_new_one_is_there,
        "one round",
    ),
    "a cut leaves the swap alone": (a_cut_leaves_the_swap_alone, "a cut in between"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_that_is_broken_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, history = MUTANTS[name]
    patch(monkeypatch)
    with pytest.raises(AssertionError, match="crash"):
        HISTORIES[history](CrashingLog(name))

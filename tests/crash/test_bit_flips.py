"""One bit flips in a file at rest: no reader ever gets a byte that was not written, nor a wrong answer (L10).

Every file of a log directory is flipped in, after a clean stop and after a crash. For each flip the logs are
opened and asked everything; they may refuse to answer or have less to say, and may not say what is not so.

Kafka's formats give some files no checksum, and where two of them disagree nobody can tell which is right.
So five things are not promised. The leader epoch of a batch lies outside its checksum, and is only known
from elsewhere once it was synced; behind that a higher one cannot be told from a new leader's. A wrong
digit in `log-start-offset-checkpoint` may hide records or bring deleted ones back. A wrong
`leader-epoch-checkpoint` may give a wrong end of an epoch; records that it disagrees with are refused to
readers. A wrong digit in `cleaner-offset-checkpoint` may leave records that compaction would have taken,
behind a tombstone too, which goes in its time; and where there was a compaction a gap between offsets is no
damage, so that a base offset which has become higher passes for one. And a `.txnindex` may name a later
batch of the same transaction as its first, since to find out would take a walk over the whole segment.
"""

from collections.abc import Callable

import pytest

from everlog.log.partition import PartitionLog
from everlog.model.errors import EverlogError
from everlog.model.ids import Offset, Timestamp
from everlog.records.reader import read_records
from everlog.sim.chance import SimRandom
from everlog.sim.disk import SimFiles
from everlog.sim.platter import Loss
from tests.crash.checks import Found, found_in
from tests.crash.histories import A
from tests.crash.machine import SMALL, Machine, open_directory, view_of

HEADER_BYTES = 61
EPOCH_AT, MAGIC_AT = 12, 16
KINDS = (
    ".log", ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint", "partition.metadata",
    "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint",
    "cleaner-offset-checkpoint", ".kafka_cleanshutdown",
)  # fmt: skip


def a_machine(clean_end: int | None) -> Machine:
    """A partition with all that one can have, its first records deleted; perhaps noted as compacted."""
    machine = Machine()
    machine.create(A)
    for round_number in range(5):
        machine.epoch = round_number // 2
        for _ in range(2):
            machine.append(A, 2, producer=11, transactional=True)
            machine.append(A, 3, producer=12, transactional=True)
            machine.append(A, 2, producer=13)
            machine.append(A, 1)
        machine.end_txn(A, 11, commit=round_number % 2 == 0)
        machine.end_txn(A, 12, commit=False)
    machine.delete_records(A, 22)
    machine.retain({A: 22})
    machine.remove_due()
    if clean_end is not None:
        machine.directory.clean_ends[A] = Offset(clean_end)
    return machine


def stopped(clean_end: int | None = None) -> tuple[SimFiles, Machine]:
    """The disk after a clean stop."""
    machine = a_machine(clean_end)
    machine.stop()
    return machine.files, machine


def crashed(clean_end: int | None = None) -> tuple[SimFiles, Machine]:
    """The disk after a sync, a checkpoint, more records, and a kill."""
    machine = a_machine(clean_end)
    machine.sync(A)
    machine.checkpoint()
    for _ in range(4):
        machine.append(A, 2, producer=13)
    return machine.files, machine


def flips(files: SimFiles, kind: str) -> list[tuple[str, int]]:
    """The bytes to flip in, in all files of a kind: every one, but for the middle of records."""
    found: list[tuple[str, int]] = []
    for path, content in files.tree().items():
        if content is None or not path.endswith(kind):
            continue
        if kind != ".log":
            # A snapshot is covered by a checksum as a whole.
            step = 17 if kind == ".snapshot" else 1
            found += [(path, position) for position in range(0, len(content), step)]
            continue
        start = 0
        while start < len(content):
            size = view_of(content[start:]).size
            found += [(path, start + at) for at in range(HEADER_BYTES)]
            found += [(path, start + at) for at in range(HEADER_BYTES, size, 9)]
            start += size
    assert found, f"there is no {kind}"
    return found


class Truth:
    """What the logs said before anything was flipped."""

    def __init__(self, files: SimFiles, machine: Machine) -> None:
        self.machine = machine
        directory = open_directory(copy_of(files), machine.clock)
        log = directory.get(A, SMALL)
        assert log is not None
        self.found: Found = found_in(log)
        self.windows = {
            state.producer_id: [tuple(sent)[:4] for sent in state.window] for state in log.producers
        }
        self.by_offset = {
            offset: batch
            for batch in self.found.batches
            for offset in range(view_of(batch).base_offset, view_of(batch).next_offset)
        }
        self.stamps = [
            (record.timestamp, record.offset)
            for batch in self.found.batches
            for record in read_records(view_of(batch))
            if record.offset >= log.start_offset
        ]


def copy_of(files: SimFiles) -> SimFiles:
    return files.after_crash(SimRandom(0), Loss.NONE)


def check_flip(truth: Truth, files: SimFiles) -> None:
    """Ask the logs on a damaged disk everything."""
    directory = open_directory(files, truth.machine.clock)
    assert A in directory
    try:
        log = directory.get(A, SMALL)
    except EverlogError:
        return
    assert log is not None
    refused = _check_reads(log, truth)
    whole = (log.start_offset, log.end_offset) == truth.found[:2]
    if whole:
        _check_times(log, truth)
        _check_transactions(log, truth)
        _check_producers(log, truth)
        synced_end = truth.machine.ghosts[A].synced_end
        epochs = tuple((epoch, start) for epoch, start in log.epochs.entries if start < synced_end)
        assert refused or epochs == truth.found.epochs


def _check_reads(log: PartitionLog, truth: Truth) -> int:
    """Read every offset; returns how many were refused."""
    refused = 0
    for offset in range(log.start_offset, log.end_offset):
        try:
            piece = log.read(Offset(offset), 1, log.end_offset)
        except EverlogError:
            refused += 1
            continue
        assert piece is not None
        expected = truth.by_offset.get(offset)
        served = piece.read()
        if offset >= truth.machine.ghosts[A].synced_end and expected is not None:
            served = served[:EPOCH_AT] + expected[EPOCH_AT:MAGIC_AT] + served[MAGIC_AT:]
        # Records that were deleted may come back where the file that says so is damaged.
        assert expected is None or served == expected, f"offset {offset} has other bytes"
    return refused


def _check_times(log: PartitionLog, truth: Truth) -> None:
    for moment in [stamp for stamp, _ in truth.stamps[::5]]:
        expected = next((offset for stamp, offset in truth.stamps if stamp >= moment), None)
        try:
            answer = log.offset_for_time(Timestamp(moment), log.end_offset)
        except EverlogError:
            continue
        assert (answer.offset if answer is not None else None) == expected, f"looked for {moment}"


def _check_transactions(log: PartitionLog, truth: Truth) -> None:
    try:
        aborted = log.aborted_between(log.start_offset, log.end_offset)
    except EverlogError:
        return
    assert len(aborted) == len(truth.found.aborted)
    for txn, (producer, first, last) in zip(aborted, truth.found.aborted, strict=True):
        assert (txn.producer_id, txn.last_offset) == (producer, last)
        if txn.first_offset != first:
            later = view_of(truth.by_offset[txn.first_offset])
            assert (later.producer_id, later.base_offset) == (producer, txn.first_offset)
            assert first < later.base_offset < last


def _check_producers(log: PartitionLog, truth: Truth) -> None:
    """What is known of a producer is true, if perhaps not all that was."""
    windows = {state.producer_id: [tuple(sent)[:4] for sent in state.window] for state in log.producers}
    known = {producer: window for producer, window in truth.windows.items() if producer in windows}
    assert windows == {producer: window[-len(windows[producer]) :] for producer, window in known.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [stopped, crashed])
def test_a_flipped_bit_is_never_served(
    make: Callable[[int | None], tuple[SimFiles, Machine]], kind: str
) -> None:
    if make is crashed and kind == ".kafka_cleanshutdown":
        pytest.skip("there is no marker after a crash")
    files, machine = make(30 if kind == "cleaner-offset-checkpoint" else None)
    truth = Truth(files, machine)
    places = flips(files, kind)
    for number, (path, position) in enumerate(places):
        bit = number % 8
        damaged = copy_of(files)
        damaged.flip_bit(path, position, bit)
        try:
            check_flip(truth, damaged)
        except Exception as error:
            raise AssertionError(f"{path} byte {position} bit {bit}: {error}") from error
    print(f"{make.__name__} {kind}: {len(places)} flips")

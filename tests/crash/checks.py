"""What is checked of a log directory after every crash.

Everything is held against a model that is simpler than the log: lists of batches, walked from the first.
"""

from bisect import bisect_left
from itertools import accumulate
from struct import Struct
from typing import NamedTuple

from everlog.log.directory import LogDirectory
from everlog.log.partition import Origin, PartitionLog
from everlog.model.ids import LeaderEpoch, Offset, Timestamp
from everlog.model.topics import TopicPartition
from everlog.records.batch import BatchView, whole_batches
from everlog.records.builder import NewRecord, build_batch
from everlog.records.control import ControlType, control_type
from everlog.records.reader import read_records
from everlog.sim.disk import SimFiles
from tests.crash.machine import SMALL, Ghost, view_of

_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")


class Found(NamedTuple):
    """All that can be asked of a recovered log."""

    start_offset: int
    end_offset: int
    batches: tuple[bytes, ...]
    epochs: tuple[tuple[int, int], ...]
    producers: tuple[tuple[object, ...], ...]
    aborted: tuple[tuple[int, int, int], ...]
    unstable: int | None


def found_in(log: PartitionLog) -> Found:
    """Ask a log everything."""
    return Found(
        int(log.start_offset),
        int(log.end_offset),
        tuple(read_batches(log)),
        tuple((int(epoch), int(start)) for epoch, start in log.epochs.entries),
        tuple(
            sorted(
                (
                    state.producer_id,
                    state.epoch,
                    tuple(tuple(sent)[:4] for sent in state.window),
                    state.txn_first_offset,
                )
                for state in log.producers
            )
        ),
        tuple(
            (int(txn.producer_id), int(txn.first_offset), int(txn.last_offset))
            for txn in log.aborted_between(log.start_offset, log.end_offset)
        ),
        # A transaction whose marker is not known to be replicated is unstable; after a start all is known.
        log.producers.first_unstable_offset,
    )


def read_batches(log: PartitionLog) -> list[bytes]:
    """All batches that a reader gets, from the log's start to its end, in the smallest portions."""
    batches: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        piece = log.read(offset, 300, log.end_offset)
        assert piece is not None, (log, offset)
        raw = piece.read()
        views = list(whole_batches(raw))
        assert sum(view.size for view in views) == len(raw) == piece.length
        for view in views:
            assert view.last_offset >= offset
            batches.append(bytes(view.raw))
            offset = Offset(view.next_offset)
    assert offset == log.end_offset
    return batches


def check_log(log: PartitionLog, ghost: Ghost, files: SimFiles) -> Found:
    """Check that a recovered log has all it must have, nothing it must not have, and agrees with itself."""
    found = found_in(log)
    assert ghost.start_at_least <= found.start_offset <= ghost.start_at_most, (found[:2], ghost)
    assert found.end_offset >= ghost.synced_end, (found[:2], ghost.synced_end)
    history = _history_of(found, ghost)
    in_log = list(found.batches)
    for batch, view in zip(in_log, map(view_of, in_log), strict=True):
        if view.last_offset < ghost.synced_end:
            assert batch in ghost.batches, f"offset {view.base_offset} was synced with other bytes"
    ever = [batch for past in ghost.histories() for batch in past]
    epochs = _epochs_of(in_log, ever, found.start_offset)
    assert found.epochs in epochs, (found.epochs, epochs, found[:2])
    whole = _producers_of(history)
    if found.producers != whole:
        assert found.producers in _producers_in_parts(history, len(in_log)), (found.producers, whole)
    assert found.aborted == tuple(txn for txn in _aborted_of(history) if txn[2] >= found.start_offset)
    _check_lookups(log, in_log)
    _check_index_files(files, log)
    return _comparable(found)


def _comparable(found: Found) -> Found:
    """Leave out what an empty log still knows of those who wrote to it, as no sync covers that."""
    return found if found.batches else found._replace(epochs=(), producers=())


def _history_of(found: Found, ghost: Ghost) -> list[bytes]:
    """The one history that the log is a stretch of, up to where the log ends."""
    for history in ghost.histories():
        ends = [view_of(batch).next_offset for batch in history]
        if not found.batches:
            # It may have been told to begin in the middle of a batch that did not survive.
            return [batch for batch, end in zip(history, ends, strict=True) if end <= found.end_offset]
        first = bisect_left(ends, view_of(found.batches[0]).next_offset)
        last = first + len(found.batches)
        if tuple(history[first:last]) == found.batches:
            return history[:last]
    raise AssertionError(
        f"served is what was never written so: {[view_of(batch) for batch in found.batches]}, "
        f"written was {[[view_of(batch) for batch in history] for history in ghost.histories()]}"
    )


def _epochs_of(
    in_log: list[bytes], ever: list[bytes], start_offset: int
) -> list[tuple[tuple[int, int], ...]]:
    """The epochs that a log may have: those of its batches; of an empty one any that it once had, or none."""
    if not in_log:
        known = sorted({view.leader_epoch for view in map(view_of, ever)})
        return [(), *(((epoch, start_offset),) for epoch in known)]
    entries: list[tuple[int, int]] = []
    for view in map(view_of, in_log):
        if not entries or view.leader_epoch > entries[-1][0]:
            entries.append((view.leader_epoch, max(view.base_offset, start_offset)))
    return [tuple(entries)]


def _producers_of(batches: list[bytes]) -> tuple[tuple[object, ...], ...]:
    windows: dict[int, list[tuple[int, ...]]] = {}
    open_since: dict[int, int] = {}
    for view in map(view_of, batches):
        producer = view.producer_id
        if producer < 0:
            continue
        window = windows.setdefault(producer, [])
        if view.is_control:
            open_since.pop(producer, None)
            continue
        window.append((view.base_sequence, view.last_sequence, view.base_offset, view.last_offset))
        if view.is_transactional:
            open_since.setdefault(producer, view.base_offset)
    return tuple(
        sorted(
            (producer, 0, tuple(sent[-5:]), open_since.get(producer)) for producer, sent in windows.items()
        )
    )


def _producers_in_parts(history: list[bytes], in_log: int) -> list[tuple[tuple[object, ...], ...]]:
    """What may be known of producers where a snapshot did not survive: that of the batches which did.

    Those are the last `in_log` batches, and any before them that were deleted and are still on disk. A log
    that was deleted to beyond what survived knows of what survived.
    """
    ends = [len(history)] if in_log else range(len(history) + 1)
    return [_producers_of(history[start:end]) for end in ends for start in range(max(end - in_log, 0) + 1)]


def _aborted_of(batches: list[bytes]) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    open_since: dict[int, int] = {}
    for view in map(view_of, batches):
        if view.is_control:
            first = open_since.pop(view.producer_id, None)
            if first is not None and control_type(read_records(view)[0].key) is ControlType.ABORT:
                found.append((view.producer_id, first, view.last_offset))
        elif view.is_transactional:
            open_since.setdefault(view.producer_id, view.base_offset)
    return found


def _check_lookups(log: PartitionLog, batches: list[bytes]) -> None:
    """Look up every offset, and some moments, by index and by walking."""
    for batch, view in zip(batches, map(view_of, batches), strict=True):
        for offset in range(max(view.base_offset, log.start_offset), view.next_offset):
            piece = log.read(Offset(offset), 1, log.end_offset)
            assert piece is not None
            assert piece.read() == batch, (log, offset)
    stamps = [
        (record.timestamp, record.offset)
        for view in map(view_of, batches)
        for record in read_records(view)
        if record.offset >= log.start_offset
    ]
    wanted = [stamp for stamp, _ in stamps[:: max(1, len(stamps) // 4)]] + [
        max(stamps, default=(0, 0))[0] + 1
    ]
    for moment in wanted:
        expected = next(((offset, stamp) for stamp, offset in stamps if stamp >= moment), None)
        answer = log.offset_for_time(Timestamp(moment), log.end_offset)
        assert (answer[:2] if answer is not None else None) == expected, (log, moment)


def _check_index_files(files: SimFiles, log: PartitionLog) -> None:
    """Every entry on disk speaks of a batch that is there: an index may lag its log and never leads it."""
    for name in files.names(log.path):
        if not name.endswith(".log"):
            continue
        base = int(name[:20])
        stem = f"{log.path}/{name[:20]}"
        views = list(whole_batches(files.read(f"{stem}.log")))
        positions = [0, *accumulate(view.size for view in views)]
        last_offsets = {position: view.last_offset for position, view in zip(positions, views, strict=False)}
        if files.exists(f"{stem}.index"):
            for relative, position in _OFFSET_ENTRY.iter_unpack(files.read(f"{stem}.index")):
                assert last_offsets.get(position) == base + relative, (stem, relative, position)
        if files.exists(f"{stem}.timeindex"):
            newest = {
                view.last_offset: stamp
                for view, stamp in zip(views, accumulate((v.max_timestamp for v in views), max), strict=True)
            }
            for stamp, relative in _TIME_ENTRY.iter_unpack(files.read(f"{stem}.timeindex")):
                assert newest.get(base + relative) == stamp, (stem, stamp, relative)


def check_directory(
    directory: LogDirectory, ghosts: dict[TopicPartition, Ghost], files: SimFiles
) -> dict[TopicPartition, Found]:
    """Check all partitions of a recovered directory; returns what was found in each."""
    found: dict[TopicPartition, Found] = {}
    for partition, ghost in ghosts.items():
        if not ghost.changes and (ghost.synced_end or not ghost.present):
            assert (partition in directory) == ghost.present, (partition, ghost.present)
        if partition not in directory:
            continue
        if ghost.present and ghost.synced_end:
            assert directory.topic_id(partition) == ghost.topic_id, partition
        log = directory.get(partition, SMALL)
        assert log is not None, directory.problems
        found[partition] = check_log(log, ghost, files)
    assert directory.problems == []
    assert set(directory.partitions) <= set(ghosts)
    return found


def found_again(directory: LogDirectory) -> dict[TopicPartition, Found]:
    """What is in each partition, to be compared with what `check_directory` found."""
    found: dict[TopicPartition, Found] = {}
    for partition in directory.partitions:
        log = directory.get(partition, SMALL)
        assert log is not None, directory.problems
        found[partition] = _comparable(found_in(log))
    return found


def check_takes_records(log: PartitionLog) -> None:
    """A recovered log is a log in use."""
    end = log.end_offset
    batch = BatchView(memoryview(build_batch([NewRecord(b"k", b"after the crash", (), 1)])))
    appended = log.append(batch, LeaderEpoch(99), Timestamp(1), Origin.CLIENT)
    assert appended.base_offset == end
    piece = log.read(end, 1000, log.end_offset)
    assert piece is not None
    assert piece.read() == bytes(batch.raw)

"""Producer state and leader epochs from what is on disk: a snapshot, and the batches behind it."""

from everlog.log import scan
from everlog.log.aborted_index import AbortedTxn
from everlog.log.epochs import LeaderEpochs
from everlog.log.leftovers import segment_base
from everlog.log.producers import Marker, Producers
from everlog.log.segment import SNAPSHOT_SUFFIX, Segment, file_name
from everlog.log.snapshot import read_snapshot, snapshot_bytes
from everlog.model.errors import CorruptDataError
from everlog.model.ids import LeaderEpoch, Offset
from everlog.ports.files import Files
from everlog.records.batch import CONTROL, BatchView
from everlog.records.control import ControlType, control_type, marker_coordinator_epoch
from everlog.records.reader import read_records


def marker_of(batch: BatchView) -> Marker | None:
    """The end of a transaction that a control batch stands for; None if it is of another kind."""
    record = read_records(batch)[0] if batch.count else None
    if record is None:
        return None
    kind = control_type(record.key)
    if kind is not ControlType.COMMIT and kind is not ControlType.ABORT:
        return None
    return Marker(kind is ControlType.COMMIT, marker_coordinator_epoch(record.value))


def replay_batch(producers: Producers, batch: BatchView, wall: int) -> AbortedTxn | None:
    """Take a batch of the log into the producers' state; returns the transaction if it is an abort marker."""
    if batch.producer_id < 0:
        return None
    if batch.attributes & CONTROL:
        marker = marker_of(batch)
        return producers.ended(batch, marker, Offset(batch.last_offset), wall) if marker is not None else None
    producers.applied(batch, batch.base_offset, batch.last_offset, wall)
    return None


def load_producers(
    files: Files, path: str, segments: list[Segment], end_offset: Offset, wall: int
) -> Producers:
    """Return the producers' state at `end_offset`: the newest good snapshot up to it, and what came after.

    A snapshot that is damaged is passed over, and so is one from before the first segment: it knows nothing
    of the batches in between, and would take a producer that went on for one that skips. A producer replayed
    from the log counts as heard of now: its batches bear the time of its own clock, which nobody vouches for.
    """
    producers, start = Producers(), Offset(0)
    oldest = segments[0].base_offset if segments else end_offset
    for offset in reversed(snapshot_offsets(files, path)):
        if not oldest <= offset <= end_offset:
            continue
        try:
            producers, start = (
                read_snapshot(files.read(f"{path}/{file_name(offset, SNAPSHOT_SUFFIX)}")),
                offset,
            )
            break
        except CorruptDataError:
            pass
    for segment in segments:
        if segment.end_offset <= start or segment.base_offset >= end_offset:
            continue
        first = segment.find(start)
        if first is None:
            continue
        for _, batch in scan.batches(segment.file, first.position, segment.size):
            if batch.last_offset >= end_offset:
                break
            replay_batch(producers, batch, wall)
    return producers


def write_snapshot(files: Files, path: str, offset: Offset, producers: Producers) -> None:
    """Write the producers' state at `offset` to its file, not yet durably; its checksum tells a torn one."""
    file = files.open(f"{path}/{file_name(offset, SNAPSHOT_SUFFIX)}", create=True)
    try:
        if file.size:
            file.truncate(0)
        file.append((snapshot_bytes(producers),))
    finally:
        file.close()


def snapshot_offsets(files: Files, path: str) -> list[Offset]:
    """The offsets that there are snapshots of, in order."""
    return [base for name in files.names(path) if (base := segment_base(name, SNAPSHOT_SUFFIX)) is not None]


def drop_snapshots(files: Files, path: str, end_offset: Offset) -> None:
    """Remove the snapshots of a log that has since been cut: those from behind `end_offset`."""
    for offset in snapshot_offsets(files, path):
        if offset > end_offset:
            files.unlink(f"{path}/{file_name(offset, SNAPSHOT_SUFFIX)}")


def remove_snapshots(files: Files, path: str, segments: list[Segment], keep: Offset | None) -> None:
    """Remove the snapshots that no segment begins with, but for the one at `keep`."""
    wanted = {segment.base_offset for segment in segments}
    for offset in snapshot_offsets(files, path):
        if offset not in wanted and offset != keep:
            files.unlink(f"{path}/{file_name(offset, SNAPSHOT_SUFFIX)}")


def aborted_of(files: Files, path: str, segments: list[Segment], at: int) -> list[AbortedTxn]:
    """Make the aborted transactions of one segment anew, from the state at its base and its batches."""
    segment = segments[at]
    producers = load_producers(files, path, segments[:at], segment.base_offset, wall=0)
    found: list[AbortedTxn] = []
    for _, batch in scan.batches(segment.file, 0, segment.size):
        # No checksum covers the base offset.
        if batch.base_offset < segment.base_offset or batch.next_offset > segment.end_offset:
            raise CorruptDataError(f"{segment} has {batch}")
        txn = replay_batch(producers, batch, 0)
        if txn is not None:
            found.append(txn)
    return found


def epochs_are_missing(segments: list[Segment], epochs: LeaderEpochs, start_offset: Offset) -> bool:
    """Whether the log has batches with epochs and the checkpoint has none, or none for the first of them.

    The latter happens where the log was told to begin later, and a crash came before that was durable.
    """
    if epochs.entries and epochs.entries[0][1] <= start_offset:
        return False
    first = next((segment for segment in segments if segment.size), None)
    header = next(scan.headers(first.file, 0, first.size), None) if first is not None else None
    return header is not None and header.leader_epoch >= 0


def epochs_of(segments: list[Segment]) -> LeaderEpochs:
    """Make the epochs anew from the headers of all batches."""
    epochs = LeaderEpochs()
    for segment in segments:
        for header in scan.headers(segment.file, 0, segment.size):
            epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
    return epochs

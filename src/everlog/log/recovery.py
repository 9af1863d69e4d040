"""Files as found to a log in use (L10).

After a clean stop nothing is scanned. Otherwise the segments from the recovery point on are read in full:
the first batch that cannot be right ends the log, what lies behind it goes, and everything derived from
the log is made anew. Doing it twice changes nothing the second time.
"""

from bisect import bisect_left, bisect_right
from dataclasses import field, replace
from itertools import pairwise

from everlog.log import aborted_index, replay, scan
from everlog.log.aborted_index import AbortedTxn
from everlog.log.checkpoint import LEADER_EPOCHS, read_epochs
from everlog.log.epochs import LeaderEpochs
from everlog.log.leftovers import clear_leftovers
from everlog.log.producers import Producers
from everlog.log.segment import LOG_SUFFIX, MAX_RELATIVE_OFFSET, SUFFIXES, Segment, file_name
from everlog.log.settings import LogSettings
from everlog.log.verified import VerifiedRanges
from everlog.model.dataclass import dataclass
from everlog.model.errors import CorruptDataError
from everlog.model.ids import NO_EPOCH, LeaderEpoch, Offset
from everlog.ports.files import Files
from everlog.records.batch import BatchView

_NOTHING = Offset(0)


@dataclass(frozen=True, slots=True)
class Opening:
    """What the checkpoints of the log directory say about a partition."""

    clean: bool = False
    """Whether the last stop was a clean one."""
    recovery_point: Offset = _NOTHING
    """All records below were made durable."""
    start_offset: Offset = _NOTHING
    was_compacted: bool = False
    """Whether compaction may have left gaps, whatever the topic's settings say by now."""


@dataclass(slots=True)
class RecoveryReport:
    """What recovery had to do."""

    scanned_bytes: int = 0
    cut_bytes: int = 0
    """Bytes thrown away behind the first batch that was bad; zeros that only made room are not counted."""
    problem: str = ""
    """What was wrong with that batch."""
    below_recovery_point: bool = False
    """Whether durable records were among them: that is damage, not a torn write."""


@dataclass(slots=True)
class Loaded:
    """A log ready for use, its last segment active."""

    segments: list[Segment]
    producers: Producers
    epochs: LeaderEpochs
    start_offset: Offset
    recovery_point: Offset
    report: RecoveryReport = field(default_factory=RecoveryReport)
    changed: bool = False
    """Whether files were changed that the next sync has to cover."""
    bare: bool = False
    """Whether there has never been a record: then a stop need not have made any file durable."""


def load_log(files: Files, path: str, settings: LogSettings, opening: Opening, wall: int) -> Loaded:
    """Open the log in a directory that exists; OSError if the disk refuses.

    The recovery point comes back no higher than it was, and no higher than the log's end.
    """
    bases = clear_leftovers(files, path)
    segments = _segments(files, path, bases, settings.index_interval_bytes)
    expired = max(bisect_right([segment.base_offset for segment in segments], opening.start_offset) - 1, 0)
    # Segments that were let go, and whose names the crash gave back. What state they are in says nothing
    # about the log, which begins behind them.
    _remove(files, segments[:expired])
    del segments[:expired]
    durable = max(opening.start_offset, opening.recovery_point)
    if segments and not opening.clean and segments[0].base_offset > durable:
        # The crash took the name of a segment before this one. None of them was durable, and a log that
        # lost its first records and kept later ones would not be a beginning of what was written.
        _remove(files, segments)
        segments = []
    made_new = not segments
    if made_new:
        segments = [Segment.create(files, path, opening.start_offset, settings.index_interval_bytes)]
    loaded = _load_without_scan(files, path, segments, opening, wall)
    if loaded is None:
        loaded = _Scan(files, path, segments, settings, opening, wall).run()
    end_offset = loaded.segments[-1].end_offset
    loaded.bare = not loaded.changed and not end_offset and not opening.start_offset
    loaded.changed = loaded.changed or made_new
    if opening.clean and end_offset < opening.start_offset:
        # After a clean stop the log has all its records, so it is the checkpoint that is wrong.
        opening = replace(opening, start_offset=loaded.segments[0].base_offset)
    if end_offset < opening.start_offset:
        # Everything that the log still had was deleted, as far as anybody was told.
        _remove(files, loaded.segments)
        loaded.segments = [Segment.create(files, path, opening.start_offset, settings.index_interval_bytes)]
        # What it knew of producers goes with the batches, as the next start would not find it either.
        loaded.producers = Producers()
        end_offset = opening.start_offset
        loaded.changed = True
    loaded.start_offset = max(opening.start_offset, loaded.segments[0].base_offset)
    loaded.recovery_point = min(opening.recovery_point, end_offset)
    # A log whose records were all deleted keeps the epoch that it was in.
    empty = loaded.start_offset == end_offset
    loaded.epochs.truncate_end(Offset(end_offset + 1) if empty else end_offset)
    loaded.epochs.truncate_start(loaded.start_offset)
    return loaded


def _segments(files: Files, path: str, bases: list[Offset], interval_bytes: int) -> list[Segment]:
    segments: list[Segment] = []
    names = set(files.names(path))
    for base in bases:
        size = files.size(f"{path}/{file_name(base, LOG_SUFFIX)}")
        segment = Segment(files, path, base, size, interval_bytes)
        if file_name(base, aborted_index.SUFFIX) not in names:
            segment.has_no_aborted()
        if segments:
            segments[-1].end_offset = base
        segments.append(segment)
    return segments


def _load_without_scan(
    files: Files, path: str, segments: list[Segment], opening: Opening, wall: int
) -> Loaded | None:
    """Open a log all of whose bytes are durable; None if that is not so, or something does not fit."""
    active = segments[-1]
    try:
        if opening.clean:
            active.unseal()
            if active.end_offset != opening.recovery_point:
                return None  # A clean stop makes all durable, so the log has lost or gained something since.
        elif opening.recovery_point > active.base_offset or len(segments) == 1:
            # The stop was not clean, but nothing may have been written since the last sync. That did not
            # cover what is derived from the active segment: indexes are made anew by its headers, and the
            # aborted transactions only by a scan.
            active.rebuild_indexes()
            if active.end_offset != opening.recovery_point or active.has_markers:
                return None
            active.indexes.overwrite()
            active.sealed = False
        else:
            return None
        epochs = _epochs_of(_kept_epochs(files, path), segments, opening.start_offset)
        producers = replay.load_producers(files, path, segments, active.end_offset, wall)
        replay.drop_snapshots(files, path, active.end_offset)
    except CorruptDataError:
        active.sealed = True
        return None
    return Loaded(segments, producers, epochs, opening.start_offset, opening.recovery_point)


def _kept_epochs(files: Files, path: str) -> LeaderEpochs:
    """What the checkpoint says of epochs: nothing of what lies before its first, and damaged, nothing."""
    try:
        return LeaderEpochs(read_epochs(files, f"{path}/{LEADER_EPOCHS}"))
    except CorruptDataError:
        return LeaderEpochs()


def _epochs_of(kept: LeaderEpochs, segments: list[Segment], start_offset: Offset) -> LeaderEpochs:
    """The epochs of segments that are sound, made anew from them where the checkpoint lacks any."""
    if replay.epochs_are_missing(segments, kept, start_offset):
        return replay.epochs_of(segments)
    return LeaderEpochs(kept.entries)


def _remove(files: Files, segments: list[Segment]) -> None:
    for segment in segments:
        segment.close()
        for suffix in SUFFIXES:
            if files.exists(segment.stem + suffix):
                files.unlink(segment.stem + suffix)


class _WrongEpochError(CorruptDataError):
    """It is the batch before that cannot be right."""


class _Scan:
    """The recovery of one log after an unclean stop."""

    def __init__(
        self,
        files: Files,
        path: str,
        segments: list[Segment],
        settings: LogSettings,
        opening: Opening,
        wall: int,
    ) -> None:
        self._files = files
        self._segments = segments
        # Compaction, ours or that of a leader we copied from, leaves gaps between offsets.
        self._gaps_allowed = settings.cleanup_compact or opening.was_compacted
        self._refuses_damage = settings.refuses_damage
        self._opening = opening
        self._wall = wall
        self._report = RecoveryReport()
        bases = [segment.base_offset for segment in segments]
        # The segment of the last durable record counts as dirty: it was active when that was synced, and
        # what was derived from it when it was sealed may not be durable.
        self._first = max(bisect_left(bases, opening.recovery_point) - 1, 0)
        synced, base = segments[: self._first], bases[self._first]
        self._kept_epochs = _kept_epochs(files, path)
        self._epochs = _epochs_of(self._kept_epochs, synced, opening.start_offset)
        # One that begins right here is either that of the first batch, or the last one of an empty log.
        self._epochs.truncate_end(Offset(base + 1))
        self._producers = replay.load_producers(files, path, synced, base, wall)
        replay.drop_snapshots(files, path, base)
        self._expected = int(base)

    def run(self) -> Loaded:
        """Scan, cut and rebuild; the log is whole afterwards, if shorter."""
        segments = self._segments
        for at in range(self._first, len(segments)):
            if not self._follows(segments[at]):
                self._drop_from(at, f"a segment at {segments[at].base_offset}, expected {self._expected}")
                break
            if not self._recover(at):
                self._drop_from(at + 1, self._report.problem)
                break
        for segment in segments[self._first :]:
            segment.indexes.overwrite()
            segment.sealed = False
            if segment is not segments[-1]:
                segment.save_for_seal()
                segment.seal()
        for before, after in pairwise(segments):
            before.end_offset = after.base_offset
        epochs = self._all_epochs()
        epochs.changed = epochs.entries != self._kept_epochs.entries
        return Loaded(
            segments,
            self._producers,
            epochs,
            self._opening.start_offset,
            self._opening.recovery_point,
            self._report,
            changed=True,
        )

    def _all_epochs(self) -> LeaderEpochs:
        """The epochs of the log; where compaction took an epoch's first batch, the checkpoint knows it."""
        if not self._gaps_allowed:
            return self._epochs
        first = dict(self._epochs.entries)
        for epoch, start in self._kept_epochs.entries:
            if start < self._opening.recovery_point:
                first[epoch] = min(start, first.get(epoch, start))
        return LeaderEpochs(sorted(first.items()))

    def _follows(self, segment: Segment) -> bool:
        if segment.base_offset == self._expected:
            return True
        if not self._gaps_allowed or segment.base_offset < self._expected:
            return False
        # Compaction takes records that are durable. Where none need be, the end of the segment before was
        # lost, and a log that lost records and kept later ones would not be a beginning of what was written.
        # But a replica's segment begins behind a gap that is too wide for it.
        return segment.base_offset <= self._opening.recovery_point or self._begins_too_far(segment)

    def _begins_too_far(self, segment: Segment) -> bool:
        try:
            first = next(scan.headers(segment.file, 0, segment.size), None)
        except CorruptDataError:
            return False
        return first is not None and first.last_offset - self._expected > MAX_RELATIVE_OFFSET

    def _recover(self, index: int) -> bool:
        """Prove one segment and take in its batches; False if it had to be cut."""
        segment = self._segments[index]
        segment.indexes.start_empty()
        segment.end_offset = segment.base_offset
        self._expected = max(self._expected, segment.base_offset)
        aborted: list[AbortedTxn] = []
        # A batch is taken in when the one behind it is known, which may tell that its epoch cannot be.
        before: BatchView | None = None
        good_bytes = at = 0
        try:
            for position, batch in scan.batches(segment.file, 0, segment.size):
                self._check(segment, batch, before)
                if before is not None:
                    self._take_in(segment, at, before, aborted)
                before, at, good_bytes = batch, position, position
                self._expected = batch.next_offset
            good_bytes = segment.size
        except _WrongEpochError as error:
            self._report.problem = str(error)
            before, good_bytes = None, at
        except CorruptDataError as error:
            self._report.problem = str(error)
            if before is not None and self._is_far_ahead(segment, at, before):
                before, good_bytes, self._expected = None, at, int(segment.end_offset)
            elif before is not None:
                good_bytes = at + before.size
        if before is not None:
            self._take_in(segment, at, before, aborted)
        segment.replace_aborted(aborted)
        segment.verified = VerifiedRanges(trusted_from=0)
        self._report.scanned_bytes += segment.size
        if good_bytes == segment.size:
            return True
        if self._only_room(index, good_bytes):
            self._report.problem = ""
            segment.cut_file(good_bytes)
            return True
        self._check_may_cut(segment.end_offset)
        self._report.cut_bytes += segment.size - good_bytes
        segment.cut_file(good_bytes)
        return False

    def _is_far_ahead(self, segment: Segment, position: int, batch: BatchView) -> bool:
        """Whether the batch behind one follows on those before it: then its base offset is not what it was.

        No checksum covers that, and where gaps are allowed it may lie anywhere behind the one before.
        """
        try:
            _, following = next(scan.batches(segment.file, position + batch.size, segment.size))
        except (CorruptDataError, StopIteration):
            return False
        return segment.end_offset <= following.base_offset < batch.base_offset

    def _only_room(self, index: int, position: int) -> bool:
        """Whether what lies behind the last batch was made ahead of time, in place of nothing durable."""
        segment, following = self._segments[index], self._segments[index + 1 : index + 2]
        if following:
            # A log that may have gaps would go on behind one that was never there.
            if following[0].base_offset != self._expected:
                return False
        elif self._expected < self._opening.recovery_point:
            return False
        return scan.is_room(segment.file, position, segment.size)

    def _take_in(self, segment: Segment, position: int, batch: BatchView, aborted: list[AbortedTxn]) -> None:
        if batch.producer_id >= 0:
            txn = replay.replay_batch(self._producers, batch, self._wall)
            if txn is not None:
                aborted.append(txn)
        segment.indexes.add(position, batch.size, batch.last_offset, batch.max_timestamp)
        if batch.leader_epoch != self._epochs.latest:
            self._epochs.assign(LeaderEpoch(batch.leader_epoch), Offset(batch.base_offset))
        segment.end_offset = Offset(batch.next_offset)

    def _check(self, segment: Segment, batch: BatchView, before: BatchView | None) -> None:
        """Hold against each other what the checksum does not cover: offsets and epochs."""
        fits = (
            batch.base_offset >= self._expected if self._gaps_allowed else batch.base_offset == self._expected
        )
        if not fits or batch.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            raise CorruptDataError(f"{segment} has {batch}, expected offset {self._expected}")
        known = NO_EPOCH
        if batch.next_offset <= self._opening.recovery_point:
            known = self._kept_epochs.epoch_at(Offset(batch.last_offset))
        latest = self._epochs.latest if before is None else before.leader_epoch
        if batch.leader_epoch < latest or known not in (NO_EPOCH, batch.leader_epoch):
            problem = f"{segment} has {batch}, expected epoch {max(known, latest)}"
            if before is not None and self._epochs.latest <= batch.leader_epoch < latest:
                # One batch alone has a higher epoch than those around it. To keep it would be worse than to
                # lose it: this log would pass for newer than it is.
                raise _WrongEpochError(f"{problem}, or {batch.leader_epoch} before it")
            raise CorruptDataError(problem)

    def _check_may_cut(self, end_offset: int) -> None:
        """CorruptDataError, before anything is cut, where durable records would go that must not."""
        durable = self._opening.recovery_point
        if self._refuses_damage and end_offset < durable:
            raise CorruptDataError(
                f"it is damaged behind offset {end_offset}, and was durable up to {durable}: "
                f"{self._report.problem}"
            )

    def _drop_from(self, at: int, problem: str) -> None:
        """Remove the segments behind the end of what is good."""
        report = self._report
        report.problem = problem
        self._check_may_cut(self._expected)
        report.below_recovery_point = self._expected < self._opening.recovery_point
        report.cut_bytes += sum(segment.size for segment in self._segments[at:])
        _remove(self._files, self._segments[at:])
        del self._segments[at:]

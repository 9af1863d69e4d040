"""Cutting a log: its end, a damaged part, or all of it; first made durable, then done (L4)."""

from collections.abc import Callable
from typing import Protocol

from everlog.log.compaction_swap import Swaps
from everlog.log.search import segment_index
from everlog.log.sync import Unsynced
from everlog.log.tail import Tail
from everlog.log.trouble import Trouble
from everlog.model.errors import CorruptDataError, StorageError
from everlog.model.ids import Instant, Offset
from everlog.model.topics import TopicPartition
from everlog.ports.clock import Clock


class Cuttable(Protocol):
    """What a log has beside its parts that a cut changes."""

    partition: TopicPartition
    start_offset: Offset
    failure: StorageError | None
    in_doubt: bool
    before_cut: Callable[[], None] | None

    def leave_lane(self) -> None:
        """Take in what the lane has, and take no more through it."""
        ...


class Cutting:
    """The cuts of one log, whose parts it is given to change.

    The log itself comes with each call: a part that kept it would keep it in memory after it was let go of.

    What the disk refuses, or cannot be read where the cut has to be, is a StorageError. Then nobody knows how
    far the cut has come, and the log takes no more appends.
    """

    __slots__ = ("_clock", "_swaps", "_tail", "_trouble", "_unsynced", "forbidden")

    def __init__(self, clock: Clock, tail: Tail, swaps: Swaps, unsynced: Unsynced, trouble: Trouble) -> None:
        self._clock = clock
        self._tail = tail
        self._swaps = swaps
        self._unsynced = unsynced
        self._trouble = trouble
        self.forbidden = False
        """Whether nothing may be cut, for the log is being written to disk anew."""

    def cut_at(self, log: Cuttable, offset: Offset) -> None:
        """Cut a log that ends behind `offset` there, or before the batch that holds it."""
        segments = self._tail.segments
        if offset < segments.bases[0]:
            self.begin_again(log, offset)
            return
        try:
            at = segment_index(segments.bases, offset)
            first = segments.in_order[at].find(offset)
            if first is not None:
                offset = min(offset, Offset(first.base_offset))
            self._cut(log, at + 1, offset)
        except (OSError, CorruptDataError) as error:
            raise self._failed(log, f"cannot be cut at {offset}", error) from error

    def begin_again(self, log: Cuttable, offset: Offset) -> None:
        """Throw away all records of a log and let it begin again at `offset`."""
        log.leave_lane()
        self._lower_to(log, offset)
        if log.start_offset < offset:
            # After a crash, segments that wait for an earlier start to be durable would lie before the new
            # ones, and recovery would end the log between them: where 55 to 60 are followed by 78.
            log.start_offset = offset
            if log.before_cut is not None:
                log.before_cut()
        try:
            due = self._settled_swaps()
            self._tail.begin_again(offset, due)
        except OSError as error:
            raise self._failed(log, f"cannot begin again at {offset}", error) from error

    def give_up(self, log: Cuttable, damaged_at: Offset) -> None:
        """Give up the segment that holds an offset, and all behind it."""
        bases = self._tail.segments.bases
        at = segment_index(bases, damaged_at)
        if at == 0:
            self.begin_again(log, log.start_offset)
            return
        damaged = bases[at]
        try:
            self._cut(log, at, damaged)
        except (OSError, CorruptDataError) as error:
            refusal = self._failed(log, f"cannot be cut at {damaged}", error)
            log.in_doubt = False
            raise refusal from error

    def _cut(self, log: Cuttable, at: int, offset: Offset) -> None:
        """Drop the segments from the one at `at` on, and of the one before what lies behind `offset`."""
        log.leave_lane()
        self._lower_to(log, offset)
        due = self._settled_swaps()
        self._tail.cut(at, offset, due)

    def _lower_to(self, log: Cuttable, offset: Offset) -> None:
        """Make it durable that nothing from `offset` on is, before other bytes take those places."""
        if self.forbidden:
            raise StorageError(f"{log.partition} cannot be cut while it is written to disk anew")
        unsynced = self._unsynced
        unsynced.begin_generation()
        if unsynced.recovery_point > offset or log.start_offset > offset:
            unsynced.recovery_point = min(unsynced.recovery_point, offset)
            log.start_offset = min(log.start_offset, offset)
            if log.before_cut is not None:
                log.before_cut()

    def _settled_swaps(self) -> Instant:
        """Bring compaction's swap to an end; returns when the files of segments that leave now may go."""
        due = Instant(self._clock.now() + self._tail.settings.file_delete_delay_ms)
        self._swaps.settle(due)
        return due

    def _failed(self, log: Cuttable, what: str, error: Exception) -> StorageError:
        """Let the log take no more appends; returns what to raise."""
        log.failure = self._trouble.refused(what, error, lasting=True)
        return log.failure

"""What of one log is durable and what will be, and what it means for the log where its disk fails it (L8)."""

from dataclasses import replace
from typing import Protocol

from everlog.log import replay
from everlog.log.directory_probe import PASSING
from everlog.log.rewriting import RewritePlan, rewrite_plan
from everlog.log.segment import SNAPSHOT_SUFFIX, file_name
from everlog.log.sync import SyncPlan, Unsynced
from everlog.log.tail import Tail
from everlog.log.trouble import Trouble
from everlog.model.errors import StorageError
from everlog.model.topics import TopicPartition
from everlog.ports.files import Files

_READ_QUICKLY_BYTES = 16 << 10


class Failing(Protocol):
    """What a log says of its own state, for others to see."""

    partition: TopicPartition
    failure: StorageError | None
    in_doubt: bool


class Durability:
    """The plans of one log, and what becomes of it when they or its writes fail.

    The log itself comes with each call that changes what it says of its state.
    """

    __slots__ = ("_files", "_tail", "_trouble", "_unsynced")

    def __init__(self, files: Files, tail: Tail, unsynced: Unsynced, trouble: Trouble) -> None:
        self._files = files
        self._tail = tail
        self._unsynced = unsynced
        self._trouble = trouble

    def plan(self) -> SyncPlan | None:
        """What would make all records up to now durable; None if nothing was written since the last plan."""
        tail = self._tail
        return self._unsynced.plan(tail.segments.active, tail.end_offset, tail.epochs)

    def not_written(self, log: Failing, error: OSError) -> StorageError:
        """Take in that a write failed; returns what to raise. The log goes on if the file is as it was."""
        refusal = self._trouble.refused("cannot be written", error)
        if self._tail.segments.active.file.broken:
            log.failure = refusal
            log.in_doubt = True
        return refusal

    def failed(self, log: Failing, error: OSError) -> None:
        """Take in that a plan failed: nobody knows what is on the disk now, so nothing is added to it."""
        # One that was deleted meanwhile had its files renamed under the sync.
        first = log.failure is None
        lasting = first and error.errno not in PASSING
        log.failure = self._trouble.refused("cannot be synced", error, lasting=lasting)
        log.in_doubt = log.in_doubt or first

    def postponed(self) -> None:
        """Take in that a plan could not be ended and no sync has failed: the next one covers it again."""
        self._trouble.tell(False)
        self._begin_anew()

    def rewrite_plan(self) -> RewritePlan:
        """What brings all to disk that may not be there since a sync has failed."""
        return rewrite_plan(self._files, self._tail.segments, self._unsynced.recovery_point)

    def rewritten(self, log: Failing) -> None:
        """Take in that all is on disk again: the log goes on, unless it was retired meanwhile."""
        if log.in_doubt:
            self._begin_anew()
            log.failure = None
            log.in_doubt = False

    def _begin_anew(self) -> None:
        sealed = self._tail.segments.sealed_above(self._unsynced.recovery_point)
        self._unsynced.begin_anew(sealed, self._tail.epochs)

    # The last plan

    def closing_plan(self, log: Failing) -> SyncPlan | None:
        """What makes everything durable, with all that a next start would else make anew; None if it is."""
        tail, unsynced = self._tail, self._unsynced
        if not unsynced.changed and unsynced.recovery_point == tail.end_offset:
            return None
        unsynced.changed = True
        unsynced.is_new = False  # One sync of the directory that all logs lie in will do for all.
        files, segments = self._files, tail.segments
        try:
            replay.write_snapshot(files, segments.path, tail.end_offset, tail.producers)
            replay.remove_snapshots(files, segments.path, segments.in_order, keep=tail.end_offset)
            return self.plan() if self._reads_quickly() else self._plan_with_derived()
        except OSError as error:
            self.failed(log, error)
            raise StorageError(f"{log.partition} cannot be closed: {error}") from error

    def _reads_quickly(self) -> bool:
        """Whether little is lost if a crash after the stop takes what is derived from the active segment."""
        active = self._tail.segments.active
        most = min(self._tail.settings.index_interval_bytes, _READ_QUICKLY_BYTES)
        return active.size <= most and not active.may_have_aborted

    def _plan_with_derived(self) -> SyncPlan:
        segments = self._tail.segments
        segments.active.save_for_seal()
        self._unsynced.names_changed = True
        self._unsynced.sealed.append(segments.active)
        plan = self.plan()
        assert plan is not None
        snapshot = f"{segments.path}/{file_name(self._tail.end_offset, SNAPSHOT_SUFFIX)}"
        return replace(plan, derived=(*plan.derived, snapshot))

"""Partitions on their way from one log directory of this broker to another (KIP-113).

A copy grows in the new directory beside the log in use. When it has nearly all and is durable, what is left
is copied in one go on the loop, and it takes the log's place: from then on everybody reads and writes there.
The old files go when the new ones are durable up to where the old ones end. A crash at any of these steps
leaves one log that has all, or two of which `log.directory.newer_of` says which.

The cleaner leaves the partition alone meanwhile: it could take away a tombstone of a record that is copied.
"""

import logging
from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final

from everlog.broker.replicas import Replica
from everlog.broker.replication_quota import ReplicationQuota
from everlog.broker.topic_settings import topic_log_settings
from everlog.log.directory import LogDirectory
from everlog.log.partition import PartitionLog
from everlog.model.errors import CorruptDataError, Refused, StorageError
from everlog.model.ids import Instant
from everlog.model.settings import broker_table as keys
from everlog.model.topics import TopicPartition
from everlog.ports.aside import Aside

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_log = logging.getLogger(__name__)

STEP_BYTES: Final = 1 << 20
"""What is copied before others have a turn."""
_LAST_STEPS: Final = 4
"""So many steps are made in one go to catch up with a log that grows all the time."""
_LONGEST_WAIT_MS: Final = 1_000
_WAIT_MS: Final = 100
"""How long to wait for the cleaner to end what it does with the log."""


class _Phase(Enum):
    COPYING = auto()
    NEAR = auto()
    """It had all a moment ago."""
    CLOSE = auto()
    """What was copied is durable, and the checkpoints of the new directory speak of it."""
    MOVED = auto()
    """The copy is the log now; the old files go once it is durable."""


class _Move:
    """One partition on its way."""

    __slots__ = ("busy", "copy", "generation", "log", "old_end", "phase", "replica", "source", "target")

    def __init__(self, replica: Replica, source: LogDirectory, target: LogDirectory) -> None:
        self.replica = replica
        self.source = source
        self.target = target
        self.copy: PartitionLog | None = None
        """Made once the cleaner is done with the log."""
        self.log: PartitionLog | None = None
        """What is copied: a partition may get another log meanwhile."""
        self.generation = -1
        """Of the log when the copy began: a log that is cut is another one."""
        self.phase = _Phase.COPYING
        self.busy = False
        """Whether something for it is under way beside the loop."""
        self.old_end = -1


class DirectoryMoves:
    """All moves of a broker; each goes a step at a time."""

    def __init__(self, broker: "Broker", aside: Aside) -> None:
        self._broker = broker
        self._threads = aside
        self._moves: dict[TopicPartition, _Move] = {}
        self.wishes: dict[TopicPartition, LogDirectory] = {}
        """Where partitions are to be made, or go next, that cannot go there now."""
        self._quota = ReplicationQuota()
        self._next_at: Instant | None = None

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._moves

    def copies(self, directory: LogDirectory) -> Iterator[tuple[TopicPartition, int, int]]:
        """What is on its way to a directory: the partition, bytes there, how many records it is behind."""
        for name, move in self._moves.items():
            if move.target is directory and move.phase is not _Phase.MOVED:
                log, copy = move.replica.log, move.copy
                if copy is None:
                    yield name, 0, 0 if log is None else log.end_offset - log.start_offset
                else:
                    yield name, copy.size, 0 if log is None else max(0, log.end_offset - copy.end_offset)

    def begin(self, replica: Replica, target: LogDirectory) -> None:
        """Bring a partition on its way to a directory, whatever it was on its way to before.

        StorageError if its log cannot be opened.
        """
        log = replica.opened()
        source = next(one for one in self._broker.directories if one.path == replica.directory)
        move = self._moves.get(replica.name)
        if move is not None:
            if move.phase is _Phase.MOVED:
                self.wishes[replica.name] = target
                return
            if move.target is target:
                return
            self._drop(move)
        if target is source:
            return
        _log.info("%s moves from %s to %s: %d bytes", replica.name, source.path, target.path, log.size)
        self._moves[replica.name] = _Move(replica, source, target)
        self._broker.alarm.ring_by(self._broker.clock.now())

    def forget(self, replica: Replica) -> None:
        """The partition is not this broker's any more."""
        self.wishes.pop(replica.name, None)
        move = self._moves.pop(replica.name, None)
        if move is not None:
            self._clear_away(move)

    def directory_lost(self, directory: LogDirectory) -> None:
        """Go on without a directory that has failed."""
        self.wishes = {name: wish for name, wish in self.wishes.items() if wish is not directory}
        for name, move in list(self._moves.items()):
            if move.source is directory:
                del self._moves[name]
                if move.phase is not _Phase.MOVED:
                    self._clear_away(move)
            elif move.target is directory:
                _log.error("%s stays in %s: %s has failed", name, move.source.path, directory.path)
                del self._moves[name]

    def stop(self) -> None:
        """End what can be ended at once, before the logs are closed. It blocks."""
        for move in self._moves.values():
            copy = move.copy
            if move.phase is _Phase.MOVED and copy is not None:
                try:
                    plan = copy.sync_plan()
                    if plan is not None:
                        plan.run()
                        copy.synced(plan)
                    if copy.recovery_point >= move.old_end:
                        self._clear_away(move)
                except OSError as error:
                    _log.error("%s lies in two directories until the next start: %s", copy.partition, error)
        self._moves.clear()

    def tick(self, now: Instant) -> None:
        """Do what is due."""
        if self._moves and self._next_at is not None and self._next_at > now:
            self._broker.alarm.ring_by(self._next_at)
            return
        self._next_at = None
        for move in list(self._moves.values()):
            self._go_on(move)

    # --- a step

    def _go_on(self, move: _Move) -> None:
        if move.busy or self._moves.get(move.replica.name) is not move:
            return
        try:
            self._step(move)
        except (Refused, StorageError, CorruptDataError) as error:
            self._failed(move, str(error))

    def _failed(self, move: _Move, why: str) -> None:
        if move.phase is _Phase.MOVED:
            # What is left there is found at the next start, and goes then.
            _log.error("%s has moved, and its old files stay: %s", move.replica.name, why)
            del self._moves[move.replica.name]
            return
        _log.error("%s stays in %s: %s", move.replica.name, move.source.path, why)
        self._drop(move)

    def _step(self, move: _Move) -> None:
        if move.phase is _Phase.MOVED:
            self._let_old_files_go(move)
            return
        log = move.replica.opened()
        if log.failure is not None:
            raise log.failure
        copy = move.copy
        if copy is None:
            copy = self._begin_copy(move, log)
            if copy is None:
                return
        if self._follow(move, log, copy):
            # What the checkpoints of the new directory say holds no more.
            move.phase = _Phase.COPYING
        if move.phase is _Phase.COPYING and copy.end_offset < log.end_offset:
            self._copy_on(move, log, copy)
        elif move.phase is not _Phase.CLOSE:
            self._make_durable(move, copy)
        elif self._catch_up(log, copy):
            self._take_over(move, log)
        else:
            move.phase = _Phase.COPYING
            self._copy_on(move, log, copy)

    def _begin_copy(self, move: _Move, log: PartitionLog) -> PartitionLog | None:
        broker = self._broker
        if broker.cleaner.is_at(log):
            self._wait(_WAIT_MS)
            return None
        name = move.replica.name
        settings = topic_log_settings(broker.settings, broker.image, name.topic)
        move.log, move.generation = log, log.generation
        move.copy = move.target.begin_future(name, move.replica.topic_id, settings, log.start_offset)
        return move.copy

    def _follow(self, move: _Move, log: PartitionLog, copy: PartitionLog) -> bool:
        """Do to the copy what was done to the log but appending; returns whether anything was."""
        is_another = move.log is not log or move.generation != log.generation
        if is_another or log.start_offset > copy.end_offset:
            move.log, move.generation = log, log.generation
            copy.restart_at(log.start_offset)
            return True
        if log.start_offset > copy.start_offset:
            copy.move_start_to(log.start_offset)
            return True
        return False

    def _copy_on(self, move: _Move, log: PartitionLog, copy: PartitionLog) -> None:
        """Copy some more, read beside the loop, unless the throttle holds it back."""
        now = self._broker.clock.now()
        self._quota.set_rate(self._broker.settings[keys.REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND])
        if self._quota.is_exceeded(now):
            # The rate may be another one before the time is up.
            self._wait(min(self._quota.wait_ms(), _LONGEST_WAIT_MS))
            return
        found = log.read(copy.end_offset, STEP_BYTES, log.end_offset)
        if found is None:
            raise StorageError(f"{log.partition} has nothing from {copy.end_offset} to {log.end_offset}")
        self._aside(move, found.read, partial(self._copied, move, log, copy, log.end_offset))

    def _copied(self, move: _Move, log: PartitionLog, copy: PartitionLog, end: int, data: bytes) -> None:
        if move.replica.log is not log or self._follow(move, log, copy):
            return  # What was read may be of a log that is another one by now.
        copy.append_replicated(memoryview(bytearray(data)), self._broker.clock.wall())
        self._quota.used(len(data))
        if copy.end_offset >= end:
            # All but what came while this was read: were it to wait for a quiet moment, one might never come.
            move.phase = _Phase.NEAR

    def _make_durable(self, move: _Move, copy: PartitionLog) -> None:
        """Sync the copy, and have the checkpoints of its directory speak of it."""
        broker = self._broker
        replica = move.replica
        move.busy = True

        def synced(durable: bool) -> None:
            if not durable or self._moves.get(replica.name) is not move:
                noted(durable)
                return
            clean_end = move.source.clean_ends.get(replica.name)
            move.target.expect(copy, replica.high_watermark, clean_end)
            broker.housekeeping.checkpoint(move.target, noted)

        def noted(durable: bool) -> None:
            move.busy = False
            if self._moves.get(replica.name) is not move:
                return
            if not durable:
                self._failed(move, "its copy cannot be synced")
                return
            move.phase = _Phase.CLOSE
            self._go_on(move)

        broker.group_commit.wait(copy, copy.end_offset, None, synced)

    def _catch_up(self, log: PartitionLog, copy: PartitionLog) -> bool:
        """Copy the little that came meanwhile; returns whether that was all."""
        for _ in range(_LAST_STEPS):
            if copy.end_offset == log.end_offset:
                return True
            found = log.read(copy.end_offset, STEP_BYTES, log.end_offset)
            if found is None:
                return False
            copy.append_replicated(memoryview(bytearray(found.read())), self._broker.clock.wall())
        return copy.end_offset == log.end_offset

    def _take_over(self, move: _Move, log: PartitionLog) -> None:
        """Let the copy take the place of the log."""
        broker, replica = self._broker, move.replica
        new = move.target.move_in(log)
        move.source.let_go(replica.name)
        log.retire("has moved to another directory")
        move.old_end = log.end_offset
        move.phase = _Phase.MOVED
        replica.log = new
        replica.directory = move.target.path
        new.reconfigure(log.settings)
        broker.group_commit.moved(log, new)
        broker.replication.log_moved(replica, new)
        broker.assignments.note(replica.name, move.target.path)
        _log.info("%s is in %s now", replica.name, move.target.path)
        self._let_old_files_go(move)

    def _let_old_files_go(self, move: _Move) -> None:
        copy = move.copy
        assert copy is not None, move.replica.name
        if copy.failure is not None:
            raise copy.failure
        if copy.recovery_point >= move.old_end:
            del self._moves[move.replica.name]
            self._clear_away(move)
            wish = self.wishes.pop(move.replica.name, None)
            if wish is not None:
                self.begin(move.replica, wish)
            return
        move.busy = True

        def synced(durable: bool) -> None:
            move.busy = False
            if not durable and self._moves.get(move.replica.name) is move:
                self._failed(move, "it cannot be synced")
            self._go_on(move)

        self._broker.group_commit.wait(copy, move.old_end, None, synced)

    def _aside(self, move: _Move, job: Callable[[], bytes], done: Callable[[bytes], None]) -> None:
        move.busy = True

        def ended(result: bytes | OSError) -> None:
            move.busy = False
            if self._moves.get(move.replica.name) is not move:
                return
            try:
                # A segment that retention has removed meanwhile is missed by nobody.
                if not isinstance(result, FileNotFoundError):
                    if isinstance(result, OSError):
                        raise StorageError(str(result))
                    done(result)
            except (Refused, StorageError, CorruptDataError) as error:
                self._failed(move, str(error))
                return
            self._go_on(move)

        self._threads.run(job, ended)

    def _wait(self, ms: int) -> None:
        due = Instant(self._broker.clock.now() + ms)
        self._next_at = due if self._next_at is None else min(self._next_at, due)
        self._broker.alarm.ring_by(self._next_at)

    # --- ends

    def _drop(self, move: _Move) -> None:
        del self._moves[move.replica.name]
        self._clear_away(move)

    def _clear_away(self, move: _Move) -> None:
        """Remove what a move that is over leaves behind."""
        name = move.replica.name
        try:
            if move.phase is _Phase.MOVED:
                log = move.copy
                delay_ms = log.settings.file_delete_delay_ms if log is not None else 0
                move.source.clear_away(name, delay_ms)
            elif move.copy is not None:
                move.target.drop_future(name)
        except StorageError as error:
            _log.error("files of %s stay until the next start: %s", name, error)

"""The log cleaner: which log is compacted when (L6).

Every `log.cleaner.backoff.ms` the dirtiest of the logs that are dirty enough is picked, and while there is
one the next follows at once. The work runs beside the loop in short jobs, with a pause between them where
`log.cleaner.io.max.bytes.per.second` asks for it.
"""

import logging
from collections.abc import Generator
from typing import TYPE_CHECKING

from everlog.broker.replicas import Replica
from everlog.log.appending import World
from everlog.log.directory import LogDirectory
from everlog.log.partition import PartitionLog
from everlog.log.settings import FOREVER
from everlog.model.errors import CorruptDataError, StorageError
from everlog.model.ids import Instant
from everlog.model.settings import broker_table as keys
from everlog.ports.aside import Aside

if TYPE_CHECKING:
    from everlog.broker.broker import Broker
    from everlog.log.compaction import DirtyPart
    from everlog.log.compaction_run import Cleaning, Job

_log = logging.getLogger(__name__)

STEP_BYTES = 8 << 20
"""What a job reads and writes before others have a turn."""
_THROTTLE_MS = 100
"""The work of which a job does at once where the rate is bounded."""
RETRY_MS = 300_000
"""How long a log is left alone after its disk refused something."""


class _Round:
    """A log under compaction."""

    __slots__ = ("began_at", "cleaning", "directory", "jobs", "next_at", "next_job")

    def __init__(self, cleaning: "Cleaning", directory: LogDirectory, now: Instant) -> None:
        self.began_at = now
        self.cleaning = cleaning
        self.directory = directory
        self.jobs: Generator[Job, int | CorruptDataError, None] = cleaning.jobs()
        self.next_job: Job | None = None
        """What waits for `next_at`; None while a job runs."""
        self.next_at: Instant = Instant(0)


class Cleaner:
    """The compaction of all logs of one broker."""

    def __init__(self, broker: "Broker", aside: Aside) -> None:
        self._broker = broker
        self._aside = aside
        self._world = World(broker.files, broker.clock, broker.random)
        self._look_at = Instant(
            broker.clock.now()
            + min(
                broker.settings[keys.LOG_CLEANER_BACKOFF_MS], broker.settings[keys.LOG_INITIAL_TASK_DELAY_MS]
            )
        )
        self._rounds: dict[PartitionLog, _Round] = {}
        self._starting: set[PartitionLog] = set()
        self._left_alone: dict[PartitionLog, Instant] = {}
        """Logs that could not be compacted, and when to try again: a damaged one once it is reopened."""

    def tick(self, now: Instant) -> None:
        """Do what is due."""
        settings = self._broker.settings
        if not settings[keys.LOG_CLEANER_ENABLE]:
            return
        for cleaning in list(self._rounds.values()):
            if cleaning.next_job is not None and cleaning.next_at <= now:
                self._run(cleaning, cleaning.next_job)
        if now >= self._look_at:
            self._look_at = Instant(now + max(1, settings[keys.LOG_CLEANER_BACKOFF_MS]))
            self.look()
        waiting = [cleaning.next_at for cleaning in self._rounds.values() if cleaning.next_job is not None]
        self._broker.alarm.ring_by(min([self._look_at, *waiting]))

    def is_at(self, log: PartitionLog) -> bool:
        """Whether it compacts a log just now, or is about to."""
        return log in self._rounds or log in self._starting

    # --- which log

    def look(self) -> None:
        """Begin with the dirtiest logs, as many as may be compacted at a time."""
        threads = self._broker.settings[keys.LOG_CLEANER_THREADS]
        if len(self._rounds) + len(self._starting) >= threads:
            return
        found = sorted(self._candidates(), key=lambda found: found[2].ratio, reverse=True)
        for replica, log, part in found[: threads - len(self._rounds) - len(self._starting)]:
            self._begin(replica, log, part)

    def _candidates(self) -> "list[tuple[Replica, PartitionLog, DirtyPart]]":
        now, wall = self._broker.clock.now(), self._broker.clock.wall()
        found: list[tuple[Replica, PartitionLog, DirtyPart]] = []
        compacted = [
            (replica, replica.log)
            for replica in self._broker.replicas
            if replica.log is not None and replica.log.settings.cleanup_compact
        ]
        known = {log for _, log in compacted}
        self._left_alone = {log: until for log, until in self._left_alone.items() if log in known}
        if not compacted:
            return found
        # How logs are compacted is imported when there is one: a broker is to serve a moment after its start.
        from everlog.log.compaction import dirty_part

        for replica, log in compacted:
            if log.failure or self.is_at(log) or replica.name in self._broker.moves:
                continue
            if self._left_alone.get(log, now) > now:
                continue
            if log.sealed_unsynced:
                # Only what is durable is compacted; the next look finds it so.
                self._broker.group_commit.wait(log, log.end_offset, now, lambda _durable: None)
            try:
                checkpoint = self._directory_of(replica).clean_ends.get(replica.name)
                part = dirty_part(self._broker.files, log, checkpoint, replica.last_stable_offset, wall)
            except (StorageError, CorruptDataError) as error:
                self._leave_alone(log, error)
                continue
            if part.is_due(log.settings):
                found.append((replica, log, part))
        return found

    def _directory_of(self, replica: Replica) -> LogDirectory:
        return next(found for found in self._broker.directories if found.path == replica.directory)

    # --- a round

    def _begin(self, replica: Replica, log: PartitionLog, part: "DirtyPart") -> None:
        directory = self._directory_of(replica)
        if replica.name in directory.clean_ends:
            self._start(log, directory, part)
            return
        # Durable first, so that no later start takes the gaps that compaction leaves for damage, even if
        # the topic is not compacted any more by then.
        directory.clean_ends[replica.name] = part.start_offset
        self._starting.add(log)

        def noted(durable: bool) -> None:
            self._starting.discard(log)
            if durable:
                self.look()  # The log may have changed meanwhile.
            else:
                directory.clean_ends.pop(replica.name, None)

        self._broker.checkpoint_start_offsets(noted)

    def _start(self, log: PartitionLog, directory: LogDirectory, part: "DirtyPart") -> None:
        from everlog.log.compaction import CleanerMemory, clean_plan
        from everlog.log.compaction_run import Cleaning

        settings = self._broker.settings
        threads = max(1, settings[keys.LOG_CLEANER_THREADS])
        memory = CleanerMemory(
            settings[keys.LOG_CLEANER_DEDUPE_BUFFER_SIZE] // threads,
            settings[keys.LOG_CLEANER_IO_BUFFER_LOAD_FACTOR],
            max(1, settings[keys.LOG_CLEANER_IO_BUFFER_SIZE] // threads),
        )
        plan = clean_plan(self._world, log, part, memory)
        cleaning = Cleaning(log, plan, self._broker.clock, self._step_bytes())
        self._rounds[log] = _Round(cleaning, directory, self._broker.clock.now())
        self._advance(self._rounds[log], None)

    def _step_bytes(self) -> int:
        rate = self._broker.settings[keys.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND]
        return max(1, int(min(float(STEP_BYTES), rate * _THROTTLE_MS / 1000)))

    def _run(self, cleaning: _Round, job: "Job") -> None:
        cleaning.next_job = None
        self._aside.run(job, lambda result: self._advance(cleaning, result))

    def _advance(self, cleaning: _Round, result: int | CorruptDataError | OSError | None) -> None:
        """Take in what a job has done and go on to the next, at once or when the rate allows it."""
        from everlog.log.compaction_run import LogChangedError

        log = cleaning.cleaning.log
        try:
            if isinstance(result, OSError):
                job = cleaning.jobs.throw(result)
            elif result is None:
                job = next(cleaning.jobs)
            else:
                job = cleaning.jobs.send(result)
        except StopIteration:
            self._succeeded(cleaning)
        except LogChangedError as change:
            _log.info("the compaction of %s ends early: %s", log.partition, change)
            self._over(log)
        except (OSError, StorageError, CorruptDataError) as error:
            self._leave_alone(log, error)
            self._over(log)
        else:
            now = self._broker.clock.now()
            rate = self._broker.settings[keys.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND]
            moved = result if isinstance(result, int) else 0
            cleaning.next_at = Instant(now + int(moved * 1000 / rate))
            if cleaning.next_at <= now:
                self._run(cleaning, job)
            else:
                cleaning.next_job = job
                self._broker.alarm.ring_by(cleaning.next_at)

    def _succeeded(self, finished: _Round) -> None:
        cleaning = finished.cleaning
        log = cleaning.log
        if log.generation == cleaning.plan.generation and log.failure is None:
            finished.directory.clean_ends[log.partition] = cleaning.end_offset
            self._broker.checkpoint_start_offsets(lambda _durable: None)
            _log.info(
                "%s is compacted up to offset %d: %d bytes of segments became %d in %d ms",
                log.partition,
                cleaning.end_offset,
                cleaning.bytes_before,
                cleaning.bytes_after,
                self._broker.clock.now() - finished.began_at,
            )
        self._over(log)

    def _over(self, log: PartitionLog) -> None:
        del self._rounds[log]
        self.look()

    def _leave_alone(self, log: PartitionLog, error: Exception) -> None:
        damaged = isinstance(error, CorruptDataError)
        _log.error(
            "%s cannot be compacted and is left alone %s: %s",
            log.partition,
            "until it is opened again" if damaged else f"for {RETRY_MS // 1000} s",
            error,
        )
        until = FOREVER if damaged else self._broker.clock.now() + RETRY_MS
        self._left_alone[log] = Instant(until)

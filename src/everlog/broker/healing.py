"""Logs that a failed sync has closed, brought back by themselves once their disk works again (O5).

A log takes no records while nobody knows what of it is on the disk. As soon as its directory takes a file and
has room, all that is in doubt is proved and written again (`log.rewriting`), and the log goes on where it
was, in the role that it had. While that does not succeed, others lead what they can.

Where a batch can be proved no more, the disk has not kept it. If the partition has other replicas it counts
as damaged, and is mended as such (`Repairs`). Else it is opened anew with what is left: like after a crash,
what was synced is there.
"""

import logging
from typing import TYPE_CHECKING, Final

from everlog.broker.replicas import Replica
from everlog.controller.metadata_log import METADATA_PARTITION
from everlog.log.directory import LogDirectory
from everlog.log.directory_probe import probe_directory
from everlog.log.partition import PartitionLog
from everlog.log.rewriting import Damage
from everlog.model.errors import StorageError
from everlog.model.ids import Instant
from everlog.ports.aside import Aside

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_log = logging.getLogger(__name__)

FIRST_MS: Final = 500
"""How long a log is left alone before the first try: whatever made its sync fail may not be over."""
_MOST_MS: Final = 30_000
"""The tries become rarer up to this: each of them may write a whole segment."""


class Healing:
    """The logs of a broker that are in doubt."""

    def __init__(self, broker: "Broker", aside: Aside) -> None:
        self._broker = broker
        self._aside = aside
        self._look_at: Instant | None = None
        self._failures: dict[PartitionLog, int] = {}
        """How many tries have failed."""
        self._due: dict[PartitionLog, Instant] = {}
        """When a log is tried next; one that is not here, or is tried now, has nothing due."""
        self._tried: set[PartitionLog] = set()

    def look_soon(self) -> None:
        """A disk has refused something: see whether that has left a log in doubt."""
        if self._look_at is None:
            self._look_at = Instant(self._broker.clock.now() + FIRST_MS)
            self._broker.alarm.ring_by(self._look_at)

    def tick(self, now: Instant) -> None:
        """Try what is due."""
        if self._look_at is None:
            return
        if self._look_at > now:
            self._broker.alarm.ring_by(self._look_at)
            return
        self._look_at = None
        waiting: list[Instant] = []
        known: set[PartitionLog] = set()
        for directory in self._broker.directories:
            for log in directory.open_logs:
                # The quorum looks after its own.
                if log.in_doubt and log.partition != METADATA_PARTITION:
                    known.add(log)
                    due = self._due.get(log, now)
                    if due > now:
                        waiting.append(due)
                    elif log not in self._tried and not self._try(directory, log):
                        waiting.append(Instant(now + FIRST_MS))
        self._failures = {log: count for log, count in self._failures.items() if log in known}
        self._due = {log: due for log, due in self._due.items() if log in known}
        if waiting:
            self._look_at = min(waiting)
            self._broker.alarm.ring_by(self._look_at)

    def _try(self, directory: LogDirectory, log: PartitionLog) -> bool:
        """Begin to bring a log back; returns whether it could be tried."""
        if log.damaged_at is not None or directory.path in self._broker.housekeeping.without_room:
            return False
        if self._broker.cleaner.is_at(log):
            return False
        files = self._broker.files
        plan = log.rewrite_plan()
        self._tried.add(log)

        def job() -> Damage | None:
            probe_directory(files, directory.path)
            return plan.run()

        self._aside.run(job, lambda result: self._ended(directory, log, result))
        return True

    def _ended(self, directory: LogDirectory, log: PartitionLog, result: Damage | OSError | None) -> None:
        self._tried.discard(log)
        if not log.in_doubt:
            return  # It was deleted meanwhile, or its directory is out of use.
        replica = self._broker.replicas.get(log.partition.topic, log.partition.partition)
        if isinstance(result, OSError):
            self._failed(replica, log, result)
        elif isinstance(result, Damage):
            self._lost(directory, replica, log, result)
        else:
            log.rewritten()
            _log.warning("%s takes records again: all of it is on disk", log.partition)
        self.look_soon()

    def _failed(self, replica: Replica | None, log: PartitionLog, error: OSError) -> None:
        log.rewrite_failed()
        failures = self._failures.get(log, 0)
        self._failures[log] = failures + 1
        wait_ms = min(FIRST_MS << min(failures, 10), _MOST_MS)
        self._due[log] = Instant(self._broker.clock.now() + wait_ms)
        _log.error("%s takes no records for now, the disk still refuses: %s", log.partition, error)
        if replica is not None and replica.leads:
            self._broker.repairs.note(replica)

    def _lost(
        self, directory: LogDirectory, replica: Replica | None, log: PartitionLog, damage: Damage
    ) -> None:
        _log.error("%s has lost records that were not synced: %s", log.partition, damage.problem)
        if replica is not None and not replica.sole:
            log.lost(damage)
            self._broker.repairs.note(replica)
            return
        try:
            new = directory.reopen(log.partition)
        except StorageError as error:
            _log.error("%s cannot be opened and is out of use until the next start: %s", log.partition, error)
            return
        log.retire("was opened anew")
        _log.warning("%s takes records again, from offset %d on", log.partition, new.end_offset)
        if replica is not None and replica.log is log:
            replica.log = new

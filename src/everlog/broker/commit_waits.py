"""Those who wait for records to be committed: producers with acks=all, and coordinators (R4)."""

from collections.abc import Callable

from everlog.broker.replicas import Replica
from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant, Offset
from everlog.ports.alarm import Alarm

Done = Callable[[ErrorCode], None]


class CommitWait:
    """One who waits until all below `end` is committed."""

    __slots__ = ("deadline", "done", "end", "while_enough")

    def __init__(self, end: Offset, done: Done, deadline: Instant | None, while_enough: bool) -> None:
        self.end = end
        self.done = done
        self.deadline = deadline
        """When to give up; None is never."""
        self.while_enough = while_enough
        """Whether to give up as soon as too few replicas are in sync."""


class CommitWaits:
    """All of them, at most one call back to each. They are kept with their replicas, the lowest end first."""

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._waited_on: dict[Replica, None] = {}
        self._next_deadline: Instant | None = None

    def add(self, replica: Replica, wait: CommitWait) -> None:
        """Let somebody wait."""
        waits = replica.commit_waits
        at = len(waits)
        while (
            at and waits[at - 1].end > wait.end
        ):  # Only a repeated batch ends before one that waits already.
            at -= 1
        waits.insert(at, wait)
        self._waited_on[replica] = None
        deadline = wait.deadline
        if deadline is not None and (self._next_deadline is None or deadline < self._next_deadline):
            self._next_deadline = deadline
            self._alarm.ring_by(deadline)

    def reached(self, replica: Replica, high_watermark: Offset, code: ErrorCode) -> None:
        """All below `high_watermark` is committed: tell those who waited for it, with `code`."""
        waits = replica.commit_waits
        count = 0
        for wait in waits:
            if wait.end > high_watermark:
                break
            count += 1
        if count:
            self._tell(replica, waits[:count], waits[count:], code)

    def too_few(self, replica: Replica) -> None:
        """Too few replicas are in sync: tell those who do not wait for more to come."""
        gone = [wait for wait in replica.commit_waits if wait.while_enough]
        left = [wait for wait in replica.commit_waits if not wait.while_enough]
        self._tell(replica, gone, left, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def fail(self, replica: Replica, code: ErrorCode) -> None:
        """Nobody can know here any more what is committed."""
        self._tell(replica, replica.commit_waits, [], code)

    def tick(self, now: Instant) -> None:
        """Tell those whose time is up."""
        if self._next_deadline is None:
            return
        if self._next_deadline <= now:
            self._next_deadline = None
            for replica in list(self._waited_on):
                late = [wait for wait in replica.commit_waits if _is_late(wait, now)]
                if late:
                    left = [wait for wait in replica.commit_waits if not _is_late(wait, now)]
                    self._tell(replica, late, left, ErrorCode.REQUEST_TIMED_OUT)
            deadlines = [
                wait.deadline
                for replica in self._waited_on
                for wait in replica.commit_waits
                if wait.deadline is not None
            ]
            if deadlines:
                self._next_deadline = min(deadlines)
        if self._next_deadline is not None:
            self._alarm.ring_by(self._next_deadline)

    def _tell(
        self, replica: Replica, told: list[CommitWait], left: list[CommitWait], code: ErrorCode
    ) -> None:
        replica.commit_waits = left
        if not left:
            self._waited_on.pop(replica, None)
        for wait in told:
            wait.done(code)


def _is_late(wait: CommitWait, now: Instant) -> bool:
    return wait.deadline is not None and wait.deadline <= now

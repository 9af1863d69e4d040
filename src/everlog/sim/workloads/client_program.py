"""Programs that use the public clients: what they have in common, which is how they note what they do."""

from collections.abc import Callable
from typing import Any

from everlog.model.errors import EverlogError, Refused
from everlog.records.reader import Record
from everlog.records.rows import ConsumerRecord
from everlog.sim.history import Kind, Outcome, Polled
from everlog.sim.workloads.actor import Actor
from everlog.sim.workloads.content import polled

BOOTSTRAP = "broker.test:9092"


class ClientProgram(Actor):
    """One life of a process. What is under way when it is killed has an unknown outcome."""

    is_gone = False
    """Whether the process was killed. Its coroutines are unwound, which nobody is to hear of."""

    def note(self, kind: Kind, outcome: Outcome, start: int, **parts: Any) -> None:
        """Record an operation, as long as the process lives."""
        if not self.is_gone:
            super().note(kind, outcome, start, **parts)

    def killed(self) -> None:
        """Note what nobody will hear of, and nothing from here on."""
        self.give_up()
        self.is_gone = True

    def give_up(self) -> None:
        """Note what is under way; it may yet happen."""

    def complain(self, what: str) -> None:
        """Note what a sound client does not do, as long as the process lives."""
        if not self.is_gone:
            self.setting.complain(self.name, what)

    def unexpected(self, error: EverlogError, allowed: Callable[[EverlogError], bool]) -> None:
        """Complain of an error that this network and this broker do not explain."""
        if not allowed(error):
            self.complain(f"{type(error).__name__}: {error}")


def is_refused(error: BaseException, codes: frozenset[Any]) -> bool:
    """Whether a broker refused something with one of these."""
    return isinstance(error, Refused) and error.code in codes


def as_polled(record: ConsumerRecord) -> Polled:
    """A record as histories have it."""
    row = Record(record.offset, record.timestamp, record.key, record.value, record.headers)
    return polled(f"{record.topic}-{record.partition}", row)

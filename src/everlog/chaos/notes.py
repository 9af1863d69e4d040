"""What happened when, as all parts of a run note it: one clock, plain values, any thread."""

import time
from dataclasses import dataclass, field

from everlog.sim.history import Kind, Operation, Outcome, Promises, Recorder

TICKS_PER_MS = 1000


class RunClock:
    """Microseconds since the run began, for histories, and milliseconds for people."""

    def __init__(self) -> None:
        self._began = time.monotonic_ns()

    def ticks(self) -> int:
        """The time of histories."""
        return (time.monotonic_ns() - self._began) // 1000

    def ms(self) -> float:
        """The same in milliseconds."""
        return self.ticks() / TICKS_PER_MS


@dataclass(frozen=True, slots=True)
class Acked:
    """A record that was acknowledged; times in milliseconds of the run."""

    sent_ms: float
    acked_ms: float
    partition: int


@dataclass(frozen=True, slots=True)
class Handed:
    """A record that a member of the group got."""

    at_ms: float
    partition: int
    member: str


@dataclass(frozen=True, slots=True)
class PartitionSeen:
    """Who led a partition and who was in sync, from this moment until the next of its kind."""

    at_ms: float
    partition: int
    leader: int
    isr: tuple[int, ...]


@dataclass(slots=True)
class StepDone:
    """What became of one step."""

    step: str
    begin_ms: float
    end_ms: float = 0.0
    node: int | None = None
    means: str = ""
    figures: dict[str, float] = field(default_factory=dict[str, float])
    skipped: str = ""
    """Why it could not be done on this machine."""
    failed: str = ""
    """What it waited for in vain."""


@dataclass(slots=True)
class Notes:
    """All of a run."""

    clock: RunClock
    recorder: Recorder
    acked: list[Acked] = field(default_factory=list[Acked])
    handed: list[Handed] = field(default_factory=list[Handed])
    seen: list[PartitionSeen] = field(default_factory=list[PartitionSeen])
    steps: list[StepDone] = field(default_factory=list[StepDone])
    unanswered: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """Records that were given up, when, and why."""

    def fault(self, begin_ms: float, words: str) -> None:
        """Note in the history that something was broken until now."""
        start = int(begin_ms * TICKS_PER_MS)
        self.recorder.add(Operation("chaos", Kind.FAULT, Outcome.OK, start, self.clock.ticks(), note=words))


def new_notes() -> Notes:
    """Notes of a run that begins now."""
    return Notes(RunClock(), Recorder(Promises(idempotent=True, ticks_per_ms=TICKS_PER_MS)))

"""Samples as they were taken, kept as JSON, and the ratios made of those that followed each other."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import QUIET_CORES, Machine
from bench.samples import Spread


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one program."""

    broker: str
    work: str
    size: int
    program: str
    repeat: int
    records: int
    records_per_s: float
    cpu_s_per_million: float
    """CPU seconds of the client's process."""
    foreign_cores: float
    broker_cpu_s_per_million: float = 0.0
    """CPU seconds of the broker meanwhile; 0 where nobody looked."""

    @property
    def quiet(self) -> bool:
        """Whether others left the machine to us meanwhile."""
        return self.foreign_cores < QUIET_CORES


@dataclass(frozen=True, slots=True)
class Results:
    """All that one run found."""

    machine: Machine
    date: str
    command: str
    versions: dict[str, str]
    samples: list[Sample] = field(default_factory=list[Sample])
    failures: list[str] = field(default_factory=list[str])

    def of(self, broker: str, work: str, size: int, program: str) -> list[Sample]:
        """The samples of one program in the order they were taken."""
        return [
            sample
            for sample in self.samples
            if (sample.broker, sample.work, sample.size, sample.program) == (broker, work, size, program)
        ]

    def ratio(self, broker: str, work: str, size: int, ours: str, theirs: str) -> Spread | None:
        """How many times as fast ours is, by runs of the same repeat; None without such."""
        pairs = self._pairs(broker, work, size, ours, theirs)
        return Spread.of([a.records_per_s / b.records_per_s for a, b in pairs]) if pairs else None

    def cpu_ratio(self, broker: str, work: str, size: int, ours: str, theirs: str) -> Spread | None:
        """How many times as much CPU theirs takes, by runs of the same repeat; None without such."""
        pairs = [pair for pair in self._pairs(broker, work, size, ours, theirs) if pair[0].cpu_s_per_million]
        return Spread.of([b.cpu_s_per_million / a.cpu_s_per_million for a, b in pairs]) if pairs else None

    def _pairs(
        self, broker: str, work: str, size: int, ours: str, theirs: str
    ) -> list[tuple[Sample, Sample]]:
        other = {sample.repeat: sample for sample in self.of(broker, work, size, theirs)}
        return [
            (sample, other[sample.repeat])
            for sample in self.of(broker, work, size, ours)
            if sample.repeat in other
        ]

    def save(self, path: Path) -> None:
        """Write everything to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Read back what `save` wrote."""
        data: dict[str, Any] = json.loads(path.read_text())
        return cls(
            machine=Machine(**data["machine"]),
            date=data["date"],
            command=data["command"],
            versions=data["versions"],
            samples=[Sample(**sample) for sample in data["samples"]],
            failures=data["failures"],
        )

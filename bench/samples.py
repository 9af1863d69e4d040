"""Samples as they were taken, with the machine and the versions they were taken on; kept as JSON."""

import json
import statistics
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.machine import QUIET_CORES, Machine

Values = dict[str, float]
"""One sample: a value for each metric of a scenario, by the metric's key."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one scenario on one broker."""

    scenario: str
    broker: str
    values: Values
    foreign_cores: float
    loader_cpu_s: float

    @property
    def quiet(self) -> bool:
        """Whether others left the machine to us meanwhile."""
        return self.foreign_cores < QUIET_CORES

    def rounded(self) -> "Sample":
        """The same in as many digits as are kept."""
        return replace(
            self,
            values={key: _rounded(value) for key, value in self.values.items()},
            foreign_cores=_rounded(self.foreign_cores),
            loader_cpu_s=_rounded(self.loader_cpu_s),
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """Some values in three figures."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        """The spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Results:
    """All that one run of the benchmark found."""

    machine: Machine
    date: str
    command: str
    versions: dict[str, str]
    samples: list[Sample] = field(default_factory=list[Sample])
    failures: list[str] = field(default_factory=list[str])

    def values(self, key: str, broker: str) -> list[float]:
        """The values of a metric on a broker, in the order they were taken."""
        return [s.values[key] for s in self.samples if s.broker == broker and key in s.values]

    def quiet(self, key: str) -> tuple[int, int]:
        """How many samples of a metric were taken on a quiet machine, on either broker, and of how many."""
        taken = [sample.quiet for sample in self.samples if key in sample.values]
        return sum(taken), len(taken)

    def all_quiet(self) -> tuple[int, int]:
        """How many of all samples were taken on a quiet machine, and how many there are."""
        return sum(sample.quiet for sample in self.samples), len(self.samples)

    def foreign_cores(self) -> Spread | None:
        """How many cores others used during the samples."""
        cores = [sample.foreign_cores for sample in self.samples]
        return Spread.of(cores) if cores else None

    def save(self, path: Path) -> None:
        """Write everything to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        data = asdict(self)
        data["samples"] = [asdict(sample.rounded()) for sample in self.samples]
        path.write_text(json.dumps(data, indent=1) + "\n")

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


def _rounded(value: float) -> float:
    """Cut to five digits, which is more than any figure here is good for."""
    return float(f"{value:.5g}")

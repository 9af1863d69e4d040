"""Samples as they were taken, kept as JSON, and the ratios made of those that followed each other."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import QUIET_CORES, Machine
from bench.samples import Spread


@dataclass(frozen=True, slots=True)
class Rate:
    """One run of one job that moves rows."""

    job: str
    size: int
    """Bytes of a value."""
    repeat: int
    rows: int
    rows_per_s: float
    cpu_s_per_million: float
    """Of the virtual machine and all Python processes that it starts; the broker's are not in it."""
    foreign_cores: float


@dataclass(frozen=True, slots=True)
class Latency:
    """One run of one query from topic to topic: from before a record is sent until it is read again."""

    job: str
    repeat: int
    records: int
    p50_ms: float
    p99_ms: float
    foreign_cores: float
    cpu_ms_a_batch: float = 0.0
    """Of the virtual machine and all Python processes that it starts; 0 in samples that do not have it."""


@dataclass(frozen=True, slots=True)
class Results:
    """All that one run found."""

    machine: Machine
    date: str
    command: str
    versions: dict[str, str]
    rates: list[Rate] = field(default_factory=list[Rate])
    latencies: list[Latency] = field(default_factory=list[Latency])
    failures: list[str] = field(default_factory=list[str])

    def of(self, job: str, size: int) -> list[Rate]:
        """The samples of one job in the order they were taken."""
        return [rate for rate in self.rates if (rate.job, rate.size) == (job, size)]

    def latency(self, job: str) -> list[Latency]:
        """The samples of one query's latency."""
        return [latency for latency in self.latencies if latency.job == job]

    def ratio(self, size: int, ours: str, theirs: str) -> Spread | None:
        """How many times as fast one job is as another, by runs of the same repeat; None without such."""
        return self._ratio(size, ours, theirs, lambda one, other: one.rows_per_s / other.rows_per_s)

    def cpu_ratio(self, size: int, ours: str, theirs: str) -> Spread | None:
        """How many times the CPU of one job another takes, by runs of the same repeat; None without such."""
        return self._ratio(
            size, ours, theirs, lambda one, other: other.cpu_s_per_million / one.cpu_s_per_million
        )

    def _ratio(self, size: int, ours: str, theirs: str, of: Callable[[Rate, Rate], float]) -> Spread | None:
        other = {rate.repeat: rate for rate in self.of(theirs, size)}
        ratios = [of(rate, other[rate.repeat]) for rate in self.of(ours, size) if rate.repeat in other]
        return Spread.of(ratios) if ratios else None

    def noisy(self) -> tuple[int, int]:
        """How many samples were taken while others used the machine, and how many there are."""
        cores = [rate.foreign_cores for rate in self.rates]
        cores += [latency.foreign_cores for latency in self.latencies]
        return sum(used >= QUIET_CORES for used in cores), len(cores)

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
            rates=[Rate(**rate) for rate in data["rates"]],
            latencies=[Latency(**latency) for latency in data["latencies"]],
            failures=data["failures"],
        )

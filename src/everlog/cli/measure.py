"""Figures of a measurement: rates and latencies, for people and for programs."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class Latencies:
    """Quantiles in milliseconds; all zero if nothing was measured."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    p999: float
    max: float

    def shape(self) -> dict[str, float | int]:
        """As JSON shows them."""
        return {
            "count": self.count,
            "mean_ms": round(self.mean, 3),
            "p50_ms": round(self.p50, 3),
            "p95_ms": round(self.p95, 3),
            "p99_ms": round(self.p99, 3),
            "p999_ms": round(self.p999, 3),
            "max_ms": round(self.max, 3),
        }


def latencies(seconds: Iterable[float]) -> Latencies:
    """Sum up measured times; a quantile is the least of them that has its share at or below it."""
    ordered = sorted(seconds)
    if not ordered:
        return Latencies(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def quantile(share: float) -> float:
        return ordered[max(0, ceil(share * len(ordered)) - 1)] * 1000

    mean = sum(ordered) / len(ordered) * 1000
    return Latencies(
        len(ordered),
        mean,
        quantile(0.5),
        quantile(0.95),
        quantile(0.99),
        quantile(0.999),
        ordered[-1] * 1000,
    )


@dataclass(frozen=True, slots=True)
class Throughput:
    """What went through in how long; megabytes are millions of bytes."""

    records: int
    size_bytes: int
    seconds: float

    @property
    def records_per_second(self) -> float:
        """Records a second."""
        return self.records / self.seconds if self.seconds > 0 else 0.0

    @property
    def megabytes_per_second(self) -> float:
        """Megabytes a second."""
        return self.size_bytes / self.seconds / 1e6 if self.seconds > 0 else 0.0

    def shape(self) -> dict[str, float | int]:
        """As JSON shows it."""
        return {
            "records": self.records,
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.records_per_second, 1),
            "megabytes_per_second": round(self.megabytes_per_second, 3),
        }

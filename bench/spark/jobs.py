"""What is measured: jobs that read, write and copy, and how well ours should do beside the others."""

from dataclasses import dataclass

OURS, JVM, PARQUET = "everlog", "Spark's Kafka connector", "Spark's Parquet"
READY = "a Python source that has its rows ready"


@dataclass(frozen=True, slots=True)
class Job:
    """One job of Spark."""

    name: str
    kind: str
    """"read", "write" or "latency"."""
    format: str
    guarantee: str = ""


@dataclass(frozen=True, slots=True)
class Goal:
    """How many times as fast as another job one should be."""

    job: str
    against: str
    floor: float = 0.0
    """0 for what is not ours, and only tells what can be reached."""


_AT_LEAST, _EXACTLY = "at_least_once", "exactly_once"

JOBS = (
    Job(f"read, {OURS}", "read", "everlog"),
    Job(f"read, {JVM}", "read", "kafka"),
    Job(f"read, {PARQUET}", "read", "parquet"),
    Job(f"read, {READY}", "read", "ready"),
    Job(f"write at least once, {OURS}", "write", "everlog", _AT_LEAST),
    Job(f"write at least once, {JVM}", "write", "kafka"),
    Job(f"write exactly once, {OURS}", "write", "everlog", _EXACTLY),
    Job("write, rows only made", "write", "noop"),
    Job(f"latency at least once, {OURS}", "latency", "everlog", _AT_LEAST),
    Job(f"latency exactly once, {OURS}", "latency", "everlog", _EXACTLY),
    Job(f"latency at least once, {JVM}", "latency", "kafka"),
)

GOALS = (
    Goal(f"read, {OURS}", f"read, {JVM}", 1.0),
    Goal(f"read, {OURS}", f"read, {PARQUET}", 0.7),
    Goal(f"read, {READY}", f"read, {PARQUET}"),
    Goal(f"write at least once, {OURS}", f"write at least once, {JVM}", 1.0),
    Goal(f"write exactly once, {OURS}", f"write at least once, {OURS}", 0.7),
)
LATENCY_LIMIT_MS = 150.0
"""What half of the records should need at most from topic to topic."""

"""What a scenario is given for one sample: a broker, topics on it, loaders, and what they cost."""

import itertools
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench.brokers import Broker
from bench.loader.admin import Link, Topic, create_topic, delete_topic
from bench.loader.child import Loader
from bench.loader.jobs import Job, Outcome
from bench.machine import ForeignCpu

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much a sample is: a produce or fetch ends at the first of bytes and seconds."""

    produce_bytes: int
    fetch_bytes: int
    max_s: float
    latency_s: float
    settle_s: float
    """How long a broker is left alone before its idle memory is read."""
    client_records: int
    split_cpus: bool = False
    """Broker on cpu 0 and loaders on cpu 1, to look at one core's work; not for comparisons, as it takes from
    Kafka's threads the cores they were made for."""


FULL = Plan(
    produce_bytes=1 << 30,
    fetch_bytes=4 << 30,
    max_s=5.0,
    latency_s=5.0,
    settle_s=3.0,
    client_records=2_000_000,
)
QUICK = Plan(
    produce_bytes=1 << 28,
    fetch_bytes=1 << 30,
    max_s=1.5,
    latency_s=2.0,
    settle_s=1.0,
    client_records=300_000,
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What the loaders of one measurement found, and the CPU seconds that the broker used meanwhile."""

    outcomes: tuple[Outcome, ...]
    broker_cpu_s: float

    @property
    def outcome(self) -> Outcome:
        """What the first loader found."""
        return self.outcomes[0]

    @property
    def mb_per_s(self) -> float:
        """The first loader's rate in MB (10^6 bytes) a second."""
        return self.outcome["bytes"] / self.outcome["seconds"] / 1e6

    @property
    def cpu_s_per_gb(self) -> float:
        """The broker's CPU seconds for each GB (10^9 bytes) moved by all loaders."""
        return self.broker_cpu_s / sum(outcome["bytes"] for outcome in self.outcomes) * 1e9

    @property
    def requests_per_s(self) -> float:
        """The first loader's requests a second."""
        return self.outcome["requests"] / self.outcome["seconds"]

    @property
    def cpu_us_per_request(self) -> float:
        """The broker's CPU microseconds for each request of the first loader."""
        return self.broker_cpu_s / self.outcome["requests"] * 1e6


class Stage:
    """One broker, set for one sample; a context manager that closes what it opened."""

    def __init__(self, broker: Broker, plan: Plan) -> None:
        self.broker = broker
        self.plan = plan
        self.loader_cpu_s = 0.0  # What all loaders so far have used.
        self._measured_s = 0.0
        self._foreign_cpu_s = 0.0
        self._link: Link | None = None

    @property
    def link(self) -> Link:
        """A connection for administration, made at first use."""
        if self._link is None:
            self._link = Link(self.broker.port)
        return self._link

    @contextmanager
    def topic(self, partitions: int = 1) -> Generator[Topic]:
        """A new topic that takes records, deleted at the end, its files included."""
        topic = create_topic(self.link, f"bench-{next(_numbers)}", partitions)
        try:
            yield topic
        finally:
            delete_topic(self.link, topic.name)
            self.broker.wait_deleted(topic.name)

    def measure(self, *jobs: Job) -> Measured:
        """Run jobs side by side, each in its own process, from the moment that all are ready."""
        cpu = 1 if self.plan.split_cpus else None
        with ExitStack() as stack:
            loaders = [stack.enter_context(Loader(job, cpu)) for job in jobs]
            for loader in loaders:
                loader.wait_ready()
            foreign = ForeignCpu(self.broker.pids)
            before, began = self.broker.cpu_s(), time.perf_counter()
            for loader in loaders:
                loader.go()
            outcomes = tuple(loader.outcome() for loader in loaders)
            spent, seconds = self.broker.cpu_s() - before, time.perf_counter() - began
            used = sum(outcome["loader_cpu_s"] for outcome in outcomes)
            self._foreign_cpu_s += foreign.cores(used) * seconds
        self._measured_s += seconds
        self.loader_cpu_s += used
        return Measured(outcomes, spent)

    @property
    def foreign_cores(self) -> float:
        """How many cores others used while we measured; what was between is not in it."""
        return self._foreign_cpu_s / self._measured_s

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        if self._link is not None:
            self._link.close()

"""Produce and latency on a replicated topic: one sample at a time."""

import itertools
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

from bench.cluster.metrics import PACES, QUANTILES
from bench.cluster.trios import Trio
from bench.loader.child import Loader
from bench.loader.jobs import EndToEndJob, Job, Outcome, ProduceJob
from bench.samples import Values
from bench.stage import Plan
from everlog import Admin

_BATCH_BYTES = 64 << 10
_CONNECTIONS = 4
_DEPTH = 4
_COPIES = 3
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Replicated:
    """A topic with three copies, all in sync."""

    name: str
    topic_id: UUID
    ports: tuple[int, ...]
    """Where each partition's leader is."""


class Load:
    """One sample's loads on one cluster, and what its loaders have cost so far."""

    def __init__(self, trio: Trio, plan: Plan) -> None:
        self.trio = trio
        self.loader_cpu_s = 0.0
        self._plan = plan

    def produce(self, partitions: int) -> Values:
        """64 KiB batches as fast as they are acknowledged: four connections, four requests in flight each.

        Each partition has a loader of its own, which knows its leader; they share bytes and connections.
        """
        size = self._plan.produce_bytes // partitions
        with self._topic(partitions) as topic:
            jobs = [
                ProduceJob(
                    port=port,
                    topic=topic.name,
                    partitions=1,
                    batch_bytes=_BATCH_BYTES,
                    connections=max(1, _CONNECTIONS // partitions),
                    depth=_DEPTH,
                    max_bytes=size,
                    max_s=self._plan.max_s,
                    first_partition=partition,
                )
                for partition, port in enumerate(topic.ports)
            ]
            outcomes, spent = self._measure(jobs)
        moved = sum(outcome["bytes"] for outcome in outcomes)
        seconds = max(outcome["seconds"] for outcome in outcomes)
        key = f"cluster.produce.{partitions}p"
        return {f"{key}.mb_s": moved / seconds / 1e6, f"{key}.cpu_gb": spent / moved * 1e9}

    def latency(self, pace: int) -> Values:
        """Records one by one at a steady pace, and a consumer that waits for them."""
        with self._topic(1) as topic:
            job = EndToEndJob(
                port=topic.ports[0],
                topic=topic.name,
                topic_id=str(topic.topic_id),
                per_second=pace,
                seconds=self._plan.latency_s,
            )
            (found,), _ = self._measure([job])
        return {
            f"cluster.latency.{pace}.{what}_{name}": found[f"{what}_{name}"]
            for what in ("ack", "e2e")
            for name, _ in QUANTILES
        }

    def warm_up(self) -> None:
        """Every kind of load for a while: what compiles as it goes is compared when it has."""
        for partitions in (3, 1, 3, 1):
            self.produce(partitions)
        for pace in PACES:
            # A cold one may not keep up with the pace, which is what the warming is for.
            with suppress(RuntimeError):
                self.latency(pace)

    @contextmanager
    def _topic(self, partitions: int) -> Generator[Replicated]:
        name = f"bench-{next(_numbers)}"
        with Admin(self.trio.bootstrap) as admin:
            admin.create_topic(
                name,
                partitions,
                replication_factor=_COPIES,
                configs={"min.insync.replicas": "2"},
            )
            try:
                self.trio.wait_in_sync(name)
                made = admin.describe_topics([name])[name]
                ports = [self.trio.port(_led(one.leader)) for _, one in sorted(made.partitions.items())]
                yield Replicated(name, UUID(bytes=bytes(made.topic_id)), tuple(ports))
            finally:
                admin.delete_topics([name])

    def _measure(self, jobs: Sequence[Job]) -> tuple[tuple[Outcome, ...], float]:
        """Run jobs side by side; what they found, and the CPU seconds of all brokers meanwhile."""
        with ExitStack() as stack:
            loaders = [stack.enter_context(Loader(job)) for job in jobs]
            for loader in loaders:
                loader.wait_ready()
            before = self.trio.cpu_s()
            for loader in loaders:
                loader.go()
            outcomes = tuple(loader.outcome() for loader in loaders)
            spent = self.trio.cpu_s() - before
        self.loader_cpu_s += sum(outcome["loader_cpu_s"] for outcome in outcomes)
        return outcomes, spent


def _led(leader: int) -> int:
    if leader < 0:
        raise RuntimeError("a partition has no leader")
    return leader

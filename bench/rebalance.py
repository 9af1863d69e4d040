"""`python -m bench.rebalance`: how long partitions stand still when a member joins or leaves (C3).

A group of 50 members over 200 partitions; one more joins, and leaves again. For each partition, the time is
taken during which nobody owned it; those that have another owner afterwards are told apart from those that
stayed. Three ways of the protocol, on Everlog and on Apache Kafka, both with their default settings.

A second measurement is the wait of the second member of a group of the newer protocol for its partitions, by
confluent-kafka.
"""

import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import click
from tests import apache_kafka, brokers

from bench.loader.admin import Link, Topic, create_topic
from bench.machine import this_machine
from bench.rebalance_members import WAYS, Member, Ownership
from bench.second_member import second_member_waits_s
from everlog.model.ids import Uuid

_SETTLE_LIMIT_S = 90.0
_QUIET_S = 1.0
_TITLES = {"everlog": "Everlog", "kafka": "Apache Kafka"}


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses of one rebalance, in milliseconds."""

    broker: str
    way: str
    event: str
    moved_ms: list[float]
    stayed_ms: list[float]
    settled_ms: float
    """From the event until the last partition changed hands."""


class Group:
    """The members of one group, with who owns what."""

    def __init__(self, port: int, topic: Topic, way: str) -> None:
        self._name = f"rebalance-{random.randrange(10**9)}"
        self._port = port
        self._topic = topic
        self._kind = WAYS[way]
        self.ownership = Ownership(topic.partitions)
        self.members: list[Member] = []

    def add(self) -> Member:
        """Start one more member."""
        topic_id = Uuid(self._topic.topic_id.bytes)
        member = self._kind(self._port, self._name, self._topic.name, topic_id, self.ownership)
        self.members.append(member)
        member.start()
        return member

    async def settled(self) -> float:
        """Wait until all is owned, the shares are even and nothing has changed for a while; when it ended."""
        deadline = perf_counter() + _SETTLE_LIMIT_S
        while True:
            await asyncio.sleep(0.02)
            for member in self.members:
                member.check()
            sizes = [len(member.owned) for member in self.members]
            even = sum(sizes) == len(self.ownership.owner) and max(sizes) - min(sizes) <= 1
            now = perf_counter()
            if even and now - self.ownership.changed_at > _QUIET_S:
                return self.ownership.changed_at
            if now > deadline:
                raise TimeoutError(f"the group is not at rest after {_SETTLE_LIMIT_S} s: {sorted(sizes)}")

    async def close(self) -> None:
        """Have all leave."""
        members, self.members = self.members, []
        await asyncio.gather(*(member.leave() for member in members))


async def rebalances(
    broker: str, port: int, topic: Topic, way: str, members: int, repeats: int
) -> list[Pauses]:
    """Join and leave so many times, each at a random moment between the others' heartbeats."""
    group = Group(port, topic, way)
    found: list[Pauses] = []
    try:
        for _ in range(members):
            group.add()
        await group.settled()
        for _ in range(repeats):
            await asyncio.sleep(random.uniform(0, 3))
            group.ownership.begin()
            began = perf_counter()
            newcomer = group.add()
            found.append(_pauses(broker, way, "joins", group, await group.settled() - began))

            await asyncio.sleep(random.uniform(0, 3))
            group.ownership.begin()
            began = perf_counter()
            group.members.remove(newcomer)
            await newcomer.leave()
            found.append(_pauses(broker, way, "leaves", group, await group.settled() - began))
    finally:
        await group.close()
    return found


def _pauses(broker: str, way: str, event: str, group: Group, settled_s: float) -> Pauses:
    moved, stayed = group.ownership.pauses_s()
    return Pauses(
        broker,
        way,
        event,
        [1000 * each for each in moved],
        [1000 * each for each in stayed],
        1000 * settled_s,
    )


@contextmanager
def _running(broker: str) -> Generator[int]:
    """A broker with its default settings; its port."""
    with tempfile.TemporaryDirectory(prefix="everlog-rebalance-") as directory:
        if broker == "everlog":
            started = brokers.start_up(Path(directory, "data"), Path(directory, "stderr"))
            try:
                yield started.address[1]
            finally:
                started.stop()
            return
        port = brokers.free_port()
        process: subprocess.Popen[bytes] = apache_kafka.start_broker(port, Path(directory, "data"))
        try:
            apache_kafka.wait_ready(process, Path(directory, "data"))
            yield port
        finally:
            process.terminate()
            process.wait(30)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--members", default=50, show_default=True, type=click.IntRange(2))
@click.option("--partitions", default=200, show_default=True, type=click.IntRange(2))
@click.option("--repeats", default=3, show_default=True, type=click.IntRange(1))
@click.option("--brokers", "names", default="everlog,kafka", show_default=True)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Keep all samples here.")
def main(members: int, partitions: int, repeats: int, names: str, json_path: Path | None) -> None:
    """Measure how long partitions stand still in a rebalance."""
    pauses: list[Pauses] = []
    waits_ms: dict[str, list[float]] = {}
    for broker in names.split(","):
        with _running(broker) as port:
            with Link(port) as link:
                topic = create_topic(link, "rebalance", partitions)
                small = create_topic(link, "second-member", 6)
            bootstrap = f"127.0.0.1:{port}"
            # The first group of all has __consumer_offsets made, and does not count.
            waits_s = [
                second_member_waits_s(bootstrap, small.name, "consumer") for _ in range(max(3, repeats) + 1)
            ]
            waits_ms[broker] = [1000 * wait for wait in waits_s[1:]]
            for way in WAYS:
                print(f"{_TITLES[broker]}: {way}", file=sys.stderr)
                pauses += asyncio.run(rebalances(broker, port, topic, way, members, repeats))
    _print(pauses, waits_ms, members, partitions)
    if json_path is not None:
        samples = {
            "machine": asdict(this_machine()),
            "members": members,
            "partitions": partitions,
            "pauses": [asdict(each) for each in pauses],
            "second_member_ms": waits_ms,
        }
        json_path.write_text(json.dumps(samples, indent=1) + "\n")


def _print(pauses: list[Pauses], waits_ms: dict[str, list[float]], members: int, partitions: int) -> None:
    print(f"{members} members, {partitions} partitions; pauses of partitions in ms: median, longest\n")
    print(
        f"{'':22}{'a member':10}{'broker':14}{'moved':>7}{'pause':>16}{'stayed':>8}{'pause':>16}{'rest':>8}"
    )
    for key in dict.fromkeys((each.way, each.event, each.broker) for each in pauses):
        way, event, broker = key
        some = [each for each in pauses if (each.way, each.event, each.broker) == key]
        moved = [pause for each in some for pause in each.moved_ms]
        stayed = [pause for each in some for pause in each.stayed_ms]
        rest = statistics.median(each.settled_ms for each in some)
        counts = (
            f"{len(moved) / len(some):7.0f}{_spread(moved)}{len(stayed) / len(some):8.0f}{_spread(stayed)}"
        )
        print(f"{way:22}{event:10}{_TITLES[broker]:14}{counts}{rest:8.0f}")
    print("\nThe second member of a group of the newer protocol has its partitions after, in ms:")
    for broker, waits in waits_ms.items():
        print(f"{_TITLES[broker]:14}{_spread(waits)}")


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):8.0f}{max(values):8.0f}" if values else f"{'-':>16}"


if __name__ == "__main__":
    main()

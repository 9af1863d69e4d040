"""`python -m bench.second_member`: how long a second member of a consumer group waits for its partitions.

The first member has all partitions and is idle. Then a second one subscribes, and the clock runs until it is
told of its first partitions: it has joined, the first has heard of that and has given some up, and they were
handed on. Both are confluent-kafka with `group.protocol=consumer`, each on a thread of its own.
"""

import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests import brokers

from bench.machine import process_cpu_s

_PARTITIONS = 6
_LIMIT_S = 20.0
_IDLE_S = 5.0


class Member:
    """A consumer that polls on a thread of its own, and notes when it is told of partitions."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        self.assigned = threading.Event()
        self.count = 0
        self._ends = threading.Event()
        conf: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
        if protocol == "classic":
            conf["partition.assignment.strategy"] = "cooperative-sticky"
        self._consumer = Consumer(conf)
        self._topic = topic
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Subscribe and begin to poll."""
        self._consumer.subscribe([self._topic], on_assign=self._on_assign)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group."""
        self._ends.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._ends.is_set():
            self._consumer.poll(0.05)

    def _on_assign(self, _consumer: Consumer, partitions: list[Any]) -> None:
        self.count += len(partitions)
        if partitions:
            self.assigned.set()


def second_member_waits_s(bootstrap: str, topic: str, protocol: str) -> float:
    """Seconds from the second member's subscription to its first partitions."""
    group = f"group-{random.randrange(10**9)}"
    first, second = (Member(bootstrap, group, topic, protocol) for _ in range(2))
    first.start()
    try:
        _wait(first)
        # Anywhere between two of the first one's heartbeats.
        time.sleep(1 + random.random())
        began = time.perf_counter()
        second.start()
        try:
            _wait(second)
            return time.perf_counter() - began
        finally:
            second.stop()
    finally:
        first.stop()


def _wait(member: Member) -> None:
    if not member.assigned.wait(_LIMIT_S):
        raise click.ClickException(f"a member got no partitions within {_LIMIT_S:.0f} s")


@contextmanager
def _broker(bootstrap: str | None) -> Generator[tuple[str, int | None]]:
    if bootstrap is not None:
        yield bootstrap, None
        return
    with tempfile.TemporaryDirectory() as directory:
        broker = brokers.start_up(Path(directory, "data"), Path(directory, "stderr"))
        try:
            yield broker.bootstrap, broker.process.pid
        finally:
            broker.stop()


@click.command()
@click.option("--bootstrap", help="A broker that is there already; otherwise one is started.")
@click.option("--repeats", default=10, show_default=True, type=click.IntRange(1))
@click.option("--protocol", default="consumer", show_default=True, type=click.Choice(["consumer", "classic"]))
@click.option("--limit-ms", type=float, help="Exit with 1 if the slowest took longer.")
def main(bootstrap: str | None, repeats: int, protocol: str, limit_ms: float | None) -> None:
    """Measure how long a second member waits for its partitions."""
    with _broker(bootstrap) as (address, pid):
        topic = f"second-{random.randrange(10**9)}"
        # The package's types say little about this call.
        admin: Any = AdminClient({"bootstrap.servers": address})
        for made in admin.create_topics([NewTopic(topic, _PARTITIONS, 1)]).values():
            made.result()
        # The first group of all waits for __consumer_offsets to be made.
        second_member_waits_s(address, topic, protocol)
        waits_ms = [1000 * second_member_waits_s(address, topic, protocol) for _ in range(repeats)]
        for at, wait_ms in enumerate(waits_ms):
            print(f"{at + 1:3} {wait_ms:8.0f} ms")
        print(f"median {statistics.median(waits_ms):.0f} ms, slowest {max(waits_ms):.0f} ms")
        if pid is not None:
            print(
                f"two idle members cost the broker {_idle_cpu(address, topic, protocol, pid):.2%} of a core"
            )
    if limit_ms is not None and max(waits_ms) > limit_ms:
        sys.exit(1)


def _idle_cpu(bootstrap: str, topic: str, protocol: str, pid: int) -> float:
    members = [Member(bootstrap, "idle", topic, protocol) for _ in range(2)]
    for member in members:
        member.start()
    try:
        for member in members:
            _wait(member)
        time.sleep(1)
        before = process_cpu_s(pid)
        time.sleep(_IDLE_S)
        return (process_cpu_s(pid) - before) / _IDLE_S
    finally:
        for member in members:
            member.stop()


if __name__ == "__main__":
    main()

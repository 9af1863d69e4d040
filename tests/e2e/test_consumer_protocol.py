"""Rows C2, C3: consumer groups on a real broker, with librdkafka as it comes.

A second member has its partitions soon, and `kill -9` of the broker costs nobody a partition.
"""

import threading
import time
from collections.abc import Generator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests import brokers

pytestmark = pytest.mark.e2e

TOPIC, PARTITIONS = "events", 6
SECOND_MEMBER_S = 0.5
PATIENCE_S = 30.0


class Broker:
    """A broker that can be killed and started again in the same place."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._port = brokers.free_port()
        self.process = self.start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> brokers.BrokerProcess:
        arguments = ["up", "--dir", str(self._home / "data"), "--port", str(self._port)]
        self.process = brokers.start(arguments, self._home / "stderr")
        return self.process


class Member:
    """A consumer that polls on a thread of its own."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.events: list[tuple[str, frozenset[int]]] = []
        self.assigned = threading.Event()
        self.owned: frozenset[int] = frozenset()
        self.values: list[bytes] = []
        self._ends = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe(
            [TOPIC],
            on_assign=lambda _, got: self._note("assigned", got),
            on_revoke=lambda _, lost: self._note("revoked", lost),
            on_lost=lambda _, lost: self._note("lost", lost),
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._ends.is_set():
            record = self._consumer.poll(0.05)
            value = None if record is None or record.error() else record.value()
            if isinstance(value, bytes):
                self.values.append(value)

    def _note(self, what: str, partitions: list[Any]) -> None:
        indexes = frozenset[int](one.partition for one in partitions)
        self.owned = self.owned | indexes if what == "assigned" else self.owned - indexes
        if indexes:
            self.events.append((what, indexes))
            self.assigned.set()


@pytest.fixture
def broker(tmp_path: Path) -> Generator[Broker]:
    broker = Broker(tmp_path)
    # The package's types say little about this call.
    admin: Any = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        made.result()
    yield broker
    broker.process.kill()


def produce(bootstrap: str, values: set[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for at, value in enumerate(sorted(values)):
        producer.produce(TOPIC, value, partition=at % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def wait_shared(members: list[Member]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while [len(member.owned) for member in members] != [PARTITIONS // len(members)] * len(members):
        assert time.monotonic() < deadline, [member.events for member in members]
        time.sleep(0.02)


def wait_for(members: list[Member], values: set[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not values <= {value for member in members for value in member.values}:
        assert time.monotonic() < deadline, [member.events for member in members]
        time.sleep(0.02)


def test_a_second_member_has_its_partitions_soon(broker: Broker) -> None:
    first = Member(broker.bootstrap, "soon")
    assert first.assigned.wait(PATIENCE_S)
    waits: list[float] = []
    for _ in range(3):
        # Long enough for the first one to be between two heartbeats of its own.
        time.sleep(1.1)
        began = time.perf_counter()
        second = Member(broker.bootstrap, "soon")
        assert second.assigned.wait(PATIENCE_S)
        waits.append(time.perf_counter() - began)
        second.stop()
    first.stop()

    # The machine may be busy with something else for a while; the protocol itself must not be what is slow.
    assert median(waits) < SECOND_MEMBER_S, waits


def test_members_keep_their_partitions_when_the_broker_is_killed(broker: Broker) -> None:
    members = [Member(broker.bootstrap, "killed") for _ in range(2)]
    before = {b"before-%d" % at for at in range(60)}
    produce(broker.bootstrap, before)
    wait_for(members, before)
    wait_shared(members)
    noted = [list(member.events) for member in members]

    broker.process.kill()
    broker.start()
    after = {b"after-%d" % at for at in range(60)}
    produce(broker.bootstrap, after)
    wait_for(members, after)

    assert [member.events for member in members] == noted
    for member in members:
        member.stop()

"""Rows C2, C3, C4: members of a group that are processes, and end as processes do, on a real node.

Members come, leave, and are killed without a word; the broker is killed. Partitions go to who is there, every
record is read, and a broker that comes back brings about no rebalance.
"""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests import brokers
from tests.e2e.group_member import CLIENTS

pytestmark = pytest.mark.e2e

PARTITIONS = 4
SHORT_MS, LONG_MS = 3_000, 30_000
"""Session time-outs: one to wait for, and one that outlasts the start of a broker."""
PATIENCE_S = 30.0


class Member:
    """A process that reads as a member of a group."""

    def __init__(self, client: str, bootstrap: str, session_ms: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.group_member", client, bootstrap, "t", str(session_ms)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.assignments: list[tuple[int, ...]] = []
        self.values: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            match line.split():
                case ["has", *partitions]:
                    self.assignments.append(tuple(map(int, partitions)))
                case ["gives", "up"]:
                    self.assignments.append(())
                case ["read", value]:
                    self.values.append(value)
                case _:
                    raise AssertionError(line)

    @property
    def partitions(self) -> tuple[int, ...]:
        """What it has now."""
        return self.assignments[-1] if self.assignments else ()

    def leave(self) -> None:
        """End as a program does that is told to."""
        self.process.terminate()
        assert self.process.wait(PATIENCE_S) == 0

    def kill(self) -> None:
        """End without a word to anybody."""
        self.process.kill()
        self.process.wait()


class Crowd:
    """A node, a topic on it, and the members of a group that read it."""

    def __init__(self, path: Path) -> None:
        self._flags = ["up", "--dir", str(path / "data"), "--port", str(brokers.free_port())]
        self._flags += ["--override", "group.initial.rebalance.delay.ms=500"]
        self._flags += ["--override", "group.min.session.timeout.ms=1000"]
        self._stderr = path / "stderr"
        self.broker = brokers.start(self._flags, self._stderr)
        self.members: list[Member] = []
        self._sent = 0
        kafka: Any = import_module("confluent_kafka")
        admin: Any = import_module("confluent_kafka.admin")
        servers = {"bootstrap.servers": self.broker.bootstrap, "log_level": 0}
        creator = admin.AdminClient(servers)
        creator.create_topics([admin.NewTopic("t", PARTITIONS, 1)])["t"].result(PATIENCE_S)
        self._producer = kafka.Producer({**servers, "reconnect.backoff.max.ms": 200})

    def restart_broker(self) -> None:
        self.broker.kill()
        self.broker = brokers.start(self._flags, self._stderr)

    def join(self, client: str, session_ms: int = SHORT_MS) -> Member:
        member = Member(client, self.broker.bootstrap, session_ms)
        self.members.append(member)
        return member

    def part(self, member: Member) -> None:
        self.members.remove(member)

    def wait_shared(self) -> None:
        """Wait until each partition has one reader, and each member has partitions."""

        def shared() -> bool:
            held = [partition for member in self.members for partition in member.partitions]
            return sorted(held) == list(range(PARTITIONS)) and all(one.partitions for one in self.members)

        wait_until(shared, lambda: [one.assignments for one in self.members])

    def write(self, count: int = 40) -> list[str]:
        """Write values to all partitions in turn."""
        values = [f"v{at}" for at in range(self._sent, self._sent + count)]
        self._sent += count
        for at, value in enumerate(values):
            self._producer.produce("t", value.encode(), partition=at % PARTITIONS)
        assert self._producer.flush(PATIENCE_S) == 0
        return values

    def wait_read(self, values: list[str]) -> Counter[str]:
        """Wait until the members that are there have read all of these between them."""

        def read() -> Counter[str]:
            return Counter(value for member in self.members for value in list(member.values))

        wait_until(lambda: set(values) <= set(read()), lambda: sorted(set(values) - set(read())))
        return read()

    def close(self) -> None:
        for member in self.members:
            member.kill()
        self.broker.kill()


def wait_until(holds: Callable[[], bool], shown: Callable[[], object]) -> None:
    """Wait for something that other processes bring about; fails with what was `shown` instead."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, shown()
        time.sleep(0.05)


@pytest.fixture
def crowd(tmp_path: Path) -> Generator[Crowd]:
    crowd = Crowd(tmp_path)
    yield crowd
    crowd.close()


@pytest.mark.parametrize("clients", [(one, one) for one in CLIENTS] + [tuple(CLIENTS)], ids="+".join)
def test_members_share_a_topic_and_those_that_stay_take_over_from_those_that_go(
    clients: tuple[str, str], crowd: Crowd
) -> None:
    leaver, stayer = [crowd.join(one) for one in clients]
    crowd.wait_shared()
    values = crowd.write()
    read = crowd.wait_read(values)
    assert set(read.values()) == {1}, "each value has one reader"
    assert leaver.values
    assert stayer.values

    leaver.leave()
    crowd.part(leaver)
    crowd.wait_shared()
    crowd.wait_read(crowd.write())

    victim = crowd.join(clients[0])
    crowd.wait_shared()
    victim.kill()
    killed_at = time.monotonic()
    crowd.part(victim)
    crowd.wait_shared()

    # It may have sent its last heartbeat well before it was killed, and none after.
    assert time.monotonic() - killed_at > SHORT_MS / 1_000 / 2
    crowd.wait_read(crowd.write())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_broker_that_is_killed_and_comes_back_brings_about_no_rebalance(client: str, crowd: Crowd) -> None:
    members = [crowd.join(client, LONG_MS) for _ in range(2)]
    crowd.wait_shared()
    crowd.wait_read(crowd.write())
    before = [list(one.assignments) for one in members]

    crowd.restart_broker()
    crowd.wait_read(crowd.write())

    assert [one.assignments for one in members] == before

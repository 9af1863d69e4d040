"""How long a partition takes no writes after `kill -9` of its leader."""

import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue

from confluent_kafka import Producer

from bench.cluster.trios import NODES, Trio
from bench.loader.admin import Link
from bench.loader.batches import batch_of
from bench.loader.frames import ProduceAnswer, int16_at, produce_frame
from bench.samples import Values
from everlog import Admin
from everlog.model.topics import TopicPartition

_TOPIC = "failover"
_LIMIT_S = 120.0
_PAUSE_S = 0.002
_CLIENT_PACE_S = 0.005


def failover(trio: Trio, kills: int, say: Callable[[str], None], *, of_controller: bool = False) -> Values:
    """Kill the leader of a partition so many times, each time with all three in sync before.

    `of_controller` kills the one of them that is the active controller too: then the quorum has to elect
    another before anybody can be made the partition's leader.

    *Writable again* is from the kill to the first write, with acks=all, that any surviving broker
    acknowledges; each is asked all the time on a connection of its own, so that no client's pauses are in it.
    Beside that a confluent-kafka producer with default settings writes all the time.
    """
    with Admin(trio.bootstrap) as admin:
        admin.create_topic(
            _TOPIC,
            len(NODES) if of_controller else 1,
            replication_factor=3,
            configs={"min.insync.replicas": "2"},
        )
    trio.wait_in_sync(_TOPIC)
    writable: list[float] = []
    seen: list[float] = []
    with _Client(trio.bootstrap) as client:
        for number in range(kills):
            partition, leader = _victim(trio, of_controller=of_controller)
            client.partition = partition
            client.first_ack_after(time.perf_counter())
            with _Probe(partition, [trio.port(node) for node in NODES if node != leader]) as probe:
                killed = time.perf_counter()
                trio.kill(leader)
                writable.append(probe.first_ack() - killed)
            seen.append(client.first_ack_after(killed) - killed)
            say(
                f"kill {number + 1}/{kills} of broker {leader}: writable after {writable[-1]:.3f} s, "
                f"confluent-kafka after {seen[-1]:.3f} s"
            )
            trio.start(leader)
            trio.wait_in_sync(_TOPIC)
    with Admin(trio.bootstrap) as admin:
        admin.delete_topics([_TOPIC])
    name = "cluster.failover.controller" if of_controller else "cluster.failover"
    return {
        f"{name}.kills": float(kills),
        f"{name}.p50": statistics.median(writable),
        f"{name}.p99": _quantile(writable, 0.99),
        f"{name}.most": max(writable),
        f"{name}.client_p50": statistics.median(seen),
        f"{name}.client_most": max(seen),
    }


def _victim(trio: Trio, *, of_controller: bool) -> tuple[int, int]:
    """A partition, and the broker that leads it and is to be killed."""
    with Admin(trio.bootstrap) as admin:
        if not of_controller:
            found = admin.describe_topics([_TOPIC])[_TOPIC].partitions[0].leader
            if found < 0:
                raise RuntimeError(f"{_TOPIC}-0 has no leader")
            return 0, found
        # Each broker leads one of the partitions then.
        admin.elect_leaders(TopicPartition(_TOPIC, number) for number in range(len(NODES)))
        controller = admin.describe_quorum().leader_id
        partitions = admin.describe_topics([_TOPIC])[_TOPIC].partitions
    for number, partition in partitions.items():
        if partition.leader == controller:
            return number, controller
    raise RuntimeError(f"the active controller, {controller}, leads none of {partitions}")


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class _Probe:
    """Asks brokers to take a record, each on a thread, until one of them does."""

    def __init__(self, partition: int, ports: list[int]) -> None:
        self._acked: SimpleQueue[float] = SimpleQueue()
        self._done = threading.Event()
        self._frame = produce_frame(_TOPIC, partition, batch_of(1))
        self._error_at = ProduceAnswer.of(_TOPIC).error_at
        self._threads = [threading.Thread(target=self._ask, args=(port,), daemon=True) for port in ports]

    def first_ack(self) -> float:
        """The time of the first acknowledgement."""
        try:
            return self._acked.get(timeout=_LIMIT_S)
        except Empty:
            raise TimeoutError(f"no broker took a write within {_LIMIT_S:g} s") from None

    def _ask(self, port: int) -> None:
        link: Link | None = None
        while not self._done.is_set():
            try:
                link = link or Link(port)
                if int16_at(link.ask(self._frame), self._error_at) == 0:
                    self._acked.put(time.perf_counter())
                    break
            except OSError:
                link = None
            self._done.wait(_PAUSE_S)
        if link is not None:
            link.close()

    def __enter__(self) -> "_Probe":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join(_LIMIT_S)


class _Client:
    """A producer with default settings that writes all the time, and when its records were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.partition = 0
        """Where the next records go."""
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2})
        self._changed = threading.Condition()
        self._acked: list[tuple[float, float]] = []
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def first_ack_after(self, since: float) -> float:
        """When the first record that was sent after a time was acknowledged; older ones are forgotten."""
        deadline = time.monotonic() + _LIMIT_S
        with self._changed:
            while not (later := [acked for sent, acked in self._acked if sent >= since]):
                if self._failure is not None:
                    raise RuntimeError(f"confluent-kafka could not deliver: {self._failure}")
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(f"confluent-kafka got no acknowledgement within {_LIMIT_S:g} s")
            self._acked.clear()
            return min(later)

    def _write(self) -> None:
        while not self._stopping.is_set():
            told = partial(self._delivered, time.perf_counter())
            self._producer.produce(_TOPIC, b"client", partition=self.partition, on_delivery=told)
            self._producer.poll(_CLIENT_PACE_S)

    def _delivered(self, sent: float, error: object, _message: object) -> None:
        with self._changed:
            if error is not None:
                self._failure = str(error)
            else:
                self._acked.append((sent, time.perf_counter()))
            self._changed.notify_all()

    def __enter__(self) -> "_Client":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_LIMIT_S)
        self._producer.flush(_LIMIT_S)

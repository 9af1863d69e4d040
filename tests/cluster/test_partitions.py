"""A node that hears nothing, or is not heard, or neither: what was acknowledged stays, others go on (R1, R5).

Clients reach all nodes all the time. So the node that is cut off still gets requests, and must not
acknowledge what the others do not have.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from typing import NamedTuple

import pytest

import everlog
from everlog.client import TopicPartition
from everlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

from . import netns
from .asking import PATIENCE_SECONDS, ask
from .machines import PORT, Machines

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Generator[Machines]:
    if (reason := netns.why_not()) is not None:
        pytest.skip(f"no network namespaces: {reason}")
    with Machines(tmp_path_factory.mktemp("machines")) as made:
        yield made


class Load:
    """Numbered records, sent one after another until it is stopped; which of them were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = everlog.Producer(bootstrap, delivery_timeout_ms=120_000, request_timeout_ms=3_000)
        self._stop = threading.Event()
        self.acked: list[int] = []
        self.failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            delivery = self._producer.send(self._topic, str(number).encode(), partition=0)
            try:
                delivery.result(timeout=PATIENCE_SECONDS)
            except everlog.EverlogError as error:
                self.failed.append(error)
            else:
                self.acked.append(number)
            number += 1

    def more(self, count: int) -> None:
        """Wait until so many more records were acknowledged."""
        wanted = len(self.acked) + count
        wait_for(lambda: len(self.acked) >= wanted, f"{count} more records acknowledged")

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.close()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)


def read_all(bootstrap: str, topic: str) -> list[int]:
    """Every record of the topic, in order."""
    place = TopicPartition(topic, 0)
    with everlog.Consumer(bootstrap) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets(place)[place]
        found: list[int] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while consumer.position(place) < end:
            assert time.monotonic() < deadline, f"read {len(found)} of {end}"
            found.extend(int(record.value or b"") for record in consumer.poll())
    return found


class Standing(NamedTuple):
    """A partition as one node knows it."""

    leader: int
    epoch: int
    in_sync: frozenset[int]


def standing(machines: Machines, node: int, topic: str) -> Standing | None:
    """What a node says of partition 0 of a topic; None if it knows no such topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = ask(f"{machines.address(node)}:{PORT}", request, 12, MetadataResponse).topics
    if found.error_code or not found.partitions:
        return None
    (partition,) = found.partitions
    return Standing(partition.leader_id, partition.leader_epoch, frozenset(partition.isr_nodes))


def is_whole(machines: Machines, topic: str) -> bool:
    """Whether all nodes say the same, and have all replicas in sync: who was cut off may not know yet."""
    (first, *rest) = [standing(machines, node, topic) for node in machines.nodes]
    return first is not None and len(first.in_sync) == 3 and all(one == first for one in rest)


@pytest.mark.parametrize("cut", ["deafen", "silence", "isolate"])
def test_a_leader_that_is_cut_off_is_replaced_and_nothing_is_lost(machines: Machines, cut: str) -> None:
    topic = f"cut-by-{cut}"
    with everlog.Admin(machines.bootstrap) as admin:
        admin.create_topics([everlog.NewTopic(topic, partitions=1, replication_factor=3)])
    wait_for(lambda: is_whole(machines, topic), "all replicas in sync")
    load = Load(machines.bootstrap, topic)
    try:
        load.more(50)
        before = standing(machines, 1, topic)
        assert before is not None
        witness = machines.others(before.leader)[0]
        getattr(machines, cut)(before.leader)
        wait_for(lambda: _leader(machines, witness, topic) not in (before.leader, -1), "another leader")
        load.more(50)
        machines.heal()
        wait_for(lambda: is_whole(machines, topic), "all replicas in sync again")
        load.more(50)
    finally:
        machines.heal()
        load.stop()
    wait_for(lambda: is_whole(machines, topic), "all replicas in sync at the end")
    assert load.failed == []
    counts = Counter(found := read_all(machines.bootstrap, topic))
    assert [number for number in load.acked if number not in counts] == [], "lost"
    assert [number for number, times in counts.items() if times > 1] == [], "twice"
    assert found == sorted(found), "out of order"


def _leader(machines: Machines, node: int, topic: str) -> int:
    known = standing(machines, node, topic)
    return -1 if known is None else known.leader

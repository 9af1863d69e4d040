"""What happens to three brokers while clients write and read: kills, rolling restarts, moved partitions."""

import time
from collections.abc import Callable, Sequence

from everlog import Admin, TopicPartition
from tests.cluster.conftest import Trio
from tests.cluster.subjects import Subject

NODES = (1, 2, 3)
OFFSETS_TOPIC = "__consumer_offsets"
PATIENCE_S = 90.0
_LOOK_S = 0.1


class Ordeal:
    """Three brokers and the clients that must not mind what happens to them."""

    def __init__(self, trio: Trio, subjects: Sequence[Subject]) -> None:
        self._trio = trio
        self._subjects = subjects
        self._topics = [OFFSETS_TOPIC, *(subject.topic for subject in subjects)]

    def begin(self) -> None:
        """Wait until all of them write and read."""
        self._go_on("the start")
        self._wait_whole()

    def kill_leader(self) -> None:
        """Kill the broker that leads the first partition of all, and start it again."""
        with Admin(self._trio.bootstrap) as admin:
            node = admin.describe_topics([self._topics[1]])[self._topics[1]].partitions[0].leader
        self._trio.kill(node)
        self._go_on(f"the kill of broker {node}")
        self._trio.revive(node)
        self._wait_whole()

    def roll(self) -> None:
        """Restart every broker, one after the other, each by a controlled shutdown."""
        for node in NODES:
            self._trio.stop(node)
            self._go_on(f"the stop of broker {node}")
            self._trio.revive(node)
            self._wait_whole()

    def move(self) -> None:
        """Take every partition from its leader, then give it back and take it from the next, then to all."""
        for turn in ("away", "back", "to all"):
            with Admin(self._trio.bootstrap) as admin:
                wanted = {
                    TopicPartition(topic, index): _moved(turn, partition.leader, partition.replicas)
                    for topic, found in admin.describe_topics(self._topics).items()
                    for index, partition in found.partitions.items()
                }
                admin.alter_partition_reassignments(wanted)
                self._until(
                    f"all partitions have moved {turn}", lambda: not admin.list_partition_reassignments()
                )
            self._wait_whole()
            self._go_on(f"the move {turn}")

    def end(self) -> None:
        """Let all of them come to their ends, and read what there is."""
        for subject in self._subjects:
            subject.stream.close()
        self._all(lambda subject: subject.has_read_all(), "the member has not read all that was acknowledged")
        for subject in self._subjects:
            subject.end(self._trio.bootstrap)

    def _go_on(self, what: str) -> None:
        """Wait until every client has written and read everywhere what it sent from now on."""
        now_us = time.time_ns() // 1000
        self._all(lambda subject: subject.goes_on_since(now_us), f"after {what} it does not go on everywhere")

    def _all(self, holds: Callable[[Subject], bool], trouble: str) -> None:
        """Look until it holds of every client that is well; those of which it does not are in trouble."""
        deadline = time.monotonic() + PATIENCE_S
        waiting = [subject for subject in self._subjects if not subject.trouble]
        while waiting and time.monotonic() < deadline:
            for subject in self._subjects:
                subject.look()
            waiting = [subject for subject in waiting if not holds(subject)]
            time.sleep(_LOOK_S if waiting else 0)
        for subject in waiting:
            subject.trouble.append(f"{trouble} within {PATIENCE_S:g} s")

    def _wait_whole(self) -> None:
        """Wait until every partition is led and all of its replicas are in sync."""

        def whole() -> bool:
            with Admin(self._trio.bootstrap) as admin:
                topics = admin.describe_topics(self._topics)
            return all(
                each.leader >= 0 and set(each.isr) == set(each.replicas)
                for topic in topics.values()
                for each in topic.partitions.values()
            )

        self._until("all replicas are in sync", whole)

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
            time.sleep(_LOOK_S)


def _moved(turn: str, leader: int, replicas: Sequence[int]) -> list[int]:
    """Where a partition goes: to two brokers without its leader, to another two, to all three."""
    others = [node for node in NODES if node != leader]
    if turn == "away":
        return others
    if turn == "back":
        return [next(node for node in NODES if node not in replicas), *(n for n in replicas if n != leader)]
    return [*others, leader]

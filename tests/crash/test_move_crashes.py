"""A crash at every change of the disks while a partition moves from one log directory to another (R9, L10).

Records are written before, meanwhile and after. With a flush for each, none that was answered may be lost,
whatever of the unsynced is; where only the process dies none may be either, flush or not. What was deleted
stays so. After each crash the partition lies in one place, can be written to, and gets where it was to go.
"""

import os
from dataclasses import dataclass

import pytest

from everlog.sim.chance import SimRandom
from everlog.sim.disk import SimFiles
from everlog.sim.faults import Moment, Operation
from everlog.sim.platter import Loss
from everlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from everlog.wire.messages.produce import ProduceResponse
from tests.unit.broker.simulated import SimulatedNode, a_batch, a_produce
from tests.unit.broker.test_directory_moves import alter, names, other, produce, settle, two_disks, values

DELETED = 2
STRIDE = int(os.environ.get("EVERLOG_MOVE_STRIDE", "4"))
"""Every so many crash points are looked at, others for each kind of loss."""
FLUSH = {"log.flush.interval.messages": "1"}


@dataclass(frozen=True, slots=True)
class Found:
    """The disks as a crash left them, and what clients had been told and were being told."""

    files: SimFiles
    answered: tuple[bytes, ...]
    asked: tuple[bytes, ...]
    at: str


def delete_records(node: SimulatedNode, offset: int) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[partition])], timeout_ms=1000
    )
    (topic,) = node.client().call(request, 2, DeleteRecordsResponse).topics
    assert topic.partitions[0].error_code == 0


class Writer:
    """Writes batches of three records, one after the other, and notes what was answered."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node
        self._client = node.client()
        self._waits = False
        self.asked: list[bytes] = []
        self.answered: list[bytes] = []

    def go_on(self) -> None:
        """Take the answer if it has come, and ask for more."""
        if self._waits and self._client.frames:
            answer = self._client.take(ProduceResponse)
            assert answer.responses[0].partition_responses[0].error_code == 0
            self.answered = list(self.asked)
            self._waits = False
        if not self._waits:
            values = [b"%d" % (len(self.asked) + number) for number in range(3)]
            self.asked += values
            self._waits = True
            self._client.ask(a_produce("t", (0, a_batch(*values))), 9)


def crashes(loss: Loss, settings: dict[str, str]) -> tuple[str, list[Found]]:
    """Move a partition that is written to; where to, and the disks of a crash around each change of them."""
    node = two_disks(None, **settings)
    node.create_topic("t", 1)
    writer = Writer(node)
    found: list[Found] = []

    def watch(operation: Operation, moment: Moment) -> None:
        files = node.files.after_crash(SimRandom(f"{len(found)}"), loss)
        at = f"{moment.value} {operation}"
        found.append(Found(files, tuple(writer.answered), tuple(writer.asked), at))

    for _ in range(4):
        writer.go_on()
        node.aside.run_all()
    delete_records(node, DELETED)
    target = other(node.replica("t").directory)
    node.files.watch = watch
    alter(node, target)
    after = 15
    while after:
        node.pass_time(1)
        writer.go_on()
        _ = node.aside.finish() or node.aside.work()
        after -= node.replica("t").directory == target
    node.files.watch = None
    settle(node)
    assert node.replica("t").directory == target
    return target, found


def check(target: str, crash: Found, settings: dict[str, str], *, restart: bool) -> None:
    was_on_its_way = any(name.endswith("-future") for name in crash.files.names(target))
    again = two_disks(crash.files, **settings)
    seen = values(again)
    assert seen[: len(crash.answered) - DELETED] == list(crash.answered[DELETED:]), crash.at
    assert seen == list(crash.asked[DELETED : DELETED + len(seen)]), crash.at
    assert produce(again, b"after") == 0
    settle(again, 500)
    places = [path for path in (target, other(target)) if "t-0" in names(again, path)]
    assert len(places) == 1, crash.at
    if was_on_its_way:
        assert places == [target], crash.at
    assert values(again) == [*seen, b"after"], crash.at
    if restart:
        again.node.close()
        assert values(two_disks(again.files, **settings)) == [*seen, b"after"], crash.at


KINDS = pytest.mark.parametrize(
    ("loss", "flush"), [(Loss.NONE, False), (Loss.ALL, True), (Loss.SOME, True)], ids=lambda value: str(value)
)


@KINDS
def test_no_crash_while_a_partition_moves_loses_a_record(loss: Loss, flush: bool) -> None:
    settings = {key.replace(".", "_"): value for key, value in FLUSH.items()} if flush else {}
    target, found = crashes(loss, settings)
    assert len(found) > 60
    first = list(Loss).index(loss)
    for number in range(first, len(found), STRIDE):
        check(target, found[number], settings, restart=number % 5 == 0)

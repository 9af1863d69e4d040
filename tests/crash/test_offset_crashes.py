"""A crash at every change of the disk while groups commit, from the first use of the topic on (C5).

With a flush for each batch no commit that was answered may be lost, whatever of the unsynced is; where only
the process dies none may be either, flush or not. What was not answered may be there or not.
"""

import pytest

from everlog.sim.chance import SimRandom
from everlog.sim.disk import SimFiles
from everlog.sim.faults import Moment, Operation
from everlog.sim.platter import Loss
from everlog.wire.messages.offset_delete import OffsetDeleteResponse
from tests.unit.broker.group_calls import a_commit, commit, committed_offset, find_coordinator
from tests.unit.broker.handlers.nodes import SimNode
from tests.unit.broker.handlers.test_offsets import an_offset_delete

SMALL = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "1"}
GROUPS: tuple[str, ...] = ("a", "b")


class Found:
    """A disk as a crash left it, with what clients had been told and what they were being told."""

    def __init__(self, files: SimFiles, answered: dict[str, int], asked: dict[str, int], at: str) -> None:
        self.files = files
        self.answered = answered
        self.asked = asked
        self.at = at


def crashes(loss: Loss, settings: dict[str, str]) -> list[Found]:
    """Commit for two groups, and return the disk of a crash before and after each change of it."""
    node = SimNode(None, **settings)
    node.create_topic("orders", 1)
    answered = dict.fromkeys(GROUPS, -1)
    asked = dict(answered)
    found: list[Found] = []

    def watch(operation: Operation, moment: Moment) -> None:
        chance = SimRandom(f"{len(found)}")
        files = node.files.after_crash(chance, loss)
        found.append(Found(files, dict(answered), dict(asked), f"{moment.value} {operation}"))

    node.files.watch = watch
    find_coordinator(node)
    for offset in (3, 7, 5):
        for group in GROUPS:
            asked[group] = offset
            assert commit(node, a_commit(group, "orders", (0, offset))) == [0]
            answered[group] = offset
    asked["b"] = -1
    node.ask(an_offset_delete("b", ("orders", 0)), 0, OffsetDeleteResponse)
    answered["b"] = -1
    node.files.watch = None
    return found


@pytest.mark.parametrize(
    ("loss", "flush"), [(Loss.NONE, False), (Loss.ALL, True), (Loss.SOME, True)], ids=lambda value: str(value)
)
def test_no_crash_loses_a_commit_that_was_answered(loss: Loss, flush: bool) -> None:
    settings = {**SMALL, **({"log.flush.interval.messages": "1"} if flush else {})}
    found = crashes(loss, settings)
    assert len(found) > 30

    for crash in found:
        again = SimNode(crash.files, **settings)
        find_coordinator(again)
        again.pass_time(100)
        for group in GROUPS:
            offset = committed_offset(again, group, "orders")
            assert offset in (crash.answered[group], crash.asked[group]), (crash.at, group)
        assert commit(again, a_commit("a", "orders", (0, 99))) == [0]

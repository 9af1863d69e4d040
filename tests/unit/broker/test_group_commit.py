"""One fsync for all who wait for one, and what becomes of those whose records are cut off meanwhile (L8)."""

from dataclasses import replace

import pytest

from everlog.broker.group_commit import GroupCommit
from everlog.log.partition import Appended
from everlog.model.ids import Offset
from everlog.sim.alarm import SimAlarm
from everlog.sim.aside import SimAside
from tests.unit.log.builders import SMALL, Machine, a_batch, values


class Group:
    """A log that syncs after every record, or `flush_ms` later, and those who wait for it."""

    def __init__(self, flush_ms: int = 0) -> None:
        flushes = replace(SMALL, flush_ms=flush_ms) if flush_ms else replace(SMALL, flush_messages=1)
        self.machine = Machine(flushes)
        self.aside = SimAside()
        self.commit = GroupCommit(self.aside, self.machine.clock, SimAlarm(), lambda: None)
        self.heard: list[tuple[int, bool]] = []

    @property
    def told(self) -> dict[int, bool]:
        """What was said last of each end."""
        return dict(self.heard)

    def append(self) -> Appended:
        """Append three records and wait for them."""
        log = self.machine.log
        appended = self.machine.append(a_batch(values(3)))
        end = int(log.end_offset)

        def tell(durable: bool) -> None:
            self.heard.append((end, durable))

        self.commit.wait(log, end, log.sync_due_at, tell)
        return appended


def test_appends_that_come_while_a_sync_runs_share_the_next() -> None:
    group = Group()
    for _ in range(4):
        group.append()
    group.aside.work()
    assert group.told == {}
    group.aside.finish()
    assert group.told == {3: True}
    assert group.aside.waiting == 1
    group.aside.run_all()
    assert group.told == {3: True, 6: True, 9: True, 12: True}


@pytest.mark.parametrize("appends_after", [0, 1, 4])
def test_who_waits_while_the_log_is_cut_is_told_that_it_cannot_be_hoped_for(appends_after: int) -> None:
    group = Group()
    for _ in range(4):
        group.append()
    group.aside.work()
    group.machine.log.truncate_to(Offset(6))
    for _ in range(appends_after):
        group.append()

    group.aside.run_all()

    ends = [6 + 3 * (at + 1) for at in range(appends_after)]
    # Of what was not durable when the log was cut nobody knows whether it is there, or others in its place.
    assert group.told == dict.fromkeys((3, 6, 9, 12), False) | dict.fromkeys(ends, True)


def test_records_in_the_place_of_those_that_were_cut_off_do_not_stand_in_for_them() -> None:
    group = Group(flush_ms=50)
    group.append()
    group.machine.log.truncate_to(Offset(0))
    group.append()
    group.machine.clock.advance(50)
    group.commit.tick(group.machine.clock.now())
    group.aside.run_all()
    assert group.heard == [(3, False), (3, True)]


def test_what_was_durable_before_a_cut_stays_so() -> None:
    group = Group()
    group.append()
    group.append()
    group.aside.work()
    group.aside.finish()
    group.machine.log.truncate_to(Offset(3))
    group.aside.run_all()
    assert group.told == {3: True, 6: False}


def test_who_waits_for_a_log_that_no_sync_makes_durable_any_more_is_told_so() -> None:
    group = Group()
    group.append()
    log = group.machine.log
    plan = log.sync_plan()
    assert plan is None, "it is under way"
    log.retire()

    again = GroupCommit(SimAside(), group.machine.clock, SimAlarm(), lambda: None)
    again.wait(log, 3, None, lambda durable: group.heard.append((3, durable)))

    assert group.heard == [(3, False)]

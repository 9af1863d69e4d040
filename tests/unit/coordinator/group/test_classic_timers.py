"""Deadlines by name: they move, go, and are told to the alarm."""

from hypothesis import given
from hypothesis import strategies as st

from everlog.coordinator.group.classic_timers import Timers
from everlog.model.ids import Instant
from everlog.sim.alarm import SimAlarm


def some_timers() -> tuple[Timers[str], SimAlarm]:
    alarm = SimAlarm()
    return Timers(alarm), alarm


def due_by(timers: Timers[str], now: int) -> list[str]:
    names: list[str] = []
    while (name := timers.pop_due(Instant(now))) is not None:
        names.append(name)
    return names


def test_names_come_out_in_the_order_of_their_deadlines_and_once() -> None:
    timers, _ = some_timers()
    for name, deadline in (("late", 30), ("early", 10), ("middle", 20)):
        timers.set(name, Instant(deadline))

    assert due_by(timers, 9) == []
    assert due_by(timers, 20) == ["early", "middle"]
    assert due_by(timers, 99) == ["late"]
    assert timers.deadline() is None


def test_a_deadline_that_moved_is_due_at_its_last_time_only() -> None:
    timers, _ = some_timers()
    timers.set("later", Instant(10))
    timers.set("later", Instant(50))
    timers.set("sooner", Instant(40))
    timers.set("sooner", Instant(5))

    assert timers.deadline() == 5
    assert due_by(timers, 49) == ["sooner"]
    assert due_by(timers, 50) == ["later"]


def test_what_was_cancelled_is_never_due() -> None:
    timers, _ = some_timers()
    timers.set("gone", Instant(10))
    timers.cancel("gone")
    timers.cancel("never there")

    assert "gone" not in timers
    assert timers.deadline() is None
    assert due_by(timers, 99) == []


def test_the_alarm_is_told_of_a_deadline_that_comes_nearer() -> None:
    timers, alarm = some_timers()
    timers.set("a", Instant(50))
    assert alarm.deadline == 50
    timers.set("b", Instant(20))
    assert alarm.deadline == 20

    alarm.deadline = None
    timers.set("c", Instant(30))
    assert alarm.deadline is None, "20 is still asked for"
    assert due_by(timers, 20) == ["b"]
    assert timers.deadline() == 30
    timers.set("d", Instant(25))
    assert alarm.deadline == 25


def test_names_that_come_and_go_leave_nothing_behind() -> None:
    timers, _ = some_timers()
    for at in range(10_000):
        timers.set(f"n{at}", Instant(1_000_000 + at))
        timers.cancel(f"n{at}")

    assert len(timers) == 0
    assert len(timers._heap) < 100  # pyright: ignore[reportPrivateUsage]  # its size is what this is about


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20) | st.none(), st.integers(0, 3))))
def test_timers_agree_with_a_dictionary(steps: list[tuple[str, int | None, int]]) -> None:
    timers, _ = some_timers()
    expected: dict[str, int] = {}
    now = 0
    for name, within, passed in steps:
        if within is None:
            timers.cancel(name)
            expected.pop(name, None)
        else:
            timers.set(name, Instant(now + within))
            expected[name] = now + within
        now += passed
        due = {one for one, deadline in expected.items() if deadline <= now}
        popped = due_by(timers, now)
        assert sorted(popped) == sorted(due)
        assert [expected[one] for one in popped] == sorted(expected[one] for one in due)
        expected = {one: deadline for one, deadline in expected.items() if one not in due}
        assert timers.deadline() == min(expected.values(), default=None)

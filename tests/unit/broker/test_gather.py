"""Answers that come now or later are taken together."""

from collections.abc import Callable
from functools import partial

from everlog.broker.gather import gather


def test_results_come_in_the_order_of_the_jobs_once_the_last_is_there() -> None:
    waiting: list[Callable[[str], None]] = []
    came: list[list[str]] = []

    def now(answer: Callable[[str], None], *, what: str) -> None:
        answer(what)

    gather([waiting.append, partial(now, what="second"), waiting.append], came.append)
    assert came == []
    waiting[1]("third")
    assert came == []
    waiting[0]("first")

    assert came == [["first", "second", "third"]]


def test_nothing_is_answered_at_once() -> None:
    came: list[list[str]] = []

    gather([], came.append)

    assert came == [[]]

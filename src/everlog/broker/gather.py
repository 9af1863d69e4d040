"""Several answers that come now or later, taken together."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

T = TypeVar("T")

Job = Callable[[Callable[[T], None]], None]
"""Begins something, and calls back once with what came of it."""


def gather(jobs: Sequence[Job[T]], done: Callable[[list[T]], None]) -> None:
    """Begin all jobs; `done` gets their results in the order of the jobs, when the last one has come."""
    results: dict[int, T] = {}
    if not jobs:
        done([])
        return

    def ended(at: int, result: T) -> None:
        assert at not in results, at
        results[at] = result
        if len(results) == len(jobs):
            done([results[one] for one in range(len(jobs))])

    for at, job in enumerate(jobs):
        job(partial(ended, at))

"""Work beside the loop, run when the simulation says so."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from everlog.ports.random import Random

Result = TypeVar("Result")


class SimAside:
    """A queue of jobs, and a queue of ended jobs whose `done` has not been called yet.

    The two steps are apart because much can happen between them: an append after the fsync and before
    anybody hears of it, for one.
    """

    def __init__(self) -> None:
        self._jobs: list[Callable[[], Callable[[], None]]] = []
        self._ended: list[Callable[[], None]] = []

    @property
    def waiting(self) -> int:
        """How many jobs have not been worked on."""
        return len(self._jobs)

    @property
    def ended(self) -> int:
        """How many jobs have ended and not been told of."""
        return len(self._ended)

    def run(self, job: Callable[[], Result], done: Callable[[Result | OSError], None]) -> None:
        """Queue `job`; it runs when `work` picks it, and `done` is called when `finish` picks that."""

        def work() -> Callable[[], None]:
            result: Result | OSError
            try:
                result = job()
            except OSError as error:
                result = error
            return lambda: done(result)

        self._jobs.append(work)

    def run_together(self, jobs: Sequence[Callable[[], None]]) -> list[OSError | None]:
        """Run jobs one after the other, as one of the ways in which they may be interleaved."""
        failures: list[OSError | None] = []
        for job in jobs:
            try:
                job()
            except OSError as error:
                failures.append(error)
            else:
                failures.append(None)
        return failures

    def work(self, chance: Random | None = None) -> bool:
        """Run one job, the oldest or one that chance picks; False where there is none."""
        if not self._jobs:
            return False
        self._ended.append(self._jobs.pop(chance.below(len(self._jobs)) if chance else 0)())
        return True

    def finish(self, chance: Random | None = None) -> bool:
        """Call one `done`: the first that ended or one that chance picks; False where there is none."""
        if not self._ended:
            return False
        self._ended.pop(chance.below(len(self._ended)) if chance else 0)()
        return True

    def run_all(self) -> None:
        """Work and finish, in order, until nothing is left."""
        while self.finish() or self.work():
            pass

"""Work that blocks, as a core may ask for it."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Aside(Protocol):
    """A place beside the event loop where fsync, compaction and deletions run."""

    def run(self, job: Callable[[], Result], done: Callable[[Result | OSError], None]) -> None:
        """Run `job` off the loop, then call `done` on the loop with its result or its OSError.

        Jobs touch files and values handed to them, never the state of a core. `done` is never called
        before `run` has returned. Jobs may end in another order than they were begun.
        """
        ...

    def run_together(self, jobs: Sequence[Callable[[], None]]) -> list[OSError | None]:
        """Run jobs side by side and return once all have ended, with the OSError of each that had one.

        It blocks, so it is for a stop, when nobody is served any more.
        """
        ...

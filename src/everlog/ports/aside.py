"""Work that blocks, as a core may ask for it."""

from collections.abc import Callable
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Aside(Protocol):
    """A place beside the event loop where fsync, recovery scans and deletions run."""

    def run(self, job: Callable[[], Result], done: Callable[[Result | OSError], None]) -> None:
        """Run `job` off the loop, then call `done` on the loop with its result or its OSError.

        Jobs touch files and values handed to them, never the state of a core. `done` is never called
        before `run` has returned. Jobs may end in another order than they were begun.
        """
        ...

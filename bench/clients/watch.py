"""The clock of a sample: wall time, and CPU time of the process with all its threads."""

import time
from collections.abc import Callable


class Stopwatch:
    """Runs from `start` to `stop`."""

    def __init__(self, prepare: Callable[[], None]) -> None:
        """`prepare` makes the machine ready, at the last moment before the clock runs."""
        self._prepare = prepare
        self.seconds = 0.0
        self.cpu_s = 0.0

    def start(self) -> None:
        """Begin."""
        self._prepare()
        self._began, self._used = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        """End."""
        self.seconds = time.perf_counter() - self._began
        self.cpu_s = time.process_time() - self._used

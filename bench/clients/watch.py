"""The clock of a sample: wall time, and CPU time of the process with all its threads."""

import time


class Stopwatch:
    """Runs from `start` to `stop`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_s = 0.0

    def start(self) -> None:
        """Begin."""
        self._began, self._used = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        """End."""
        self.seconds = time.perf_counter() - self._began
        self.cpu_s = time.process_time() - self._used

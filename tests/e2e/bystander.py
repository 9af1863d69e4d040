"""A well-behaved client that works all the while others misbehave, and notes how long it was kept waiting.

What it and the broker waited for a core is left out: on a busy machine that is other people's doing.
"""

import threading
import time
from pathlib import Path

from everlog.records.builder import NewRecord, build_batch
from tests.conformance import raw

_PAUSE_S = 0.01
_MOST_S = 60


class Bystander:
    """Produces one small batch after another on a connection of its own, until stopped."""

    def __init__(self, bootstrap: str, topic: str, broker_pid: int) -> None:
        self._broker = Path(f"/proc/{broker_pid}/schedstat")
        self._bootstrap = bootstrap
        self._topic = topic
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._slowest_s = 0.0
        self._written = 0
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with raw.connected(self._bootstrap) as connection:
                while not self._stop.wait(_PAUSE_S):
                    now = time.time_ns() // 1_000_000
                    batch = bytes(build_batch([NewRecord(None, b"still here", (), now)]))
                    began_at, without_core_s = time.monotonic(), self._without_core_s()
                    answer = raw.produce(connection, self._topic, batch)
                    taken = time.monotonic() - began_at - (self._without_core_s() - without_core_s)
                    assert answer == (0, self._written), (answer, self._written)
                    with self._lock:
                        self._written += 1
                        self._slowest_s = max(self._slowest_s, taken)
        except Exception as failure:  # noqa: BLE001 - it is raised again where the test looks.
            self._failure = failure

    def _without_core_s(self) -> float:
        """How long the broker's loop and this thread have waited for a core so far, by the kernel."""
        waited = [path.read_text().split()[1] for path in (self._broker, Path("/proc/thread-self/schedstat"))]
        return sum(map(int, waited)) / 1e9

    def slowest_since_last_asked(self) -> float:
        """The longest wait for an answer since this was called before, in seconds; a failure is raised."""
        self._wait_for_one_more()
        with self._lock:
            slowest, self._slowest_s = self._slowest_s, 0.0
        return slowest

    def _wait_for_one_more(self) -> None:
        goal = self._written + 1
        deadline = time.monotonic() + _MOST_S
        while self._written < goal:
            if self._failure is not None:
                raise self._failure
            assert time.monotonic() < deadline, f"no answer for {_MOST_S} s"
            time.sleep(0.005)

    def stop(self) -> None:
        """End the connection."""
        self._stop.set()
        self._thread.join()

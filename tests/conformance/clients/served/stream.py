"""A producer that writes by itself at a steady rate, and what became of each record."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.clients.served.serve import Tally


@dataclass(frozen=True, slots=True)
class Pace:
    """What is written where, and how fast: the values are numbers, to all partitions in turn."""

    topic: str
    partitions: int
    rate: float
    """Records a second."""

    def next(self, number: int) -> tuple[int, str]:
        """Partition and value of the record of a number."""
        return number % self.partitions, str(number)

    @property
    def interval_s(self) -> float:
        """From one record to the next."""
        return 1 / self.rate


Send = Callable[[int, str, int], None]
"""Hand a record to the library: partition, value, and the time, which the tally is told with the outcome."""


class Stream:
    """Writes on a thread of its own until closed."""

    def __init__(self, terms: dict[str, Any], tally: Tally, send: Send, finish: Callable[[], None]) -> None:
        self.tally = tally
        self._pace = Pace(terms["topic"], terms["partitions"], terms["rate"])
        self._send = send
        self._finish = finish
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write no more, and wait until the library has told of every record."""
        self._ended.set()
        self._thread.join()
        self._finish()

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(self._pace.interval_s):
            partition, value = self._pace.next(number)
            self._send(partition, value, self.tally.sending())
            number += 1

"""Reading up to known ends, the part that is the same for every polling consumer."""

import time
from collections.abc import Mapping

from tests.conformance.scenarios import Read


class ReadBack:
    """Collects records until each partition has reached its end; fails loudly if that takes too long."""

    def __init__(self, ends: Mapping[int, int], timeout_s: float = 30.0) -> None:
        self.records: list[Read] = []
        self._ends = ends
        self._missing = {partition for partition, end in ends.items() if end > 0}
        self._deadline = time.monotonic() + timeout_s

    def add(self, record: Read) -> None:
        """Keep one record."""
        self.records.append(record)
        if record.offset + 1 >= self._ends[record.partition]:
            self._missing.discard(record.partition)

    def complete(self) -> bool:
        """Whether all has come; a TimeoutError once it should have."""
        if self._missing and time.monotonic() > self._deadline:
            raise TimeoutError(
                f"{len(self.records)} records came, but not the end of {sorted(self._missing)}"
            )
        return not self._missing

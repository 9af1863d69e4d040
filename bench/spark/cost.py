"""What a job of Spark costs: CPU seconds of the virtual machine and all Python processes that it starts.

Spark's daemon of Python workers ignores their end, so the kernel adds what they used to nobody's account.
They are looked at several times a second instead; an ended one counts with what it was seen to have used.
"""

import os
import threading
from pathlib import Path

from bench.machine import process_tree

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LOOK_S = 0.2


class JobCost:
    """Keeps the account of a process and all its descendants, ended ones too."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[tuple[int, int], float] = {}
        """CPU seconds by process; its start is part of the name, as numbers are used again."""
        self._one_look = threading.Lock()
        self._stop = threading.Event()
        self._looking = threading.Thread(target=self._look_on, daemon=True)
        self._looking.start()

    def cpu_s(self) -> float:
        """CPU seconds used so far."""
        with self._one_look:
            for pid in process_tree(self._root):
                self._look_at(pid)
            return sum(self._seen.values())

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        self._looking.join()

    def _look_on(self) -> None:
        while not self._stop.wait(_LOOK_S):
            self.cpu_s()

    def _look_at(self, pid: int) -> None:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return  # It has ended since it was listed.
        user, system, start = int(fields[11]), int(fields[12]), int(fields[19])
        self._seen[pid, start] = (user + system) / _TICKS_PER_S

"""What a job of Spark costs: CPU seconds of the driver, the virtual machine and all Python workers."""

import os
import time
from pathlib import Path

from bench.machine import process_tree

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def job_cpu_s(jvm: int) -> float:
    """CPU seconds that this process, a virtual machine and all that it ever started have used.

    Workers come and go: what an ended one used is in its parent's account once it was waited for.
    """
    return time.process_time() + sum(_with_ended_children(pid) for pid in process_tree(jvm))


def _with_ended_children(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # It has ended since it was listed, and its parent has the account.
    return sum(int(field) for field in fields[11:15]) / _TICKS_PER_S

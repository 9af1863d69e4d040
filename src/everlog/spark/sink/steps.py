"""Where the sink stands, for tests that kill a process at exactly that point. Does nothing otherwise.

With the variable `EVERLOG_SPARK_STEPS` set to a folder, a file there that bears the name of a step is an
order: the first process to get there takes it away and sends SIGKILL to the processes named in it, `self`
being one of them.
"""

import os
import signal
from pathlib import Path

_folder = os.environ.get("EVERLOG_SPARK_STEPS")


def reached(step: str) -> None:
    """Note that a step is reached, and die if a test has ordered so."""
    if _folder is not None:
        _carry_out(Path(_folder) / step)


def _carry_out(order: Path) -> None:
    taken = order.with_suffix(f".{os.getpid()}")
    try:
        order.rename(taken)
    except FileNotFoundError:
        return
    victims = taken.read_text().split()
    taken.rename(order.with_suffix(".done"))
    for victim in victims:
        os.kill(os.getpid() if victim == "self" else int(victim), signal.SIGKILL)

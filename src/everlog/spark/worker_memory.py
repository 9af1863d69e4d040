"""What Python's collector of garbage costs in the processes that Spark starts.

Spark has a process collect all garbage after each task. With pyspark, pandas and pyarrow loaded that looks at
some hundred thousand objects that will never be garbage: 50 ms of CPU a task, more than a small task takes.
"""

import gc
from dataclasses import dataclass

_TIMES = 2


@dataclass(slots=True)
class _State:
    settled: int = 0


_state = _State()


def settle_memory() -> None:
    """Have the collector leave alone what this process has loaded by now; later calls do nothing.

    Called where a task begins. The first one loads much that stays, so the second call has its say too. What
    tasks make afterwards is collected as ever, so nothing piles up.
    """
    if _state.settled < _TIMES:
        _state.settled += 1
        gc.collect()
        gc.freeze()

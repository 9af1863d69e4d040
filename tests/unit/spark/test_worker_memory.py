"""What a process of Spark has loaded is not looked at for garbage; what its tasks make is."""

import subprocess
import sys

SCRIPT = """
import gc, weakref

from everlog.spark.worker_memory import settle_memory

class Node:
    pass

def ring():
    one, other = Node(), Node()
    one.next, other.next = other, one
    return weakref.ref(one)

gc.disable()
before = ring()
settle_memory()
assert before() is None, "garbage of the time before was kept for ever"
held = gc.get_freeze_count()
assert held > 1000, held

loaded = [[] for _ in range(1000)]
settle_memory()
assert gc.get_freeze_count() >= held + 1000, "what the first task has loaded is gone through for ever"
held = gc.get_freeze_count()

after = ring()
settle_memory()
assert gc.get_freeze_count() == held, "a third call kept what tasks have made"
gc.collect()
assert after() is None, "what a task left was not collected"
"""


def test_it_is_settled_when_tasks_begin_and_keeps_no_garbage() -> None:
    # In a process of its own: the garbage of this one is pytest's.
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Event loops on threads beside a program's own, and the end of those that it never ends.

Such a thread is a daemon, or a program that forgot to close a client would never end. But uvloop comes back
from the kernel to an interpreter that may be gone by then, which is a segmentation fault. So what is left is
ended before the interpreter is.
"""

import asyncio
import atexit
import os
import sys
import time
from typing import Final, Protocol
from weakref import WeakKeyDictionary

LIMIT_S: Final = 5.0
"""How long the end of the interpreter waits for all of them together."""


class LoopThread(Protocol):
    """Whoever runs a loop on a thread of its own."""

    def ask_to_end(self) -> None:
        """Have the loop come to its end, without waiting for it; harmless if it has."""
        ...

    def wait_until_ended(self, timeout: float) -> None:
        """Wait for the end of the thread, for `timeout` seconds at most."""
        ...


_running: "WeakKeyDictionary[LoopThread, None]" = WeakKeyDictionary()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where that is installed, else Python's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def end_at_exit(thread: LoopThread) -> None:
    """End this one when the interpreter ends, if nobody has before."""
    _running[thread] = None


def _end_all() -> None:
    left = list(_running)
    for thread in left:
        thread.ask_to_end()
    deadline = time.monotonic() + LIMIT_S
    for thread in left:
        thread.wait_until_ended(max(0.0, deadline - time.monotonic()))


atexit.register(_end_all)
if sys.platform != "win32":
    # A process that was forked has none of the threads, and shares what wakes their loops.
    os.register_at_fork(after_in_child=_running.clear)

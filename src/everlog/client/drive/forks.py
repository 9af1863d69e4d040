"""What becomes of clients in a forked process: memory is copied, threads are not, sockets are shared.

So a client that was in use is of no use there, and a byte that it sent would be taken for its parent's. It is
told before anything else runs in the child; the parent's goes on as if nothing had happened.
"""

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

Client = TypeVar("Client")

_watched: "WeakKeyDictionary[Any, Callable[[Any, str], None]]" = WeakKeyDictionary()
_kept: list[object] = []
"""Never let go: to close a socket would take it from what watches it, which is the parent's too."""


class _Process:
    """This one, as it was when it was last looked at: clients were made in it."""

    ident = os.getpid()


def watch(client: Client, inherited: Callable[[Client, str], None]) -> None:
    """Call this with the client and the reason why it is of no use, in a process that is forked.

    It may wait for no lock, whose holder may not be there, and touch no socket and nothing that watches one.
    """
    _watched[client] = inherited


def _tell_inherited() -> None:
    parent, _Process.ident = _Process.ident, os.getpid()
    why = (
        f"this client was made in process {parent}, of which this one, {_Process.ident}, is a fork: "
        "make one in each process, after the fork"
    )
    with ExitStack() as telling:
        # All are told, even if one of them raises; the interpreter shows what that was.
        for client, inherited in reversed(list(_watched.items())):
            _kept.append(client)
            telling.callback(inherited, client, why)
        _watched.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_tell_inherited)

"""One broker as the child of a program: `python -m everlog.embedded.child`, started by `ProcessBroker`.

Its first line of input is its settings as JSON. The input then stays open: its end means stop, and comes as
well when whoever started this is gone, so that no broker is left behind.
"""

import json
import os
import signal
import sys
import threading

from everlog.model.errors import EverlogError
from everlog.model.settings import broker_settings
from everlog.node.run import run_node

_READ_BYTES = 65_536


def main() -> int:
    """Run the node; the first line of output is `ready bootstrap=…`, the exit code 0 if it ended cleanly."""
    line, _, _ = _first_line().partition(b"\n")
    try:
        settings = broker_settings(json.loads(line))
        threading.Thread(target=_stop_at_the_end, name="everlog-parent", daemon=True).start()
        run_node(settings, on_ready=_announce)
    except EverlogError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201 - it is a program
        return 1
    return 0


def _announce(bootstrap: str) -> None:
    print(f"ready bootstrap={bootstrap}", flush=True)  # noqa: T201 - it is a program


def _first_line() -> bytes:
    # By the descriptor: a daemon thread that waits inside of sys.stdin would fail the interpreter's end.
    read = b""
    while b"\n" not in read:
        more = os.read(0, _READ_BYTES)
        if not more:
            return read
        read += more
    return read


def _stop_at_the_end() -> None:
    while os.read(0, _READ_BYTES):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())

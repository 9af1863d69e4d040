"""The broker of the demo: a process of its own, as `everlog up` starts it."""

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from everlog.model.errors import EverlogError

START_SECONDS = 30.0
STOP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class DemoBroker:
    """A broker that serves."""

    process: "subprocess.Popen[str]"
    bootstrap: str
    start_seconds: float
    """From its start until it served."""

    def serve_on(self) -> None:
        """Wait until it ends; EverlogError if nobody asked it to."""
        if self.process.wait() != 0:
            raise EverlogError(f"the broker ended by itself with exit code {self.process.returncode}")


@contextmanager
def demo_broker(directory: str) -> Generator[DemoBroker]:
    """Run `everlog up` with its data in a directory; it is stopped at the end."""
    log_path = os.path.join(directory, "broker.log")
    command = [
        *(sys.executable, "-m", "everlog.cli", "up"),
        *("--dir", os.path.join(directory, "data"), "--port", str(_port())),
    ]
    began = time.monotonic()
    with open(log_path, "w", encoding="utf-8") as log:
        # A group of its own: Ctrl-C reaches us alone, and we stop the broker when we are ready.
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        bootstrap = _bootstrap_of(process, log_path)
        yield DemoBroker(process, bootstrap, time.monotonic() - began)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _port() -> int:
    """Kafka's port if nobody has it, else any."""
    with socket.socket() as probe:
        # As the broker will: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind(("127.0.0.1", 9092))
            return 9092
    return 0


def _bootstrap_of(process: "subprocess.Popen[str]", log_path: str) -> str:
    """The address in the broker's first line; EverlogError with its last words if there is none in time."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline().strip() if readable else ""
    if not line.startswith("ready bootstrap="):
        with open(log_path, encoding="utf-8") as log:
            words = log.read().strip().splitlines()
        raise EverlogError(f"the broker did not start: {words[-1] if words else 'it said nothing'}")
    return line.partition("=")[2]

"""The brokers of the demo: processes of their own, as `everlog up` starts them."""

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

START_SECONDS = 60.0
STOP_SECONDS = 30.0
_KAFKA_PORT = 9092


@dataclass(frozen=True, slots=True)
class DemoBrokers:
    """A broker that serves, or a cluster of them."""

    process: "subprocess.Popen[str]"
    bootstrap: str
    """The addresses of all of them, with commas between."""
    start_seconds: float
    """From their start until all served."""

    @property
    def addresses(self) -> list[str]:
        """Of each broker."""
        return self.bootstrap.split(",")

    def serve_on(self) -> None:
        """Wait until they end; EverlogError if nobody asked them to."""
        if self.process.wait() != 0:
            raise EverlogError(f"`everlog up` ended by itself with exit code {self.process.returncode}")


@contextmanager
def demo_brokers(directory: str, count: int) -> Generator[DemoBrokers]:
    """Run `everlog up` with its data in a directory; it is stopped at the end."""
    log_path = os.path.join(directory, "broker.log")
    command = [
        *(sys.executable, "-m", "everlog.cli", "up"),
        *("--dir", os.path.join(directory, "data"), "--port", str(_port(count)), "--brokers", str(count)),
    ]
    began = time.monotonic()
    with open(log_path, "w", encoding="utf-8") as log:
        # A group of its own: Ctrl-C reaches us alone, and we stop the brokers when we are ready.
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        bootstrap = _bootstrap_of(process, log_path)
        yield DemoBrokers(process, bootstrap, time.monotonic() - began)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _port(count: int) -> int:
    """Kafka's port if nobody has it and those behind it, else any."""
    return _KAFKA_PORT if all(_is_free(_KAFKA_PORT + index) for index in range(count)) else 0


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the broker will: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return True
    return False


def _bootstrap_of(process: "subprocess.Popen[str]", log_path: str) -> str:
    """The addresses in its first line; EverlogError with its last words if there is none in time."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline().strip() if readable else ""
    if not line.startswith("ready bootstrap="):
        with open(log_path, encoding="utf-8") as log:
            words = log.read().strip().splitlines()
        raise EverlogError(f"the brokers did not start: {words[-1] if words else 'it said nothing'}")
    return line.partition("=")[2]

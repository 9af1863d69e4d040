"""Real broker processes for tests: Everlog by its own command line, or any cluster that is already there."""

import os
import queue
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

_READY = re.compile(r"^ready bootstrap=(\S+)")
START_TIMEOUT_S = 30.0
_PORTS = 12_000, 32_000


class BrokerProcess:
    """An `everlog` process that serves; made by `start`, ended by `stop` or `kill`."""

    def __init__(self, process: "subprocess.Popen[str]", bootstrap: str, errors: Path) -> None:
        self.process = process
        self.bootstrap = bootstrap
        self._errors = errors

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of its first listener."""
        host, _, port = self.bootstrap.split(",")[0].rpartition(":")
        return host, int(port)

    @property
    def rss_bytes(self) -> int:
        """The memory it has in use now."""
        fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def errors(self) -> str:
        """What it has written to stderr so far."""
        return self._errors.read_text(errors="replace")

    def stop(self, timeout_s: float = 60.0) -> int:
        """Ask it to end, as Ctrl-C or a service manager would, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """End it at once, with no chance to tidy up."""
        self.process.kill()
        self.process.wait()


def start(arguments: Sequence[str], errors: Path, timeout_s: float = START_TIMEOUT_S) -> BrokerProcess:
    """Run `everlog` with these arguments and return once it says that it serves."""
    with errors.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "everlog.cli.main", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=_environment(),
        )
    # The thread goes on reading after the ready line: a full pipe would stop the broker.
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_pump, args=(process, lines), daemon=True).start()
    try:
        while True:
            line = lines.get(timeout=timeout_s)
            if ready := _READY.match(line):
                return BrokerProcess(process, ready[1], errors)
            if not line:
                said = errors.read_text(errors="replace")[-4000:]
                raise RuntimeError(f"everlog {' '.join(arguments)} ended with {process.wait()}:\n{said}")
    except BaseException:
        process.kill()
        process.wait()
        raise


def start_up(directory: Path, errors: Path, *flags: str) -> BrokerProcess:
    """A local broker on a free port with its data in `directory`."""
    return start(["up", "--dir", str(directory), "--port", "0", *flags], errors)


def free_port() -> int:
    """A port that nothing listens on now, nor on the one after it, which Apache Kafka's controller takes.

    It lies below those that systems give to clients: a broker that is killed and started again finds it free.
    """
    while True:
        port = random.randrange(*_PORTS, 2)
        try:
            for wanted in (port, port + 1):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", wanted))
        except OSError:
            continue
        return port


def _pump(process: "subprocess.Popen[str]", lines: "queue.SimpleQueue[str]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def _environment() -> dict[str, str]:
    source = str(Path(__file__).resolve().parent.parent / "src")
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{source}:{path}" if path else source}

"""One broker of an embedded cluster, on a thread of this process or as a child process."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

from everlog.model.errors import EverlogError
from everlog.model.settings import broker_settings

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
_READY = "ready bootstrap="
_SHOWN_LINES = 20


class BrokerFailed(EverlogError):
    """A broker of an embedded cluster did not start, or cannot do what was asked of it."""


class EmbeddedBroker(Protocol):
    """A broker to stop, start, kill and pause. Its address stays the same over restarts."""

    @property
    def node_id(self) -> int:
        """The broker's id in the cluster."""
        ...

    @property
    def bootstrap(self) -> str:
        """Where it listens, as `host:port`."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether it has been started and not been stopped or killed."""
        ...

    def start(self) -> None:
        """Start it and wait until it serves; what was in its directory is there again."""
        ...

    def stop(self) -> None:
        """Stop it cleanly."""
        ...

    def kill(self) -> None:
        """End it at once, as a crash would: it has no chance to tidy up."""
        ...

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing is answered."""
        ...

    def resume(self) -> None:
        """Let it go on after `pause`."""
        ...


class ThreadBroker:
    """A broker on a thread of this process: the quickest to start, and it shares the interpreter."""

    def __init__(self, node_id: int, directory: Path, port: int, settings: Mapping[str, str]) -> None:
        from everlog.node.run import NodeThread

        self.node_id = node_id
        self._directory = directory
        self._port = port
        self._settings = settings
        self._bootstrap = ""
        self._thread: NodeThread | None = None

    @property
    def bootstrap(self) -> str:
        """Where it listens."""
        return self._bootstrap

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._thread is not None

    def start(self) -> None:
        """Start it and wait until it serves."""
        from everlog.node.run import NodeThread

        if self._thread is not None:
            return
        address = f"127.0.0.1:{self._port}"
        thread = NodeThread(
            broker_settings(
                {
                    "node.id": str(self.node_id),
                    "process.roles": "broker,controller",
                    "listeners": f"PLAINTEXT://{address}",
                    "advertised.listeners": f"PLAINTEXT://{address}",
                    "log.dirs": str(self._directory),
                    **self._settings,
                }
            )
        )
        self._bootstrap = thread.start()
        self._port = int(self._bootstrap.rpartition(":")[2])
        self._thread = thread

    def stop(self) -> None:
        """Stop it cleanly."""
        if self._thread is not None:
            thread, self._thread = self._thread, None
            thread.stop()

    def kill(self) -> None:
        """Not possible on a thread."""
        raise self._needs_process("kill")

    def pause(self) -> None:
        """Not possible on a thread."""
        raise self._needs_process("pause")

    def resume(self) -> None:
        """Not possible on a thread."""
        raise self._needs_process("resume")

    def _needs_process(self, what: str) -> BrokerFailed:
        return BrokerFailed(
            f"broker {self.node_id} runs on a thread of this process and cannot {what} without it: "
            "make the cluster with processes=True"
        )


class ProcessBroker:
    """A broker as a child process, as in production: it can be killed and paused."""

    def __init__(self, node_id: int, directory: Path, port: int, settings: Mapping[str, str]) -> None:
        self.node_id = node_id
        self._directory = directory
        self._port = port
        self._settings = settings
        self._bootstrap = ""
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        """Where it listens."""
        return self._bootstrap

    @property
    def is_running(self) -> bool:
        """Whether the process is there, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process's id while it runs."""
        return self._process.pid if self._process is not None and self.is_running else None

    def start(self) -> None:
        """Start it and wait until it serves."""
        if self.is_running:
            return
        overrides = [f"--override={key}={value}" for key, value in self._settings.items()]
        arguments = ["up", "--dir", str(self._directory), "--port", str(self._port), *overrides]
        process = subprocess.Popen(
            [sys.executable, "-m", "everlog.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            self._bootstrap = _wait_ready(process)
        except BaseException:
            process.kill()
            process.wait()
            raise
        self._port = int(self._bootstrap.rpartition(":")[2])
        self._process = process

    def stop(self) -> None:
        """Ask it to end, as a service manager would; it is killed if it does not in a minute."""
        if not self.is_running:
            return
        assert self._process is not None
        self.resume()
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"broker {self.node_id} did not stop within {STOP_TIMEOUT_S:g} s") from None

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Freeze it (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            raise BrokerFailed(f"broker {self.node_id} is not running")
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)


def _wait_ready(process: "subprocess.Popen[str]") -> str:
    """Wait for the line that says where it serves; go on reading behind it, or a full pipe would stop it."""
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_pump, args=(process, lines), daemon=True).start()
    said: list[str] = []
    while True:
        try:
            line = lines.get(timeout=START_TIMEOUT_S)
        except Empty:
            raise BrokerFailed(
                f"a broker did not start within {START_TIMEOUT_S:g} s; it said: {''.join(said) or 'nothing'}"
            ) from None
        if line.startswith(_READY):
            return line.removeprefix(_READY).strip()
        if not line:
            code = process.wait()
            raise BrokerFailed(f"a broker ended with {code} at its start: {''.join(said[-_SHOWN_LINES:])}")
        said.append(line)


def _pump(process: "subprocess.Popen[str]", lines: "SimpleQueue[str]") -> None:
    assert process.stdout is not None
    served = False
    for line in process.stdout:
        if not served:
            lines.put(line)
            served = line.startswith(_READY)
    lines.put("")

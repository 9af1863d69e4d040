"""One broker of an embedded cluster, on a thread of this process or as a child process."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
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

    def give_up(self) -> None:
        """End a start that another thread waits for; whoever calls stops those that serve already."""
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

    def __init__(self, settings: Mapping[str, str]) -> None:
        from everlog.node.run import NodeThread

        self.node_id = int(settings["node.id"])
        self._settings = dict(settings)
        self._bootstrap = ""
        self._starting: NodeThread | None = None
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
        thread = self._starting = NodeThread(broker_settings(self._settings))
        try:
            self._bootstrap = thread.start(START_TIMEOUT_S)
        except BaseException as error:
            thread.ask_to_end()
            thread.wait_until_ended(STOP_TIMEOUT_S)
            if isinstance(error, Exception):
                raise BrokerFailed(f"broker {self.node_id} {_why_not(error)}") from error
            raise
        finally:
            self._starting = None
        _stay_at(self._bootstrap, self._settings)
        self._thread = thread

    def give_up(self) -> None:
        """Have it stop if it does not serve yet."""
        if (thread := self._starting) is not None:
            thread.ask_to_end()

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

    def __init__(self, settings: Mapping[str, str], on_line: Callable[[str], None] | None = None) -> None:
        """`on_line` gets each line that it writes behind the one that says that it serves, and "" at its end.

        It is called on a thread of its own.
        """
        self.node_id = int(settings["node.id"])
        self._settings = dict(settings)
        self._on_line = on_line
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

    def exit_code(self) -> int:
        """Wait for the end of the process and return how it ended; it has been started before."""
        assert self._process is not None
        return self._process.wait(STOP_TIMEOUT_S)

    @property
    def pid(self) -> int | None:
        """The process's id while it runs."""
        return self._process.pid if self._process is not None and self.is_running else None

    def start(self) -> None:
        """Start it and wait until it serves."""
        if self.is_running:
            return
        process = subprocess.Popen(
            [sys.executable, "-m", "everlog.embedded.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C at a terminal is for us; we end it when we are ready.
        )
        self._process = process
        try:
            self._tell(process)
            self._bootstrap = _wait_ready(self.node_id, process, self._on_line)
        except BaseException:
            self.kill()
            raise
        _stay_at(self._bootstrap, self._settings)

    def give_up(self) -> None:
        """Kill it."""
        self.kill()

    def _tell(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # It died at once; what it said tells why.
            process.stdin.write(json.dumps(self._settings) + "\n")
            process.stdin.flush()

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
        finally:
            _let_go(self._process)

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            _let_go(self._process)

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


def _why_not(error: Exception) -> str:
    """What is said of a start on a thread that came to nothing."""
    match error:
        case TimeoutError():
            return f"did not start within {START_TIMEOUT_S:g} s"
        case CancelledError():
            return "was told to stop at its start"
        case _:
            return f"did not start: {error}"


def _let_go(process: "subprocess.Popen[str]") -> None:
    """Close our end of a child's input; its output is closed by the thread that reads it."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _stay_at(bootstrap: str, settings: dict[str, str]) -> None:
    """Have the next start listen where this one does, if the port was left to the system."""
    if settings["listeners"].endswith(":0"):
        settings["listeners"] = settings["advertised.listeners"] = f"PLAINTEXT://{bootstrap}"


def _wait_ready(node_id: int, process: "subprocess.Popen[str]", on_line: Callable[[str], None] | None) -> str:
    """Wait for the line that says where it serves; go on reading behind it, or a full pipe would stop it."""
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(
        target=_pump, args=(process, lines, on_line), name=f"everlog-output-{node_id}", daemon=True
    ).start()
    said: list[str] = []
    while True:
        try:
            line = lines.get(timeout=START_TIMEOUT_S)
        except Empty:
            raise BrokerFailed(
                f"broker {node_id} did not start within {START_TIMEOUT_S:g} s; it said: "
                f"{''.join(said) or 'nothing'}"
            ) from None
        if line.startswith(_READY):
            return line.removeprefix(_READY).strip()
        if not line:
            code = process.wait()
            last = "".join(said[-_SHOWN_LINES:])
            raise BrokerFailed(f"broker {node_id} ended with {code} at its start: {last}")
        said.append(line)


def _pump(
    process: "subprocess.Popen[str]", lines: "SimpleQueue[str]", on_line: Callable[[str], None] | None
) -> None:
    assert process.stdout is not None
    served = False
    with process.stdout as output:
        for line in output:
            if not served:
                lines.put(line)
                served = line.startswith(_READY)
            elif on_line is not None:
                on_line(line)
    lines.put("")
    if served and on_line is not None:
        on_line("")

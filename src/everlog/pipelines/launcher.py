"""Starts the process that runs Spark, hears its events, and ends it, whatever happens."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from everlog.pipelines.events import Event, RunEnded, read_event
from everlog.pipelines.runner import Job

_END_SECONDS = 45.0


class RunProcess:
    """A run in a child process, in a process group of its own: Ctrl-C at a terminal reaches only us.

    Use it as a context manager; on leaving it nothing of the run is left, neither Python nor Java. The file
    `lock` stays open in the process too: if we are killed, other runs are kept out until it has ended.
    """

    def __init__(self, job: Job, log: Path | None, lock: int | None = None) -> None:
        reading, writing = os.pipe()
        output: IO[bytes] | int = log.open("wb") if log is not None else sys.stderr.fileno()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "everlog.pipelines.runner"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT if log is not None else output,
                env={**os.environ, "EVERLOG_EVENTS_FD": str(writing)},
                pass_fds=(writing,) if lock is None else (writing, lock),
                start_new_session=True,
                text=True,
            )
        finally:
            os.close(writing)
            if not isinstance(output, int):
                output.close()
        self.pid = self._process.pid
        """Of the process, and of the group that all of the run is in."""
        self._events = os.fdopen(reading, "r")
        self._log = log
        self._tell(job.line() + "\n")

    def events(self) -> Iterator[Event]:
        """Events as they come; the last one is always RunEnded, also if the process died."""
        for line in self._events:
            event = read_event(line)
            yield event
            if isinstance(event, RunEnded):
                return
        code = self._process.wait()
        cause = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        yield RunEnded(f"the process that runs Spark {cause} before the run was over", self.log_tail())

    def stop(self) -> None:
        """Ask the run to end; its events go on until it has."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()

    def log_tail(self, lines: int = 40) -> str:
        """The last lines that Spark wrote, if they are not on the terminal."""
        if self._log is None or not self._log.is_file():
            return ""
        return "\n".join(self._log.read_text("utf-8", errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the run, with force if it takes too long."""
        self.stop()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        self._end_group()
        self._process.wait()
        self._events.close()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # It died at once; `events` says so.

    def _end_group(self) -> None:
        # Java ends by itself when Python is gone; it gets a moment for that before it is made to.
        for sign, seconds in ((None, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
            try:
                os.killpg(self._process.pid, sign or 0)
            except ProcessLookupError:
                return
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and _group_lives(self._process.pid):
                with contextlib.suppress(ChildProcessError):
                    self._process.poll()
                time.sleep(0.05)  # the kernel tells nobody but a parent when a group is empty


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


@contextlib.contextmanager
def terminated_as_interrupted() -> Generator[None]:
    """Let SIGTERM, which a service manager sends, end a run as cleanly as Ctrl-C does.

    Only Ctrl-C may end it at once when it comes again: `timeout` sends two of SIGTERM.
    """

    def interrupt(sign: int, _frame: object) -> None:
        signal.signal(sign, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

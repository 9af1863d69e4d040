"""A driver of Spark's in a process of its own, which may die."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from tests.spark.kills_table.job import Job

START_SECONDS = 180.0
RUN_SECONDS = 240.0
ROOT = Path(__file__).resolve().parents[3]


class DriverProcess:
    """Runs jobs one after the other; starts a new process after one has died."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.starts = 0

    def run(self, job: Job, rows_a_batch: int, kill_after: float | None = None) -> str | None:
        """Run a job; returns what went wrong, `died` if the process did, as after `kill_after` seconds."""
        process = self._living()
        assert process.stdin is not None
        timer: threading.Timer | None = None
        if kill_after is not None:
            timer = threading.Timer(kill_after, self._kill)
            timer.start()
        try:
            process.stdin.write(json.dumps({**asdict(job), "rows_a_batch": rows_a_batch}) + "\n")
            process.stdin.flush()
            answer = self._lines.get(timeout=RUN_SECONDS)
        except BrokenPipeError:
            answer = ""
        finally:
            if timer is not None:
                timer.cancel()
        if answer in ("", "died") or process.poll() is not None or self._is_orphan():
            self.stop()
            return "died"
        return None if answer == "done" else answer

    def stop(self) -> None:
        """End the process and all that it started."""
        if self._process is not None:
            self._kill()
            self._process.wait()
            self._process = None

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            # A session of its own: Python, the JVM and the workers of the JVM go together, as with a machine.
            os.killpg(self._process.pid, signal.SIGKILL)

    def _is_orphan(self) -> bool:
        """Whether the JVM is gone, without which the process can do nothing more."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        try:
            pids = children.read_text().split()
        except OSError:
            return True
        return not any(b"java" in _command(pid) for pid in pids)

    def _living(self) -> "subprocess.Popen[str]":
        if self._process is None:
            self.starts += 1
            self._lines = queue.SimpleQueue()
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / "stderr").open("ab") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.spark.kills_table.job", str(self._folder)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    cwd=ROOT,
                    start_new_session=True,
                )
            threading.Thread(target=_pump, args=(self._process, self._lines), daemon=True).start()
            while (line := self._lines.get(timeout=START_SECONDS)) != "ready":
                assert line, (self._folder / "stderr").read_text(errors="replace")[-3000:]
        return self._process


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _pump(process: "subprocess.Popen[str]", lines: "queue.SimpleQueue[str]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line.strip())
    lines.put("")

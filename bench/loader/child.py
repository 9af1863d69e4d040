"""The parent's side of a loader: start it, wait until it is ready, let it go, take its outcome."""

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.loader.jobs import Job, Outcome, to_line

_ROOT = Path(__file__).resolve().parent.parent.parent


class Loader:
    """A child process with one job; a context manager that leaves no process behind."""

    def __init__(self, job: Job, cpu: int | None = None) -> None:
        self._job = job
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.loader"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if cpu is not None:
            os.sched_setaffinity(self._process.pid, {cpu})
        self._write(to_line(job))

    def wait_ready(self) -> None:
        """Return once the loader is connected and has its bytes made."""
        if self._read() != "ready":
            raise self._failure()

    def go(self) -> None:
        """Begin the measured part."""
        self._write("go")

    def outcome(self) -> Outcome:
        """Wait for the end and return what was measured."""
        line = self._read()
        if not line:
            raise self._failure()
        outcome: Outcome = json.loads(line)
        return outcome

    def _failure(self) -> RuntimeError:
        code = self._process.wait(10.0)
        return RuntimeError(f"a loader ended with {code} (its output is above): {self._job}")

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

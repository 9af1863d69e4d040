"""A driver program: a process that takes jobs as JSON lines on stdin and answers each on stdout.

A job is `{"op": …, …}`; its answer is `{"ok": …}` or `{"error": code, "message": …}`. Bytes travel as base64.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.conformance.clients.face import ClientError


class DriverProcess:
    """One driver, which lives until closed or killed."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def call(self, op: str, **job: Any) -> Any:
        """Give one job and wait for its answer; an error answer becomes a `ClientError`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"op": op, **job}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            said = self._log.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"the {self.name} driver ended:\n{said}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ClientError(answer["error"], answer["message"])
        return answer["ok"]

    def close(self) -> None:
        """Let the driver end at the end of its input."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # It has ended by itself.
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once: to the broker, its clients fall silent without a word."""
        self._process.kill()
        with self._process:  # Waits, and closes the pipes.
            pass

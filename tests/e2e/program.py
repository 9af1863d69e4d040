"""Runs `everlog` as a program, as a user would."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = str(Path(__file__).parents[2] / "src")
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Ran:
    """What a run of the program left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The envelope that it printed."""
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        """The lines of JSON that it printed."""
        return [json.loads(line) for line in self.out.splitlines()]


def environment(**more: str) -> dict[str, str]:
    """What the program finds in its environment: our sources, and a terminal of a known width."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EVERLOG_")}
    return {**kept, "PYTHONPATH": SOURCE, "COLUMNS": "100", **more}


def everlog(
    *arguments: str, bootstrap: str = "", stdin: str | bytes = b"", timeout_s: float = TIMEOUT_S
) -> Ran:
    """Run `everlog` with these arguments to its end; a hang is a failure."""
    done = subprocess.run(
        [sys.executable, "-m", "everlog.cli", *arguments],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        env=environment(**({"EVERLOG_BOOTSTRAP": bootstrap} if bootstrap else {})),
        timeout=timeout_s,
    )
    return Ran(
        done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode(errors="replace")
    )

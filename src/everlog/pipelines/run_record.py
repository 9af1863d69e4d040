"""What is kept of a run, in the project's storage: its record, its log, the lock that keeps others out."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from everlog.model.errors import ConfigError
from everlog.pipelines.project import Project

_ENDING_SECONDS = 60.0
"""More than a run takes to end, or to give up on a Spark that does not."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The last run, as `status` shows it."""

    state: str
    """running, completed, failed or stopped."""
    master: str
    bootstrap: str
    started_ms: int
    ended_ms: int | None = None
    passes: int = 0
    problem: str | None = None
    flows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """As `RunTally.shape` has them."""


def log_path(project: Project) -> Path:
    """Where Spark's own words of the last run are."""
    return _home(project) / "spark.log"


def write_record(project: Project, record: RunRecord) -> None:
    """Keep a run's record in place of the last one's."""
    path = _home(project) / "last.json"
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(asdict(record)))
    fresh.replace(path)


def read_record(project: Project) -> RunRecord | None:
    """The last run's record, or None before the first; a run whose process is gone is no longer running."""
    path = _home(project) / "last.json"
    if not path.is_file():
        return None
    fields = cast(dict[str, Any], json.loads(path.read_text()))
    if fields["state"] == "running" and running_process(project) is None:
        fields["state"], fields["problem"] = "failed", "its process is gone"
    return RunRecord(**fields)


@contextlib.contextmanager
def only_run(project: Project) -> Generator[int]:
    """Keep other runs of the project out; ConfigError if there is one.

    Gives the file that has the lock. It goes with the process and with those that are given the file: a run
    whose command was killed takes some seconds to end, and is waited for.
    """
    home = _home(project)
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("a+") as file:
        deadline = time.monotonic() + _ENDING_SECONDS
        while not _locked(file):
            file.seek(0)
            command = file.read().strip()
            if _lives(command) or time.monotonic() > deadline:
                raise ConfigError(
                    f"pipeline {project.name!r} is running already, as process {command}: its "
                    "catalog and checkpoints take one run at a time"
                )
            time.sleep(0.1)  # nobody is told when a lock is let go, but who waits for it without an end
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield file.fileno()


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lives(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (ValueError, PermissionError):
        pass  # not yet written down, or somebody else's
    return True


def running_process(project: Project) -> int | None:
    """The process that runs the project now, or None."""
    path = _home(project) / "lock"
    if not path.is_file():
        return None
    with path.open("a+") as file:
        try:
            # Shared, and let go at once: it must not be in the way of a run that starts just now.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            text = file.read().strip()
            return int(text) if text.isdigit() else 0
    return None


def _home(project: Project) -> Path:
    return project.state / "_runs"

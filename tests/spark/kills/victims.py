"""The processes of a run: a broker and a Spark driver that are killed and started again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conformance.target import SETTINGS, Everlog
from tests.spark.kills.class_archive import environment

START_S = 600.0
ROOT = Path(__file__).resolve().parents[3]


class Broker(Everlog):
    """A broker whose process can be named, so that others kill it."""

    def __init__(self, directory: Path, *, two_phase: bool) -> None:
        super().__init__(
            directory, {**SETTINGS, "transaction.two.phase.commit.enable": str(two_phase).lower()}
        )

    @property
    def pid(self) -> int:
        """The process that serves now."""
        assert self._broker is not None
        return self._broker.process.pid

    def start_if_dead(self) -> bool:
        """Start it again if it was killed; whether it was."""
        assert self._broker is not None
        if self._broker.process.poll() is None:
            return False
        self.start()
        return True


class Driver:
    """The driver, of Spark or of `small_spark`, its JVM if it has one and its Python processes."""

    def __init__(self, folder: Path, config: dict[str, str], *, spark: bool) -> None:
        self.folder = folder
        self._config = {**config, "folder": str(folder)}
        self._module = "driver_process" if spark else "small_spark"
        self.steps = folder / "steps"
        self.steps.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self.jvm = 0
        self.tell_fed(0)

    def start(self) -> None:
        """Start it, and return once its session is there."""
        ready = self.folder / "driver.json"
        ready.unlink(missing_ok=True)
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with (self.folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"tests.spark.kills.{self._module}", json.dumps(self._config)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
                env={
                    **environment(),
                    "EVERLOG_SPARK_STEPS": str(self.steps),
                    "PYTHONPATH": path,
                },
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the driver did not start:\n{self.tail()}")
            time.sleep(0.05)
        self.jvm = int(json.loads(ready.read_text())["jvm"])

    def want(self, queries: Sequence[Mapping[str, str]]) -> None:
        """Have it run these and no others."""
        _replace(self.folder / "wanted", json.dumps(queries))

    def tell_fed(self, rows: int) -> None:
        """Tell one without Spark how many rows there are to be written."""
        _replace(self.folder / "fed", str(rows))

    @property
    def was_started(self) -> bool:
        """Whether there has been one."""
        return self._process is not None

    @property
    def pids(self) -> list[int]:
        """The driver: its JVM, and the Python program that has started it."""
        assert self._process is not None
        return sorted({self.jvm, self._process.pid})

    def is_dead(self) -> bool:
        """Whether it was killed, or not yet started."""
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """End it at once, and with it what it has started."""
        if self._process is None:
            return
        for pid in self.pids:
            _kill(pid)
        self._process.wait()

    def end(self) -> None:
        """Kill it, and wait for the Python processes of its JVM, which end when they notice."""
        self.kill()
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def workers(self, jvm: int | None = None) -> list[int]:
        """The Python processes that run tasks, plan and commit now, for the driver's JVM or another."""
        above = self.jvm if jvm is None else jvm
        children = _children()
        found: list[int] = []
        left = [above]
        while left:
            parent = left.pop()
            for child in children.get(parent, []):
                left.append(child)
                # What the JVM has started itself only makes others, but for the planner of a source.
                if not children.get(child) and not (parent == above and _makes_others(child)):
                    found.append(child)
        return found

    def tail(self) -> str:
        """The last that it has said."""
        return (self.folder / "driver.log").read_text(errors="replace")[-3000:]

    @property
    def failures(self) -> int:
        """How often its query has failed since it was started."""
        path = self.folder / "failure.json"
        return int(json.loads(path.read_text())["failures"]) if path.exists() else 0


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found.setdefault(int(fields[1]), []).append(int(entry.name))
    return found


def _makes_others(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True


def executors_in(folder: Path) -> list[int]:
    """The JVMs of executors whose working directories are below a folder."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and folder in (entry / "cwd").readlink().parents:
                command = (entry / "cmdline").read_bytes()
                found += [int(entry.name)] if b"CoarseGrainedExecutorBackend" in command else []
        except OSError:
            continue  # It has ended meanwhile, or is not ours.
    return sorted(found)


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True

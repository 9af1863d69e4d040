"""The two brokers as processes: start, stop, and read what they cost."""

import compileall
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests import apache_kafka

from bench.loader.admin import Link
from bench.machine import process_cpu_s, process_tree, status_mb

_ROOT = Path(__file__).resolve().parent.parent
_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 30.0
_DELETION_LIMIT_S = 30.0
ALIKE = {"log.segment.delete.delay.ms": "1000"}
"""The one setting that is not its default, on both: files of deleted topics go after a second rather than a
minute, as their dirty pages would be written to disk, and paid for, during the measurements that follow."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the brokers that can be compared."""

    name: str
    title: str
    version: Callable[[], str]
    launch: "Callable[[int, Path, Path], subprocess.Popen[bytes]]"
    """Port, data directory (not there yet), file for its output. What must be done once, such as formatting,
    is done before the process is started."""


class Broker:
    """One running broker; a context manager that ends the process and removes its data."""

    def __init__(self, kind: Kind, port: int, directory: Path, cpu: int | None = None) -> None:
        """Launch it. The port answers some time later: see `wait_listening`."""
        self.kind = kind
        self.port = port
        self._directory = directory
        self.output = directory.with_name(directory.name + ".log")
        # Everlog's time counts from before the fork; what Kafka needs to be formatted is done before its
        # fork, so its time begins when the process exists, a millisecond or two to its favour.
        began = time.perf_counter()
        self._process = kind.launch(port, directory, self.output)
        self.started_at = time.perf_counter() if kind is KAFKA else began
        if cpu is not None:
            os.sched_setaffinity(self._process.pid, {cpu})

    @property
    def pids(self) -> list[int]:
        """The process and its children, if it has any."""
        return process_tree(self._process.pid)

    def wait_listening(self) -> None:
        """Return as soon as the port takes a connection."""
        deadline = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                said = self.output.read_text()[-3000:]
                raise RuntimeError(f"{self.kind.title} ended with {self._process.returncode}:\n{said}")
            try:
                Link(self.port).close()
                return
            except ConnectionError:
                time.sleep(0.001)
        raise TimeoutError(f"{self.kind.title} does not listen after {_START_LIMIT_S} s; see {self.output}")

    def wait_deleted(self, topic: str) -> None:
        """Return when the files of a deleted topic are gone, which is work that belongs to no next sample.

        Kafka answers before it has renamed them, so it is any directory of the topic that is looked for.
        """
        deadline = time.monotonic() + _DELETION_LIMIT_S
        while any(self._directory.glob(f"{topic}-*")):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.kind.title} keeps files of {topic} after {_DELETION_LIMIT_S} s")
            time.sleep(0.05)

    def cpu_s(self) -> float:
        """CPU seconds used since the start, children included."""
        return sum(process_cpu_s(pid) for pid in self.pids)

    def rss_mb(self) -> float:
        """Resident memory now."""
        return sum(status_mb(pid, "VmRSS") for pid in self.pids)

    def peak_rss_mb(self) -> float:
        """The most resident memory there has been."""
        return sum(status_mb(pid, "VmHWM") for pid in self.pids)

    def __enter__(self) -> "Broker":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def compile_everlog() -> None:
    """Leave the program's bytecode on disk, as an installation from a wheel does."""
    compileall.compile_dir(_ROOT / "src" / "everlog", quiet=1)


def _launch_everlog(port: int, directory: Path, output: Path) -> "subprocess.Popen[bytes]":
    program = Path(sys.executable).with_name("everlog")
    command = [str(program)] if program.exists() else [sys.executable, "-m", "everlog.cli"]
    overrides = [word for key, value in ALIKE.items() for word in ("--override", f"{key}={value}")]
    with output.open("wb") as log:
        return subprocess.Popen(
            [*command, "up", "--dir", str(directory), "--port", str(port), *overrides],
            env=os.environ | {"PYTHONPATH": str(_ROOT / "src")},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _launch_kafka(port: int, directory: Path, output: Path) -> "subprocess.Popen[bytes]":
    return apache_kafka.start_broker(port, directory, ALIKE, output)


def _everlog_version() -> str:
    try:
        number = version("everlog")
    except PackageNotFoundError:
        number = "not installed"
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return f"{number} ({commit})" if commit else number


def _kafka_version() -> str:
    said = subprocess.run(
        ["java", "-version"], capture_output=True, text=True, check=False
    ).stderr.splitlines()
    java = next((line for line in said if "build" in line), "Java unknown")
    return f"{apache_kafka.VERSION} on {java}"


EVERLOG = Kind("everlog", "Everlog", _everlog_version, _launch_everlog)
KAFKA = Kind("kafka", "Apache Kafka", _kafka_version, _launch_kafka)
KINDS = {kind.name: kind for kind in (EVERLOG, KAFKA)}

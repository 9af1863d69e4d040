"""The brokers that are tormented: those that we start, or those that somebody names by commands."""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Protocol

from everlog.chaos.disks import SmallDisk
from everlog.chaos.faults import CannotBreak
from everlog.embedded.brokers import BrokerFailed, ProcessBroker
from everlog.embedded.cluster import Cluster

_COMMAND_S = 120.0
_GONE_S = 60.0


class Target(Protocol):
    """Brokers as processes of this machine."""

    @property
    def bootstrap(self) -> str:
        """Where clients find the cluster."""
        ...

    @property
    def nodes(self) -> Sequence[int]:
        """The brokers' ids."""
        ...

    def pid(self, node: int) -> int | None:
        """The broker's process, or None while there is none."""
        ...

    def start(self, node: int, environment: Mapping[str, str]) -> None:
        """Start a broker that is down, with more in its environment, and wait until it serves."""
        ...

    def stop(self, node: int) -> None:
        """End a broker cleanly, and wait until it is gone."""
        ...

    def kill(self, node: int) -> None:
        """End a broker with SIGKILL, and wait until it is gone."""
        ...

    def ballast(self, node: int) -> Path | None:
        """A file with which the broker's disk may be filled; None where the disk is not ours to fill."""
        ...


class OwnCluster:
    """Brokers that are started for this; with `disk_bytes` each has a small disk in memory, if it can."""

    def __init__(
        self, brokers: int, directory: Path, settings: Mapping[str, object], disk_bytes: int | None = None
    ) -> None:
        self._cluster = Cluster(brokers, processes=True, directory=directory / "brokers", settings=settings)
        self._count = brokers
        self._directory = directory
        self._disk_bytes = disk_bytes
        self._disks: dict[int, SmallDisk] = {}

    def open(self) -> None:
        """Start them all."""
        home = self._directory / "brokers"
        home.mkdir(parents=True, exist_ok=True)
        if self._disk_bytes is not None:
            from everlog.embedded.layout import home_of

            for node in range(1, self._count + 1):
                try:
                    place = home if self._count == 1 else home_of(home, node)
                    disk = SmallDisk(place, self._directory / f"disk-{node}", self._disk_bytes)
                except CannotBreak:
                    break  # Told when a disk is to be filled.
                self._disks[node] = disk
        self._cluster.start()

    def close(self) -> None:
        """End them all; what was temporary is removed."""
        for node in self.nodes:
            pid = self.pid(node)
            if pid is not None:
                os.kill(pid, signal.SIGCONT)
        try:
            self._cluster.stop()
        finally:
            for disk in self._disks.values():
                disk.close()

    def ballast(self, node: int) -> Path | None:
        """On its small disk, if it has one."""
        disk = self._disks.get(node)
        return None if disk is None else disk.ballast

    @property
    def bootstrap(self) -> str:
        """Where clients find them."""
        return self._cluster.bootstrap_servers

    @property
    def nodes(self) -> Sequence[int]:
        """Their ids."""
        return [broker.node_id for broker in self._cluster.brokers]

    def pid(self, node: int) -> int | None:
        """A broker's process."""
        return self._broker(node).pid

    def start(self, node: int, environment: Mapping[str, str]) -> None:
        """Start one again."""
        with _environment(environment):
            self._broker(node).start()

    def stop(self, node: int) -> None:
        """End one cleanly."""
        self._broker(node).stop()

    def kill(self, node: int) -> None:
        """End one at once."""
        self._broker(node).kill()

    def _broker(self, node: int) -> ProcessBroker:
        for broker in self._cluster.brokers:
            if broker.node_id == node and isinstance(broker, ProcessBroker):
                return broker
        raise BrokerFailed(f"broker {node} is not one of ours, which are {list(self.nodes)}")


class GivenCluster:
    """Brokers that are there already. Commands tell their processes and start them, with `{id}` in them."""

    def __init__(self, bootstrap: str, nodes: Sequence[int], pid_command: str, start_command: str) -> None:
        self.bootstrap = bootstrap
        self.nodes = nodes
        self._pid_command = pid_command
        self._start_command = start_command

    def pid(self, node: int) -> int | None:
        """What the command prints, if there is such a process."""
        said = self._run(self._pid_command, node, check=False).strip()
        if not said or said == "0":
            return None
        if not said.isdecimal():
            raise BrokerFailed(
                f"the pid of broker {node} is {said!r}, expected a number from {self._pid_command!r}"
            )
        return int(said) if _is_there(int(said)) else None

    def start(self, node: int, environment: Mapping[str, str]) -> None:
        """Start one again by the command, which gets the environment too."""
        with _environment(environment):
            self._run(self._start_command, node)

    def ballast(self, node: int) -> Path | None:
        """None: these disks are somebody's."""
        return None

    def stop(self, node: int) -> None:
        """SIGTERM."""
        self._end(node, signal.SIGTERM)

    def kill(self, node: int) -> None:
        """SIGKILL."""
        self._end(node, signal.SIGKILL)

    def _end(self, node: int, number: signal.Signals) -> None:
        pid = self.pid(node)
        if pid is None:
            return
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, number)
        deadline = time.monotonic() + _GONE_S
        while _is_there(pid):
            if time.monotonic() >= deadline:
                raise BrokerFailed(
                    f"process {pid} of broker {node} is still there {_GONE_S:g} s after {number.name}"
                )
            time.sleep(0.01)

    def _run(self, command: str, node: int, *, check: bool = True) -> str:
        words = [word.replace("{id}", str(node)) for word in shlex.split(command)]
        # Files and no pipes: a broker that the command leaves behind would hold those open while it runs.
        with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=_COMMAND_S, check=False
            )
            out.seek(0)
            err.seek(0)
            told, said = out.read(), err.read()
        if check and done.returncode != 0:
            words_said = (said or told).strip()[-500:]
            raise BrokerFailed(f"{shlex.join(words)} ended with {done.returncode}, expected 0: {words_said}")
        return told


@contextmanager
def _environment(more: Mapping[str, str]) -> Generator[None]:
    """Have more in the environment that children inherit."""
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

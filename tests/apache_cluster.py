"""Apache Kafka as a cluster of combined KRaft nodes on this machine, to check ourselves against."""

import shutil
import signal
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests import apache_kafka, brokers

SETTINGS = {
    # Small clusters that form at once; what is tested here is not the length of the waits.
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
}


class ApacheCluster:
    """Brokers 1 to n, each a broker and a voter of the quorum; a context manager that ends them."""

    def __init__(
        self,
        directory: Path,
        racks: Sequence[str | None] = (None, None, None),
        overrides: Mapping[str, str] = SETTINGS,
        heap: str = "384M",
        disks: int = 1,
        flags: Sequence[str] | None = None,
    ) -> None:
        """`flags` are Java's; without them a JVM that starts quickly and needs little."""
        self._directory = directory
        self._racks = dict(enumerate(racks, start=1))
        self._overrides = dict(overrides)
        self._flags = flags or [f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._disks = disks
        self._ports = {node: brokers.free_port() for node in self._racks}
        self._voter_directories = {node: _an_id() for node in self._racks}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """Where clients find the cluster."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def port(self, node: int) -> int:
        """Where clients find a broker."""
        return self._ports[node]

    def directories(self, node: int) -> list[Path]:
        """Where a broker keeps its logs."""
        return [self._directory / f"broker-{node}-{disk}" for disk in range(self._disks)]

    def start(self) -> None:
        """Format and start all brokers, and return once all of them serve."""
        self._format()
        for node in self._racks:
            self.launch(node)
        for node in self._racks:
            self.wait(node)

    def launch(self, node: int) -> None:
        """Start one broker; `wait` returns once it serves."""
        jars = _jars()
        output = self._output(node)
        with output.open("wb") as log:
            self.processes[node] = subprocess.Popen(
                [
                    "java",
                    *self._flags,
                    apache_kafka.logging_flag(),
                    "-cp",
                    jars,
                    "kafka.Kafka",
                    str(self._properties(node)),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait(self, node: int, timeout_s: float = 120.0) -> None:
        """Return once a broker says that it serves."""
        apache_kafka.wait_ready(self.processes[node], self._directory / f"broker-{node}", timeout_s)

    def revive(self, node: int) -> None:
        """Start a broker that has ended, and return once it serves."""
        self.launch(node)
        self.wait(node)

    def kill(self, node: int) -> None:
        """End a broker as `kill -9` does."""
        self.processes[node].kill()
        self.processes[node].wait()

    def address(self, node: int) -> str:
        """Where one broker listens."""
        return f"127.0.0.1:{self._ports[node]}"

    def pause(self, node: int) -> None:
        """Freeze a broker: its connections stay open and nothing is answered."""
        self.processes[node].send_signal(signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Let a broker go on after `pause`."""
        self.processes[node].send_signal(signal.SIGCONT)

    def stop(self, node: int) -> None:
        """End a broker cleanly."""
        process = self.processes[node]
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(60)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()

    def _format(self) -> None:
        """Format the first node's directories; those of the others differ in two lines only."""
        first, *others = self._racks
        voters = ",".join(
            f"{node}@127.0.0.1:{port + 1}:{self._voter_directories[node]}"
            for node, port in self._ports.items()
        )
        for node in self._racks:
            self._properties(node).write_text(self._settings(node))
        arguments = ["-t", _an_id(), "-c", str(self._properties(first)), "--initial-controllers", voters]
        done = apache_kafka.run_tool("kafka.tools.StorageTool", "format", *arguments)
        if done.returncode != 0:
            raise RuntimeError(f"formatting failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        for node in others:
            for disk, (origin, copy) in enumerate(
                zip(self.directories(first), self.directories(node), strict=True)
            ):
                shutil.copytree(origin, copy)
                written = copy / "meta.properties"
                lines = dict(
                    line.split("=", 1)
                    for line in written.read_text().splitlines()
                    if not line.startswith("#")
                )
                lines["node.id"] = str(node)
                lines["directory.id"] = _an_id() if disk else self._voter_directories[node]
                written.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def _settings(self, node: int) -> str:
        port, rack = self._ports[node], self._racks[node]
        listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.bootstrap.servers": ",".join(
                f"127.0.0.1:{each + 1}" for each in self._ports.values()
            ),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": ",".join(map(str, self.directories(node))),
            **({} if rack is None else {"broker.rack": rack}),
            **self._overrides,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _properties(self, node: int) -> Path:
        return self._directory / f"broker-{node}.properties"

    def _output(self, node: int) -> Path:
        return self._directory / f"broker-{node}.out"


def _jars() -> str:
    jars = apache_kafka.classpath()
    if isinstance(jars, apache_kafka.Unavailable):
        raise RuntimeError(jars.reason)
    return jars


def _an_id() -> str:
    """A new id as Kafka writes it; its tools would take one that begins with a dash for an option."""
    while (made := urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return made

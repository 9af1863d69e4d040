"""Three combined nodes, each on a machine of its own, and a network between them that can be cut one way."""

import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from everlog.embedded.layout import properties_text, replication_defaults
from everlog.model.ids import Uuid, uuid_text

from .netns import Network

PORT, CONTROLLER_PORT = 9092, 9093
START_SECONDS = 60

FAST = {
    # What is silent is given up soon, so that a test need not wait long for it.
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "3000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


class Machine:
    """A machine with a node on it."""

    def __init__(self, network: Network, name: str, settings: Mapping[str, str], directory: Path) -> None:
        self._network = network
        self._name = name
        self._config = directory / "server.properties"
        directory.mkdir()
        self._config.write_text(properties_text({**settings, "log.dirs": str(directory / "data")}))
        self._process: subprocess.Popen[str] | None = None
        self._said: list[str] = []
        self._ready = threading.Event()

    def launch(self) -> None:
        """Start the node; `wait` returns once it serves."""
        assert self._process is None
        command = [sys.executable, "-m", "everlog.cli.main", "server", "--config", str(self._config)]
        self._ready.clear()
        self._process = subprocess.Popen(
            self._network.command(self._name, command),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def wait(self) -> None:
        """Wait until it serves."""
        assert self._ready.wait(START_SECONDS), f"{self._name} does not start: {''.join(self._said[-20:])}"
        assert self._process is not None
        assert self._process.poll() is None, f"{self._name} has ended: {''.join(self._said[-20:])}"

    def kill(self) -> None:
        """End the node at once."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.wait()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self._said.append(line)
                if "ready" in line:
                    self._ready.set()
        self._ready.set()


class Machines:
    """Nodes 1, 2 and 3 on machines of these numbers; a context manager that takes everything away."""

    def __init__(self, directory: Path, overrides: Mapping[str, str] = FAST) -> None:
        self.nodes = (1, 2, 3)
        self.network = Network([str(node) for node in self.nodes])
        cluster_id = uuid_text(Uuid(uuid.uuid4().bytes))
        voters = ",".join(f"{node}@{self.address(node)}:{CONTROLLER_PORT}" for node in self.nodes)
        self._machines = {
            node: Machine(
                self.network,
                str(node),
                {
                    "node.id": str(node),
                    "process.roles": "broker,controller",
                    "cluster.id": cluster_id,
                    "listeners": f"PLAINTEXT://{self.address(node)}:{PORT},"
                    f"CONTROLLER://{self.address(node)}:{CONTROLLER_PORT}",
                    "allow.insecure.listener": "true",
                    "controller.listener.names": "CONTROLLER",
                    "controller.quorum.voters": voters,
                    **replication_defaults(len(self.nodes)),
                    **overrides,
                },
                directory / f"machine-{node}",
            )
            for node in self.nodes
        }

    def __enter__(self) -> Self:
        try:
            for machine in self._machines.values():
                machine.launch()
            for machine in self._machines.values():
                machine.wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the nodes and take their machines away."""
        for machine in self._machines.values():
            machine.kill()
        self.network.close()

    def address(self, node: int) -> str:
        """The address of a machine."""
        return self.network.address(str(node))

    @property
    def bootstrap(self) -> str:
        """Where clients find the cluster."""
        return ",".join(f"{self.address(node)}:{PORT}" for node in self.nodes)

    def others(self, node: int) -> list[int]:
        """All nodes but one."""
        return [one for one in self.nodes if one != node]

    def deafen(self, node: int) -> None:
        """Let a node hear nothing from the others; what it says reaches them."""
        for other in self.others(node):
            self.network.cut(str(other), str(node))

    def silence(self, node: int) -> None:
        """Let the others hear nothing from a node; what they say reaches it."""
        for other in self.others(node):
            self.network.cut(str(node), str(other))

    def isolate(self, node: int) -> None:
        """Let nothing pass between a node and the others."""
        self.deafen(node)
        self.silence(node)

    def heal(self) -> None:
        """Let everything pass again."""
        self.network.heal()

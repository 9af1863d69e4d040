"""The layout of a local cluster: ids, ports, roles and directories of its brokers, kept in `cluster.json`."""

import json
import random
import socket
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from everlog.model.errors import ConfigError
from everlog.model.ids import Uuid, uuid_from_text, uuid_text

FILE_NAME = "cluster.json"

CONTROLLER_LISTENER = "CONTROLLER"
_LOOPBACK = "127.0.0.1"
_LAST_PORT = 65_535
# Below those that systems give to clients: a broker that was killed and starts again finds its own free.
_FREE_PORTS = (12_000, 32_000)
_MOST_TRIES = 1_000

# What the layout decides; an override would tear the cluster apart.
_OURS = frozenset(
    {
        "node.id",
        "process.roles",
        "cluster.id",
        "listeners",
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
    }
)


@dataclass(frozen=True, slots=True)
class PlannedBroker:
    """One broker of a layout."""

    node_id: int
    port: int
    """For clients and other brokers."""
    controller_port: int | None
    """For the quorum; None for a broker that does not vote."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A cluster of two or more brokers on this machine."""

    cluster_id: str
    brokers: tuple[PlannedBroker, ...]

    @classmethod
    def planned(cls, directory: Path, brokers: int, port: int = 0) -> Self:
        """The layout for a directory: as it was there before, with more brokers if more are wanted now.

        Clients' ports are `port` and those behind it; 0 takes any that are free, the same ones as before if
        they are. ConfigError where the directory holds a cluster with more brokers, or a single broker.
        """
        known = cls.found(directory)
        if known is None and (directory / "meta.properties").exists():
            raise ConfigError(f"{directory} holds the data of a single broker, expected none or a cluster's")
        if known is not None and len(known.brokers) > brokers:
            raise ConfigError(
                f"{directory} holds a cluster of {len(known.brokers)} brokers, expected not more than "
                f"{brokers}: take brokers out of the running cluster with `everlog cluster decommission`"
            )
        if port and port + brokers - 1 > _LAST_PORT:
            raise ConfigError(f"{brokers} brokers from port {port} on end above port {_LAST_PORT}")
        before = {} if known is None else {broker.node_id: broker for broker in known.brokers}
        # Who votes was settled when the cluster was made: a majority must not change with its size.
        voters = (
            controllers(brokers)
            if known is None
            else sum(one.controller_port is not None for one in known.brokers)
        )
        taken = set(range(port, port + brokers)) if port else set[int]()
        planned: list[PlannedBroker] = []
        for node_id in range(1, brokers + 1):
            old = before.get(node_id)
            serves = port + node_id - 1 if port else _port(None if old is None else old.port, taken)
            votes = _port(None if old is None else old.controller_port, taken) if node_id <= voters else None
            planned.append(PlannedBroker(node_id, serves, votes))
        return cls(_new_id() if known is None else known.cluster_id, tuple(planned))

    @classmethod
    def found(cls, directory: Path) -> "Layout | None":
        """The layout that is kept in a directory; None if there is none, ConfigError if it is damaged."""
        path = directory / FILE_NAME
        try:
            kept: Any = json.loads(path.read_text("utf-8"))
            brokers = tuple(
                PlannedBroker(one["node_id"], one["port"], one["controller_port"]) for one in kept["brokers"]
            )
            uuid_from_text(kept["cluster_id"])
            _check_brokers(brokers)
            return cls(kept["cluster_id"], brokers)
        except FileNotFoundError:
            return None
        except (ConfigError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(f"{path} cannot be read as the layout of a cluster: {error!r}") from None

    def keep(self, directory: Path) -> None:
        """Write it down, so that the next start in this directory finds the same cluster."""
        kept = {
            "cluster_id": self.cluster_id,
            "brokers": [
                {"node_id": one.node_id, "port": one.port, "controller_port": one.controller_port}
                for one in self.brokers
            ],
        }
        fresh = directory / f"{FILE_NAME}.new"
        fresh.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
        fresh.replace(directory / FILE_NAME)

    @property
    def majority(self) -> int:
        """How many voters it takes to decide."""
        return sum(broker.controller_port is not None for broker in self.brokers) // 2 + 1

    def settings(
        self, broker: PlannedBroker, directory: Path, host: str, overrides: Mapping[str, str]
    ) -> dict[str, str]:
        """All that one broker is told; ConfigError for an override of what the layout decides."""
        for key in overrides:
            if key in _OURS:
                raise ConfigError(f"{key} cannot be overridden in a local cluster: each broker has its own")
        address = bracketed(host, broker.port)
        voters = [one for one in self.brokers if one.controller_port is not None]
        listeners = [f"PLAINTEXT://{address}"]
        if broker.controller_port is not None:
            listeners.append(f"{CONTROLLER_LISTENER}://{_LOOPBACK}:{broker.controller_port}")
        return {
            "node.id": str(broker.node_id),
            "process.roles": "broker" if broker.controller_port is None else "broker,controller",
            "cluster.id": self.cluster_id,
            "listeners": ",".join(listeners),
            "advertised.listeners": f"PLAINTEXT://{address}",
            "controller.listener.names": CONTROLLER_LISTENER,
            "controller.quorum.voters": ",".join(
                f"{one.node_id}@{_LOOPBACK}:{one.controller_port}" for one in voters
            ),
            "log.dirs": str(home_of(directory, broker.node_id)),
            **replication_defaults(len(self.brokers)),
            **overrides,
        }


def _check_brokers(brokers: tuple[PlannedBroker, ...]) -> None:
    """Raise ValueError for brokers that no start has planned: a file may have been changed by hand."""
    ids = [one.node_id for one in brokers]
    if ids != [*range(1, len(brokers) + 1)] or any(type(one) is not int for one in ids):
        raise ValueError(f"brokers {ids}, expected 1, 2 and so on")
    votes = [one.controller_port is not None for one in brokers]
    if not any(votes) or votes != sorted(votes, reverse=True):
        raise ValueError(f"votes {votes}, expected the first brokers to have one, and one at least")
    ports: list[Any] = [one.port for one in brokers]
    ports += [one.controller_port for one in brokers if one.controller_port is not None]
    exist = all(type(port) is int and 0 < port <= _LAST_PORT for port in ports)
    if not exist or len(set(ports)) < len(ports):
        raise ValueError(f"ports {ports}, expected different ones from 1 to {_LAST_PORT}")


def home_of(directory: Path, node_id: int) -> Path:
    """Where one broker of a cluster keeps its data."""
    return directory.absolute() / f"broker-{node_id}"


def controllers(brokers: int) -> int:
    """How many of so many brokers vote: an odd number, and two only if nobody else could."""
    return 1 if brokers < 3 else 3 if brokers < 5 else 5


def replication_defaults(brokers: int) -> dict[str, str]:
    """Settings under which what is acknowledged outlives one broker, and one may be away, if there are three.

    Two brokers hold two copies and go on with one; a single broker is left as it is.
    """
    if brokers < 2:
        return {}
    copies, in_sync = str(min(3, brokers)), "2" if brokers >= 3 else "1"
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
    }


def properties_text(settings: Mapping[str, str]) -> str:
    """Settings as a file for `everlog server --config`."""
    return "".join(f"{key}={value}\n" for key, value in _escaped(settings.items()))


def bracketed(host: str, port: int) -> str:
    """An address as listeners and clients write it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _escaped(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    for key, value in pairs:
        yield key, value.replace("\\", "\\\\").replace("\n", "\\n")


def _new_id() -> str:
    return uuid_text(Uuid(uuid.uuid4().bytes))


def _port(wanted: int | None, taken: set[int]) -> int:
    """A free port, the wanted one if it is; it counts as taken from here on."""
    chance = random.SystemRandom()
    for turn in range(_MOST_TRIES):
        port = wanted if turn == 0 and wanted is not None else chance.randrange(*_FREE_PORTS)
        if port not in taken and _is_free(port):
            taken.add(port)
            return port
    raise ConfigError(f"no free port was found between {_FREE_PORTS[0]} and {_FREE_PORTS[1]}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As a broker will: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_LOOPBACK, port))
        except OSError:
            return False
    return True

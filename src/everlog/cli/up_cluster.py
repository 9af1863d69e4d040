"""`everlog up --brokers N`: brokers as child processes of one command, with one output and one end."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import click

from everlog.embedded.brokers import ProcessBroker
from everlog.embedded.cluster import start_all, stop_all
from everlog.embedded.layout import Layout, properties_text

if TYPE_CHECKING:
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class _Stop:
    """Somebody wants the cluster to end."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """A broker's output has ended, and with it the broker."""

    broker: int


class _Interrupted(Exception):
    """Told to stop while the brokers were still starting."""


def run_cluster(
    directory: Path,
    brokers: int,
    host: str,
    port: int,
    overrides: Mapping[str, str],
    on_ready: Callable[[str], None],
) -> int:
    """Run brokers until SIGTERM, SIGINT or their own ends; `on_ready` gets all addresses when all serve.

    The exit code is 0 if all of them ended because they were asked to. A broker that ends by itself is
    reported and not started again: the others go on without it, as a cluster does.
    """
    layout = Layout.planned(directory, brokers, port)
    told = [layout.settings(one, directory, host, overrides) for one in layout.brokers]
    directory.mkdir(parents=True, exist_ok=True)
    layout.keep(directory)
    for settings in told:
        _config(directory, int(settings["node.id"])).write_text(properties_text(settings), "utf-8")
    return _Supervisor(directory, told, layout.majority).run(on_ready)


def _config(directory: Path, node_id: int) -> Path:
    """Where one broker's settings are written, for `everlog server --config`."""
    return directory / f"broker-{node_id}.properties"


class _Supervisor:
    def __init__(self, directory: Path, told: list[dict[str, str]], majority: int) -> None:
        self._directory = directory
        self._majority = majority
        self._events: SimpleQueue[_Stop | _Ended] = SimpleQueue()
        self._starting = True
        self._brokers = [ProcessBroker(settings, self._hear(int(settings["node.id"]))) for settings in told]

    def run(self, on_ready: Callable[[str], None]) -> int:
        before = {number: signal.signal(number, self._interrupt) for number in _SIGNALS}
        try:
            start_all(self._brokers)
            self._starting = False
            on_ready(",".join(broker.bootstrap for broker in self._brokers))
            return self._watch()
        except _Interrupted:
            return 0
        finally:
            # A second Ctrl-C while they stop changes nothing: each has its own limit.
            self._starting = False
            stop_all(self._brokers, self._majority)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _interrupt(self, _number: int, _frame: "FrameType | None") -> None:
        if self._starting:
            self._starting = False
            raise _Interrupted
        self._events.put(_Stop())  # SimpleQueue takes it from a signal's handler

    def _hear(self, node_id: int) -> Callable[[str], None]:
        def heard(line: str) -> None:
            if line:
                _say(f"[broker-{node_id}] {line.rstrip()}")
            else:
                self._events.put(_Ended(node_id))

        return heard

    def _watch(self) -> int:
        running = {broker.node_id for broker in self._brokers}
        failed = False
        while running:
            match self._events.get():
                case _Stop():
                    return 1 if failed else 0
                case _Ended(node_id):
                    failed = True
                    running.discard(node_id)
                    _say(
                        f"[broker-{node_id}] it has {self._how(node_id)}; to start it again: "
                        f"everlog server --config {_config(self._directory, node_id)}"
                    )
        _say("no broker is left")
        return 1

    def _how(self, node_id: int) -> str:
        code = next(broker.exit_code() for broker in self._brokers if broker.node_id == node_id)
        if code < 0:
            return f"been ended by {signal.Signals(-code).name}"
        return f"ended by itself with exit code {code}"


def _say(line: str) -> None:
    click.echo(line, err=True)

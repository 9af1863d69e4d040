"""Machines in namespaces reach each other, and a cut keeps one direction back and not the other."""

import os
import socket
import subprocess
import sys
from collections.abc import Generator

import pytest

from . import netns

pytestmark = pytest.mark.e2e

_LISTEN = """
import socket, sys
listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listener.bind(("0.0.0.0", 9000))
print("ready", flush=True)
while True:
    word, _ = listener.recvfrom(100)
    print(word.decode(), flush=True)
"""

_SAY = """
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(sys.argv[2].encode(), (sys.argv[1], 9000))
"""


class Listener:
    """Says what reaches a machine."""

    def __init__(self, network: netns.Network, name: str) -> None:
        self._process = subprocess.Popen(
            network.command(name, [sys.executable, "-c", _LISTEN]), stdout=subprocess.PIPE, text=True
        )
        assert self.next() == "ready"

    def next(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=20)


@pytest.fixture(scope="module")
def network() -> Generator[netns.Network]:
    if (reason := netns.why_not()) is not None:
        pytest.skip(f"no network namespaces: {reason}")
    with netns.Network(["one", "two", "three"]) as made:
        yield made


@pytest.fixture
def listeners(network: netns.Network) -> Generator[dict[str, Listener]]:
    made = {name: Listener(network, name) for name in ("one", "two")}
    yield made
    for listener in made.values():
        listener.close()
    network.heal()


def say(network: netns.Network, origin: str, target: str, word: str) -> None:
    command = [sys.executable, "-c", _SAY, network.address(target), word]
    subprocess.run(network.command(origin, command), check=True, timeout=20)


def test_a_cut_has_one_direction_and_is_silent(
    network: netns.Network, listeners: dict[str, Listener]
) -> None:
    network.cut("one", "two")
    say(network, "one", "two", "lost")
    say(network, "two", "one", "heard")
    say(network, "three", "two", "heard as well")
    assert listeners["one"].next() == "heard"
    assert listeners["two"].next() == "heard as well"
    network.mend("one", "two")
    say(network, "one", "two", "again")
    assert listeners["two"].next() == "again", "what was sent into a cut is lost for good"


def test_machines_are_reached_from_outside_whatever_is_cut(
    network: netns.Network, listeners: dict[str, Listener]
) -> None:
    network.part(["one"], ["two", "three"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outside:
        outside.sendto(b"from outside", (network.address("one"), 9000))
    assert listeners["one"].next() == "from outside"


def test_nothing_is_left_behind() -> None:
    if (reason := netns.why_not()) is not None:
        pytest.skip(f"no network namespaces: {reason}")

    def ours() -> list[str]:
        """The namespaces and bridges of this process."""
        lists = (("netns", "list"), ("-o", "link", "show", "type", "bridge"))
        shown = [
            subprocess.run(["ip", *one], capture_output=True, text=True, check=True).stdout for one in lists
        ]
        return [line for one in shown for line in one.splitlines() if f"{os.getpid()}x" in line]

    before = ours()
    made = netns.Network(["one"])
    inside = ours()
    made.close()
    made.close()
    assert len(inside) == len(before) + 2
    assert ours() == before

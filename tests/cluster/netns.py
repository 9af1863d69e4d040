"""Machines that share nothing but a wire: a network namespace each, on one bridge, with one-way cuts.

A cut is silent, as a broken switch is: what one machine sends to another is addressed to nobody, and nobody
refuses it. The other direction is not touched. It needs root and `ip`, and no firewall; `why_not` says what
is missing.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

_PREFIX = "evl"
_NOBODY = "02:00:00:00:ff:ff"
"""A hardware address that no machine has."""

_SECONDS = 20


class Unavailable(Exception):
    """This machine cannot have such networks; the message says why."""


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise Unavailable(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


@cache
def why_not() -> str | None:
    """Say what keeps this machine from having such networks; None if nothing does."""
    if shutil.which("ip") is None:
        return "there is no `ip` command (iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with Network(["a", "b"]) as network:
            network.cut("a", "b")
    except Unavailable as error:
        return str(error)
    return None


class Network:
    """One machine for each name. The program that makes it reaches them all, and they reach it at `outside`.

    Only `cut` keeps anybody from anybody. `close` takes everything away; processes there must have ended.
    """

    def __init__(self, names: Sequence[str]) -> None:
        _sweep()
        self._id = _free_id()
        self._tag = f"{_PREFIX}{os.getpid()}x{self._id}"
        self._bridge = f"{_PREFIX}b{os.getpid() % 1_000_000}x{self._id}"
        self._number = {name: number for number, name in enumerate(names, start=1)}
        assert 1 <= len(self._number) == len(names) < 250, names
        self.outside = f"198.18.{self._id}.254"
        """The address of the program that has made the network."""
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def address(self, name: str) -> str:
        """The address of a machine."""
        return f"198.18.{self._id}.{self._number[name]}"

    def command(self, name: str, command: Sequence[str]) -> list[str]:
        """The command that runs another one on a machine. It becomes that one: a signal reaches it."""
        return ["ip", "netns", "exec", self._namespace(name), *command]

    def cut(self, origin: str, target: str) -> None:
        """Let nothing from one machine reach another; cutting twice is harmless."""
        self._point(origin, target, _NOBODY)

    def mend(self, origin: str, target: str) -> None:
        """Take a cut back."""
        self._point(origin, target, self._hardware(target))

    def part(self, one: Sequence[str], others: Sequence[str]) -> None:
        """Cut every machine of `one` off from every other of `others`, in both directions."""
        for here in one:
            for there in others:
                self.cut(here, there)
                self.cut(there, here)

    def heal(self) -> None:
        """Take every cut back."""
        for origin in self._number:
            for target in self._number:
                if origin != target:
                    self.mend(origin, target)

    def close(self) -> None:
        """Take all machines and wires away; closing twice is harmless."""
        for name in self._number:
            # A namespace that is deleted lets its end of a wire go some time later; the wire goes at once.
            _quietly("link", "del", self._wire(name))
            _quietly("netns", "del", self._namespace(name))
        _quietly("link", "del", self._bridge)

    # Steps.

    def _namespace(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def _wire(self, name: str) -> str:
        return f"{self._bridge}.{self._number[name]}"[-15:]

    def _hardware(self, name: str) -> str:
        return f"02:00:00:00:{self._id:02x}:{self._number[name]:02x}"

    def _make(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self.outside}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for name in self._number:
            namespace = self._namespace(name)
            here = self._wire(name)
            _ip("netns", "add", namespace)
            _ip("link", "add", here, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            _ip("link", "set", here, "master", self._bridge, "up")
            _ip("-n", namespace, "link", "set", "lo", "up")
            _ip("-n", namespace, "link", "set", "eth0", "address", self._hardware(name), "up")
            _ip("-n", namespace, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        # Nobody asks who has an address: that would be an answer that a cut has to keep back too.
        self.heal()

    def _point(self, origin: str, target: str, hardware: str) -> None:
        assert origin != target, origin
        _ip(
            *("-n", self._namespace(origin), "neigh", "replace", self.address(target)),
            *("lladdr", hardware, "dev", "eth0", "nud", "permanent"),
        )


def _quietly(*arguments: str) -> None:
    try:
        _ip(*arguments)
    except Unavailable:
        pass  # It was not there.


def _free_id() -> int:
    """A number for a network that no other has on this machine."""
    taken = _ip("-o", "-4", "addr", "show")
    for number in range(256):
        candidate = (os.getpid() + number) % 256
        if f"198.18.{candidate}." not in taken:
            return candidate
    raise Unavailable("all networks from 198.18.0.0 to 198.18.255.0 are in use")


def _sweep() -> None:
    """Take away what programs have left that were killed."""
    for line in _ip("netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        if name.startswith(_PREFIX):
            owner = name[len(_PREFIX) :].partition("x")[0]
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                _quietly("netns", "del", name)
    for line in _ip("-o", "link", "show", "type", "bridge").splitlines():
        name = line.split(": ")[1]
        owner = name.removeprefix(f"{_PREFIX}b").partition("x")[0]
        if name.startswith(f"{_PREFIX}b") and owner.isdigit() and not Path(f"/proc/{owner}").exists():
            _quietly("link", "del", name)

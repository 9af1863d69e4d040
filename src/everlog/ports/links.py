"""Connections to other nodes, as a core may ask for them."""

from collections.abc import Sequence
from typing import Protocol

from everlog.ports.files import Buffer


class LinkOwner(Protocol):
    """Whoever has asked for a connection, and hears what becomes of it."""

    def opened(self) -> None:
        """The far end has taken the connection."""
        ...

    def received(self, frame: memoryview) -> None:
        """A whole frame has come, given without its size field; it is valid during this call only."""
        ...

    def lost(self, reason: str, *, refused: bool) -> None:
        """The connection is over, or never came to be; `refused` where nobody listens there. Said once."""
        ...


class Link(Protocol):
    """One connection that this node has opened."""

    def send(self, frame: Sequence[Buffer]) -> None:
        """Send one frame, its size field included, in pieces; before `opened` it is kept until then."""
        ...

    def close(self) -> None:
        """End it; its owner hears nothing more."""
        ...


class Links(Protocol):
    """Opens connections."""

    def connect(self, host: str, port: int, owner: LinkOwner) -> Link:
        """Begin to connect; the owner hears of it later, never before this has returned."""
        ...


class _NoLinks:
    """For a node that is a cluster of its own."""

    def connect(self, host: str, port: int, owner: LinkOwner) -> Link:
        raise AssertionError(f"a node without links connects to {host}:{port}")


NO_LINKS: Links = _NoLinks()
"""Reaches nobody, and is not asked to."""

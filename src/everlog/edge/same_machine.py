"""TCP between two processes of one machine, as the kernel should treat it."""

import socket
from typing import Final, Protocol, cast

_TCP_CONGESTION: Final = getattr(socket, "TCP_CONGESTION", None)
"""Linux and FreeBSD have it."""

_UNPACED: Final = b"reno"
"""Every Linux has it built in and lets every user choose it."""

_LOOPBACK: Final = "127."


class TcpSocket(Protocol):
    """What is asked of a socket, a loop's stand-in for one included."""

    @property
    def family(self) -> int:
        """The kind of its addresses."""
        ...

    def getsockname(self) -> object:
        """Our address."""
        ...

    def getpeername(self) -> object:
        """The peer's."""
        ...

    def setsockopt(self, level: int, option: int, value: bytes, /) -> None:
        """Set an option of the kernel's."""
        ...


def send_unpaced(connection: TcpSocket) -> None:
    """Have the kernel hand bytes over at once if the peer is on this machine.

    A congestion control such as BBR measures the bandwidth of the path and then sends at that pace, by
    timers. Between processes of one machine there is no path: what it measures is how soon the peer happened
    to read. A peer that was slow once gets its bytes in small pieces from then on, each with a wake-up that
    costs more than its bytes: a large answer then takes four times the CPU, at half the rate.
    """
    if _TCP_CONGESTION is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    try:
        ours, theirs = connection.getsockname(), connection.getpeername()
        if _host(ours) == _host(theirs) or _host(theirs).startswith(_LOOPBACK):
            connection.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, _UNPACED)
    except OSError:
        return  # Not to be had here, or the peer has gone: who reads or writes next will be told.


def _host(address: object) -> str:
    # A tuple of what the family has, host first; the path of a Unix socket is a string.
    return str(cast("tuple[object, ...]", address)[0]) if isinstance(address, tuple) else ""

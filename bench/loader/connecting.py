"""How loaders connect."""

import socket

_UNPACED = b"reno"


def connect(port: int, timeout_s: float = 10.0) -> socket.socket:
    """A connection to a broker on this machine whose bytes leave at once, in whatever pieces they are given.

    Where the system paces what it sends (BBR), a loader's rate would be what the kernel took for the
    bandwidth of a loopback device: half or twice as much from one connection to the next.
    """
    connection = socket.create_connection(("127.0.0.1", port), timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)
    return connection

"""Large requests, handed to the kernel at once and without the interpreter lock.

uvloop's first try to write holds the lock for as long as the kernel copies. For a megabyte that is as long as
a thread takes which makes the next batch of columns, and which waits for the lock meanwhile.
"""

import os
import socket
from collections.abc import Sequence
from typing import Final, Self

from everlog.wire.message import Records

DIRECT_BYTES: Final = 128 * 1024
"""From here on the copying takes longer than the way round the loop saves."""


class DirectWrites:
    """Writes to the socket of a transport that has nothing to send; what the socket does not take is left."""

    def __init__(self, fileno: int) -> None:
        self._socket = socket.socket(fileno=os.dup(fileno))
        self._socket.setblocking(False)

    @classmethod
    def beside(cls, made: "socket.socket | None") -> Self | None:
        """To the socket of a plain connection, if it has one that can be used twice."""
        return cls(made.fileno()) if made is not None and os.name == "posix" else None

    def write(self, pieces: list[Records]) -> list[Records]:
        """Send what the socket takes now; return the rest, which is for the transport."""
        try:
            sent = self._socket.sendmsg(pieces)
        except OSError:
            # Its buffer is full, or the connection has ended: the transport finds out which.
            return pieces
        return _behind(pieces, sent)

    def close(self) -> None:
        """Let go of the socket; the connection ends once the transport has, too."""
        self._socket.close()


def _behind(pieces: Sequence[Records], sent: int) -> list[Records]:
    for number, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[number + 1 :]]
        sent -= len(piece)
    return []

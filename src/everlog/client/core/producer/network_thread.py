"""The thread that finds out what becomes of records, for which nothing may be waited for on it itself."""

import threading

from everlog.client.core.errors import Misused


class NetworkThread:
    """The thread of a producer's event loop, once that is known."""

    __slots__ = ("ident",)

    def __init__(self) -> None:
        self.ident: int | None = None
        """As `threading.get_ident` tells it; None while nothing is sent from any."""

    def refuse_wait(self, what: object) -> None:
        """Misused if the caller is this thread: it would wait for itself, and for ever."""
        if threading.get_ident() == self.ident:
            raise Misused(
                f"a wait for {what} on the thread that delivers them: a delivery callback may not wait, "
                "and on an event loop a delivery is awaited"
            )


NO_THREAD = NetworkThread()
"""Of batches that anybody may wait for."""

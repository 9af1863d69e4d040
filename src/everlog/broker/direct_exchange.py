"""An exchange without a connection of its own: a request of this very node, or one inside another."""

from collections.abc import Callable

from everlog.broker.exchange import Exchange, Parts
from everlog.wire.message import Message

Answered = Callable[[Message | bytes | None], None]
"""Gets the answer: the message, a whole frame where a handler has encoded it itself, None for none."""

OWN_CONNECTION = 0
"""The number that stands for no connection: this node asks itself."""


class DirectExchange(Exchange):
    """One request whose answer goes to a function. Handlers cannot tell it from any other exchange."""

    __slots__ = ("_answered", "_origin", "_peer_host")

    def __init__(
        self,
        api_version: int,
        answered: Answered,
        *,
        correlation_id: int = 0,
        client_id: str | None = None,
        origin: Exchange | None = None,
        peer_host: str | None = None,
    ) -> None:
        """`origin` is the exchange that the request came in, if any; `peer_host` that of the client."""
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.parts: Parts = ()
        self.answered = False
        self._answered = answered
        self._origin = origin
        self._peer_host = peer_host

    @property
    def listener_name(self) -> str:
        """The listener that the request came in on; none for what this node asks itself."""
        return "" if self._origin is None else self._origin.listener_name

    @property
    def peer_host(self) -> str:
        """The client's address."""
        if self._peer_host is not None:
            return self._peer_host
        return "" if self._origin is None else self._origin.peer_host

    @property
    def connection(self) -> int:
        """The number of the connection that the request came on."""
        return OWN_CONNECTION if self._origin is None else self._origin.connection

    @property
    def abandoned(self) -> bool:
        """Whether nobody is left to read the answer."""
        return self._origin is not None and self._origin.abandoned

    def answer(self, message: Message) -> None:
        """Answer with a message; it is not encoded."""
        self._end(message)

    def answer_parts(self, parts: Parts) -> None:
        """Answer with a whole frame that is encoded already."""
        self._end(b"".join(part if isinstance(part, bytes) else part.read() for part in parts))

    def answer_nothing(self, *, close: bool) -> None:
        """End an exchange that gets no answer."""
        self._end(None)

    def _end(self, answer: Message | bytes | None) -> None:
        assert not self.answered, self.correlation_id
        self.answered = True
        self._answered(answer)

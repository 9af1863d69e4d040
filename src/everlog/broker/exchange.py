"""An exchange: one request, and the one answer that it is owed, now or later."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from everlog.ports.files import FileSlice
from everlog.wire.codec import encode_response
from everlog.wire.message import Message

if TYPE_CHECKING:
    from everlog.broker.session import Session

Parts = Sequence[bytes | FileSlice]


class Exchange:
    """One request to be answered exactly once. Answers leave a connection in the order of its requests."""

    __slots__ = ("answered", "api_version", "client_id", "correlation_id", "parts", "session")

    def __init__(self, session: "Session", api_version: int, correlation_id: int) -> None:
        self.session = session
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id: str | None = None
        """What the client calls itself; not read for produce and fetch, where nobody asks."""
        self.parts: Parts = ()
        """The answer frame; empty where the client wants none (a produce with acks=0)."""
        self.answered = False

    @property
    def listener_name(self) -> str:
        """The listener that the request came in on; answers name brokers by their address there."""
        return self.session.listener_name

    @property
    def peer_host(self) -> str:
        """The client's address."""
        return self.session.peer_host

    @property
    def connection(self) -> int:
        """The number of the connection that the request came on; those made later have higher ones."""
        return self.session.number

    @property
    def abandoned(self) -> bool:
        """Whether nobody is left to read the answer."""
        return not self.session.open

    def answer(self, message: Message) -> None:
        """Answer with a message, encoded as the request's version wants it."""
        self.answer_parts((encode_response(message, self.api_version, self.correlation_id),))

    def answer_parts(self, parts: Parts) -> None:
        """Answer with a whole frame that is encoded already."""
        assert not self.answered, self.correlation_id
        self.answered = True
        self.parts = parts
        self.session.send_answered()

    def answer_nothing(self, *, close: bool) -> None:
        """End an exchange whose client wants no answer; an error is told by closing the connection."""
        self.answer_parts(())
        if close:
            self.session.close()

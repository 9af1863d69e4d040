"""A request that is owed an answer."""

from collections.abc import Callable, Sequence
from typing import Any

from everlog.model.ids import Instant
from everlog.wire.api_keys import ApiKey
from everlog.wire.message import Records

Done = Callable[[Any], None]
"""Gets the answer, which is of the type that the request's API answers with, or Unreachable."""


class Asked:
    """One request: when it is given up, how its answer is read, and who wants it."""

    __slots__ = ("correlation_id", "deadline", "done", "key", "pieces", "read", "size", "timeout_ms")

    def __init__(
        self,
        key: int,
        correlation_id: int,
        pieces: Sequence[Records],
        read: Callable[[memoryview], object],
        done: Done,
    ) -> None:
        self.key = key
        self.correlation_id = correlation_id
        self.pieces: Sequence[Records] | None = pieces
        """What is to be sent; None once it is the connection's."""
        self.size = sum(map(len, pieces))
        self.read = read
        """Makes of the answer's frame what `done` gets; ProtocolError if it cannot be read."""
        self.done = done
        self.timeout_ms = 0
        self.deadline = Instant(0)

    @property
    def name(self) -> str:
        """What was asked, for messages."""
        try:
            return ApiKey(self.key).name
        except ValueError:
            return f"API {self.key}"

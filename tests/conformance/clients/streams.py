"""A producer in a driver process that writes by itself at a steady rate, as its application sees it."""

from dataclasses import dataclass

from tests.conformance.clients.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Acked:
    """A record that the library says was written; times in microseconds of the wall clock."""

    partition: int
    value: str
    offset: int
    sent_us: int
    told_us: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A record that the library gave up."""

    partition: int
    value: str
    sent_us: int
    message: str


class Stream:
    """Idempotent, to all partitions in turn, every value another number, with the library's own retries."""

    def __init__(self, sessions: Sessions, topic: str, partitions: int, rate: float) -> None:
        self.sent = 0
        self.acked: list[Acked] = []
        self.failed: list[Failed] = []
        self.errors: list[str] = []
        """What the library told its application beside the outcome of records."""
        self._sessions = sessions
        sessions.call("stream_open", id=topic, topic=topic, partitions=partitions, rate=rate)
        self._id = topic

    def look(self) -> None:
        """Take over what it was told since the last look."""
        seen = self._sessions.call("stream_seen", id=self._id)
        self.sent = seen["sent"]
        self.acked += [Acked(*each) for each in seen["acked"]]
        self.failed += [Failed(*each) for each in seen["failed"]]
        self.errors += seen["errors"]

    def close(self) -> None:
        """Write no more, wait until the library has told of every record, and take that over."""
        self._sessions.call("stream_close", id=self._id)
        self.look()

"""The way to one broker for produce requests: its connection, and how many are under way on it."""

from dataclasses import dataclass

from everlog.client.core.retry import Backoff
from everlog.client.drive.connection import Connection


@dataclass(slots=True)
class ProduceLane:
    """What a sender knows of one broker."""

    node_id: int
    backoff: Backoff
    connection: Connection | None = None
    in_flight: int = 0
    """Requests that are not answered; at most `max_in_flight_requests_per_connection`."""
    is_connecting: bool = False
    connecting_since: float = 0.0
    blocked_until: float = 0.0
    """Before it nothing is sent: it could not be reached, or it asked for a pause (KIP-219)."""

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self.connection is not None and self.connection.is_open

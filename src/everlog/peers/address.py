"""Where another node listens, and the word for not having reached it."""

from everlog.model.dataclass import dataclass
from everlog.model.errors import EverlogError


@dataclass(frozen=True, slots=True)
class Address:
    """A host, by name or number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Unreachable(EverlogError):
    """A node did not answer. Unless `unsent`, whether it has done what it was asked is not known."""

    retriable = True

    def __init__(self, reason: str, *, refused: bool = False, unsent: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.refused = refused
        """Whether nobody listens there: no process has that port."""
        self.unsent = unsent
        """Whether nothing of the request has left this node."""

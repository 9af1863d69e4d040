"""What can be done to a simulated disk: stop it, make it fail, watch it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a core asks of the disk. All but READ change it."""

    APPEND = "append"
    TRUNCATE = "truncate"
    CUT_BACK = "cut back"
    SYNC = "sync"
    CREATE = "create"
    MAKE_DIR = "make dir"
    RENAME = "rename"
    UNLINK = "unlink"
    REMOVE_DIR = "remove dir"
    SYNC_DIR = "sync dir"
    READ = "read"


class Moment(Enum):
    """Where in a changing operation a crash strikes."""

    BEFORE = "before"
    HALFWAY = "halfway"
    """Only appends have one: some of their bytes are written, the rest are not."""
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing asked of the disk; `number` counts the changing ones from 0."""

    number: int
    kind: Kind
    path: str

    def __str__(self) -> str:
        return f"operation {self.number}, {self.kind.value} of {self.path}"


Watcher = Callable[[Operation, Moment], None]


class Crashed(BaseException):
    """The machine stopped. No core can catch it, just as none survives the real thing."""


@dataclass(slots=True)
class Fault:
    """One way in which operations of a kind fail, for a while."""

    kind: Kind
    errno: int
    path_part: str = ""
    """Only files whose path contains this fail."""
    skip: int = 0
    """How many operations that match pass unharmed first."""
    times: int = -1
    """How many fail then; -1 is all until the disk is healed."""
    after_bytes: int = 0
    """For appends: how many bytes are written before the error."""

    def strikes(self, kind: Kind, path: str) -> bool:
        """Whether this operation fails; counts it if it matches."""
        if kind is not self.kind or self.path_part not in path or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times > 0:
            self.times -= 1
        return True

"""What happens to a replica of the quorum, and what it wants done."""

from everlog.model.dataclass import dataclass
from everlog.model.ids import Offset
from everlog.raft.messages import Answer, Request, Served, SnapshotId
from everlog.raft.store import QuorumState


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Another replica asks; the answer goes out as `Reply` with the same token, now or later."""

    token: object
    request: Served


@dataclass(frozen=True, slots=True)
class Answered:
    """A node has answered."""

    node: int
    request: Request
    answer: Answer


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No answer will come: time is up, or the connection is closed."""

    node: int
    request: Request


@dataclass(frozen=True, slots=True)
class Gone:
    """A node has closed its connections, as one does whose process has ended."""

    node: int


@dataclass(frozen=True, slots=True)
class Synced:
    """All below `end` is on disk, as far as it was in the log when that `Sync` came."""

    end: Offset
    cuts: int
    """What the `Sync` said."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The disk took long for the last `StoreState`; the effects behind it were carried out only then."""

    took_ms: int


@dataclass(frozen=True, slots=True)
class Installed:
    """A snapshot that was fetched is on disk under its name; or not, if what came is not whole."""

    snapshot: SnapshotId
    is_whole: bool


Event = Ticked | Asked | Answered | Unanswered | Gone | Synced | Stored | Installed


@dataclass(frozen=True, slots=True)
class StoreState:
    """Keep the vote. It is on disk before any later effect is carried out or another event handed in."""

    state: QuorumState


@dataclass(frozen=True, slots=True)
class Sync:
    """Make the log durable; one `Synced` follows for each."""

    cuts: int
    """How often the log had been cut back: a sync from before says nothing about what was appended since."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a node; `Answered` or `Unanswered` follows."""

    node: int
    request: Request


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer what was asked.

    To a fetch without an error, a parting or a snapshot the entries from its offset on are added; to that of
    a snapshot, the bytes from its position on.
    """

    token: object
    answer: Answer


@dataclass(frozen=True, slots=True)
class Lead:
    """This replica leads from now on, and has announced it in the log: propose what is to be decided."""

    epoch: int


@dataclass(frozen=True, slots=True)
class StandDown:
    """This replica leads no more. What it proposed and is not committed may be yet, or never be."""


@dataclass(frozen=True, slots=True)
class Commit:
    """All below `high_watermark` is committed, and never taken back."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """Prove what was fetched of a snapshot, make it durable and give it its name; `Installed` follows."""

    snapshot: SnapshotId


Effect = StoreState | Sync | Ask | Reply | Lead | StandDown | Commit | InstallSnapshot

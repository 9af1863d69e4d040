"""What replicas of the quorum say to each other, whatever it looks like on the wire (KIP-595, 853, 996).

Replication is by pull: a follower fetches, and the offset that it fetches from says what it has on disk.
"""

from collections.abc import Sequence

from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode
from everlog.model.ids import NO_UUID, Offset, Uuid
from everlog.peers.address import Address

NOTHING = Offset(0)
"""A high watermark that says nothing."""

LONG_POLL_MS = 500
CHANGE_MS = 30_000
FETCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ReplicaKey:
    """One replica of the log: a node, and the directory that it keeps the log in.

    A node with a new disk is another replica: it knows neither its votes nor what it acknowledged.
    """

    id: int
    directory: Uuid = NO_UUID


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener of a voter, by name."""

    name: str
    address: Address


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """What a snapshot stands for: all entries below `end`, the last of which is of `epoch`."""

    end: Offset
    epoch: int


@dataclass(frozen=True, slots=True)
class Vote:
    """A candidate asks for a vote in `epoch`, or a prospective one whether it would get it (`is_pre`)."""

    candidate: ReplicaKey
    epoch: int
    last_epoch: int
    """Of the candidate's last entry, -1 if it has none."""
    end: Offset
    is_pre: bool
    voter: ReplicaKey
    """Whose vote is asked for."""


@dataclass(frozen=True, slots=True)
class VoteReply:
    """Whether the vote is granted, and what the voter knows of the quorum."""

    epoch: int
    leader: int | None
    granted: bool
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """A new leader makes itself known to a voter."""

    leader: int
    epoch: int
    voter: ReplicaKey
    """Whom it tells."""


@dataclass(frozen=True, slots=True)
class EndEpoch:
    """A leader steps down; those who have most of the log come first among its successors."""

    leader: int
    epoch: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Noted:
    """The answer to `BeginEpoch` and `EndEpoch`."""

    epoch: int
    leader: int | None


@dataclass(frozen=True, slots=True)
class Fetch:
    """A replica asks for the log from `offset` on, all below which it has on disk."""

    replica: ReplicaKey
    epoch: int
    offset: Offset
    last_epoch: int
    """Of the entry before `offset`, -1 if there is none."""
    high_watermark: Offset
    """What the replica knows to be committed; a leader that knows of more answers at once."""
    wait_ms: int = LONG_POLL_MS
    """How long to wait at most for something new."""
    max_bytes: int = FETCH_BYTES
    """How much the answer may bring, but for a single batch that is larger."""


@dataclass(frozen=True, slots=True)
class FetchReply:
    """What a leader answers; the entries themselves are read from its log as the answer is sent."""

    epoch: int
    leader: int | None
    high_watermark: Offset = NOTHING
    error: ErrorCode = ErrorCode.NONE
    diverging: tuple[int, Offset] | None = None
    """The newest epoch that both may have, and where it ends for the leader: the log is cut there."""
    batches: Sequence[bytes] = ()
    """The entries, whole batches of them; empty in what a core returns, see `core.Reply`."""
    snapshot: SnapshotId | None = None
    """Set where the log does not go back that far: the replica needs this first."""


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """A replica asks for a snapshot from a byte on (KIP-630)."""

    replica: ReplicaKey
    epoch: int
    snapshot: SnapshotId
    position: int
    max_bytes: int = FETCH_BYTES


@dataclass(frozen=True, slots=True)
class SnapshotReply:
    """A part of a snapshot, read from the leader's file as the answer is sent."""

    epoch: int
    leader: int | None
    error: ErrorCode = ErrorCode.NONE
    size: int = 0
    """Of the whole snapshot."""
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class AddVoter:
    """Somebody wants a replica that follows to vote (KIP-853)."""

    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    """Its listeners, the one for the quorum first."""
    timeout_ms: int = CHANGE_MS
    """How long it may take to catch up."""
    ack_when_committed: bool = True
    """Whether the answer waits until the change is committed."""


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    """Somebody wants a voter to vote no more."""

    voter: ReplicaKey
    timeout_ms: int = CHANGE_MS
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True)
class UpdateVoter:
    """A voter listens elsewhere."""

    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    timeout_ms: int = CHANGE_MS
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True)
class ChangeReply:
    """What became of a change of the voters."""

    epoch: int
    leader: int | None
    error: ErrorCode = ErrorCode.NONE
    message: str = ""


VoterChange = AddVoter | RemoveVoter | UpdateVoter
Request = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot
"""What members ask each other."""
Served = Request | VoterChange
"""What a member is asked, by others and by whoever runs the cluster."""
Answer = VoteReply | Noted | FetchReply | SnapshotReply | ChangeReply

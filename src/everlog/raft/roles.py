"""What a replica is in its epoch, and what it must remember for as long as it is that.

UNATTACHED --no leader in time--> PROSPECTIVE --majority would vote--> CANDIDATE --majority votes--> LEADER
     any of them --a leader of this epoch, or a later one--> FOLLOWER --not heard from--> PROSPECTIVE
     any of them --a later epoch without a leader--> UNATTACHED
"""

from dataclasses import dataclass, field

from everlog.model.ids import Instant, Offset
from everlog.raft.messages import Fetch, FetchSnapshot, SnapshotId


@dataclass(slots=True)
class Unattached:
    """It knows of no leader. It votes, and stands for election itself if nobody else does in time."""

    campaign_at: Instant
    ask_at: Instant
    """When to ask some voter who leads."""


@dataclass(slots=True)
class Prospective:
    """It asks whether it would be elected, which disturbs nobody (KIP-996)."""

    until: Instant
    granted: set[int]
    rejected: set[int] = field(default_factory=set[int])
    unanswered: dict[int, Instant] = field(default_factory=dict[int, Instant])
    """Voters to ask again, and when."""


@dataclass(slots=True)
class Candidate:
    """It asks for votes in an epoch that it began."""

    until: Instant
    granted: set[int]
    rejected: set[int] = field(default_factory=set[int])
    unanswered: dict[int, Instant] = field(default_factory=dict[int, Instant])


@dataclass(slots=True)
class Loading:
    """A snapshot that is being fetched."""

    snapshot: SnapshotId
    position: int = 0
    """So many bytes are here."""


@dataclass(slots=True)
class Follower:
    """It fetches from the leader of its epoch."""

    leader: int
    until: Instant
    """When it stops to count on the leader; moved on by each answer."""
    has_fetched: bool = False
    """Whether the leader has answered in this epoch: then others need not stand for election either."""
    fetching: Fetch | FetchSnapshot | None = None
    """What is under way; one at a time."""
    loading: Loading | None = None
    """The snapshot without which it cannot follow, while it fetches that."""
    fetch_at: Instant | None = None
    """When to fetch again after a failure; None if there is no need to wait."""


@dataclass(slots=True)
class Parked:
    """A fetch that waits for something new."""

    token: object
    fetch: Fetch
    until: Instant


@dataclass(slots=True)
class Leader:
    """It appends, and counts what the voters have."""

    epoch_start: Offset
    """Where the entry that announces this leader lies: what lies before is committed along with it."""
    ends: dict[int, Offset]
    """What each replica has on disk, this one included."""
    heard_at: dict[int, Instant]
    """When each voter last fetched; at the beginning, when the lead began."""
    tell_at: Instant
    """When to tell those who do not follow yet."""
    high_watermark: Offset | None = None
    """Unknown until an entry of this epoch is committed."""
    has_fetched: set[int] = field(default_factory=set[int])
    """The voters that follow; the others are told of the new epoch again and again."""
    parked: dict[int, Parked] = field(default_factory=dict[int, Parked])
    """By node: a replica has one fetch under way."""


Role = Unattached | Prospective | Candidate | Follower | Leader

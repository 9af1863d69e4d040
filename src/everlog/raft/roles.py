"""What a replica is in its epoch, and what it must remember for as long as it is that.

UNATTACHED --no leader in time--> PROSPECTIVE --majority would vote--> CANDIDATE --majority votes--> LEADER
     any of them --a leader of this epoch, or a later one--> FOLLOWER --not heard from--> PROSPECTIVE
     any of them --a later epoch without a leader--> UNATTACHED
"""

from dataclasses import field

from everlog.model.dataclass import dataclass
from everlog.model.ids import Instant, Offset
from everlog.raft.messages import Fetch, FetchSnapshot, ReplicaKey, SnapshotId, VoterChange


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
    """When to stand anew, if somebody has refused by then; if nobody has, it only goes on asking."""
    hear_by: Instant
    """When voters that have not answered count as silent."""
    granted: set[int]
    rejected: set[int] = field(default_factory=set[int])
    unanswered: dict[int, Instant] = field(default_factory=dict[int, Instant])
    """Voters to ask again, and when."""
    silent: set[int] = field(default_factory=set[int])
    """Voters that have failed to answer, at least once or in time: nothing to wait for if others refuse."""
    is_lost: bool = False
    """Whether those that do answer cannot make a majority; it is over sooner then."""


@dataclass(slots=True)
class Candidate:
    """It asks for votes in an epoch that it began."""

    until: Instant
    hear_by: Instant
    granted: set[int]
    rejected: set[int] = field(default_factory=set[int])
    unanswered: dict[int, Instant] = field(default_factory=dict[int, Instant])
    silent: set[int] = field(default_factory=set[int])
    is_lost: bool = False


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
    """When it stops to count on the leader; moved on by each answer, and by our own slow disk."""
    has_fetched: bool = False
    """Whether the leader answers, in this epoch: then others need not stand for election either."""
    fetching: Fetch | FetchSnapshot | None = None
    """What is under way; one at a time."""
    loading: Loading | None = None
    """The snapshot without which it cannot follow, while it fetches that."""
    fetch_at: Instant | None = None
    """When to fetch again after a failure; None if there is no need to wait."""

    @property
    def waits_for_disk(self) -> bool:
        """Whether it cannot fetch before our own disk has what was fetched: the leader owes it nothing."""
        return self.fetching is None and self.fetch_at is None


@dataclass(slots=True)
class Parked:
    """A fetch that waits for something new."""

    token: object
    fetch: Fetch
    until: Instant


@dataclass(slots=True)
class PendingChange:
    """A change of the voters that is under way."""

    token: object
    asked: VoterChange
    until: Instant
    """When to give up on one that has yet to catch up."""
    end: Offset | None = None
    """Behind the entry that makes the change; None while it is not in the log."""


@dataclass(slots=True)
class Seen:
    """What a leader knows of a replica that follows it."""

    end: Offset
    at: Instant
    """When it last fetched."""
    caught_up_at: Instant | None = None
    """When it last had all that there was."""


@dataclass(slots=True)
class Leader:
    """It appends, and counts what the voters have."""

    epoch_start: Offset
    """Where the entry that announces this leader lies: what lies before is committed along with it."""
    ends: dict[int, Offset]
    """What each replica has on disk, this one included."""
    began_at: Instant
    tell_at: Instant
    """When to tell those who do not follow yet."""
    high_watermark: Offset | None = None
    """Unknown until an entry of this epoch is committed."""
    has_fetched: set[int] = field(default_factory=set[int])
    """The voters that follow; the others are told of the new epoch again and again."""
    parked: dict[int, Parked] = field(default_factory=dict[int, Parked])
    """By node: a replica has one fetch under way."""
    heard_at: dict[int, Instant] = field(default_factory=dict[int, Instant])
    """When each node last fetched; for one that has not, the beginning of the lead counts."""
    pauses_ms: dict[int, int] = field(default_factory=dict[int, int])
    """The longest that each voter has taken from one fetch to the next."""
    noted_at: dict[int, Instant] = field(default_factory=dict[int, Instant])
    """When each voter last said, on being asked, that it follows."""
    seen: dict[ReplicaKey, Seen] = field(default_factory=dict[ReplicaKey, Seen])
    """The replicas that follow, whether they vote or not."""
    change: PendingChange | None = None


Role = Unattached | Prospective | Candidate | Follower | Leader

"""Replica: what one replica of the quorum knows, and what whoever decides for it may do.

`voting`, `following` and `leading` decide; `core` hands them what happens.
"""

from collections.abc import Iterable
from typing import Protocol

from everlog.model.dataclass import dataclass
from everlog.model.ids import NO_UUID, Instant, Offset
from everlog.ports.random import Random
from everlog.raft.events import Commit, Effect, StoreState, Sync
from everlog.raft.messages import LONG_POLL_MS, Fetch, ReplicaKey, SnapshotId
from everlog.raft.roles import Follower, Leader, Role, Unattached
from everlog.raft.store import QuorumState
from everlog.raft.voters import VoterSet


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """What a leader says of its election."""

    leader: int
    voters: tuple[int, ...]
    granting: tuple[int, ...]
    """Those who voted for it."""


class ReplicaLog(Protocol):
    """The log of a replica. Appending goes to the page cache; the effect `Sync` makes it durable.

    StorageError, out of the core's `step` as well, where the disk refuses.
    """

    @property
    def start_offset(self) -> Offset:
        """The first entry that is there; what came before is in a snapshot that ends here."""
        ...

    @property
    def start_epoch(self) -> int:
        """The epoch of the entry before `start_offset`; -1 if there is none."""
        ...

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot; all in it is committed."""
        ...

    @property
    def end_offset(self) -> Offset:
        """Behind the last entry, durable or not."""
        ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last entry, in the log or in the snapshot before it; -1 if there is none."""
        ...

    def epoch_end(self, epoch: int) -> tuple[int, Offset]:
        """The newest epoch up to this one that has entries, and where they end; (-1, 0) if none has."""
        ...

    @property
    def voters(self) -> VoterSet | None:
        """The newest voters in the log or the snapshot before it, committed or not; None without any."""
        ...

    @property
    def voters_end(self) -> Offset:
        """Behind the entry that has them; 0 where `voters` is None."""
        ...

    @property
    def previous_voters(self) -> VoterSet | None:
        """The set of voters before that one; None if the log has none."""
        ...

    def append_voters(self, epoch: int, voters: VoterSet) -> None:
        """Append an entry with a set of voters, which is in force at once."""
        ...

    def append_leader_change(self, epoch: int, change: LeaderChange) -> None:
        """Append the entry that announces this replica as the leader of an epoch."""
        ...

    def append_fetched(self, batches: Iterable[bytes]) -> None:
        """Append what a leader sent, as it is."""
        ...

    def truncate(self, end: Offset) -> None:
        """Give up all from `end` on."""
        ...

    def has_snapshot(self, snapshot: SnapshotId) -> bool:
        """Whether a snapshot is here, whole and on disk."""
        ...

    def append_snapshot(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        """Keep a part of a snapshot that is being fetched; from position 0 on it begins anew."""
        ...

    def begin_at(self, snapshot: SnapshotId) -> None:
        """Throw all entries away and begin behind a snapshot that is here."""
        ...


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take at the most; Kafka's settings and defaults."""

    election_ms: int = 1000
    """`controller.quorum.election.timeout.ms`"""
    backoff_ms: int = 1000
    """`controller.quorum.election.backoff.max.ms`"""
    fetch_ms: int = 2000
    """`controller.quorum.fetch.timeout.ms`"""
    retry_ms: int = 20
    """`controller.quorum.retry.backoff.ms`"""
    long_poll_ms: int = LONG_POLL_MS
    """How long a fetch waits for something new."""

    @property
    def vote_ms(self) -> int:
        """How long a request for a vote is left to wait: a voter writes to its disk before it answers.

        A request that is given up takes its connection along, and one who is busy has to take on the next
        one and to read it before anything else comes of it.
        """
        return self.election_ms * 4


class Replica:
    """One replica. `out` gathers the effects of the event that is being taken in, at `now`."""

    def __init__(
        self,
        me: ReplicaKey,
        voters: VoterSet,
        log: ReplicaLog,
        random: Random,
        state: QuorumState | None,
        now: Instant,
        timing: Timing,
        bootstrap: tuple[int, ...] = (),
    ) -> None:
        self.me = me
        self._static_voters = voters
        self.log = log
        self.bootstrap = bootstrap
        """Addresses that stand for some node of the cluster, by numbers below 0."""
        self.random = random
        self.timing = timing
        known = state or QuorumState(0)
        # The log may be ahead of the file, if that was lost; epochs never go back.
        self.state = known if known.epoch >= log.last_epoch else QuorumState(log.last_epoch)
        """The epoch and the vote, as they are on disk."""
        self.high_watermark = Offset(0) if log.snapshot is None else log.snapshot.end
        self.durable = Offset(0)
        """Up to where the log is on disk, as far as we know: at most its end."""
        self.cuts = 0
        """How often the log was cut back."""
        self.lost: tuple[int, int] | None = None
        """An epoch and its leader that went away: it takes a word of its own to follow it again."""
        self.elections_lost = 0
        """In a row, since there was a leader."""
        self.out: list[Effect] = []
        self.now = now
        self.role: Role = self.unattached()

    @property
    def epoch(self) -> int:
        """The newest epoch that this replica knows of."""
        return self.state.epoch

    @property
    def leader(self) -> int | None:
        """Who leads the epoch, as far as it knows."""
        match self.role:
            case Leader():
                return self.me.id
            case Follower(leader=leader):
                return leader
            case _:
                return None

    @property
    def voters(self) -> VoterSet:
        """Who votes: by the log, and by the settings where that does not say."""
        return self.log.voters or self._static_voters

    @property
    def is_voter(self) -> bool:
        """Whether this very replica votes; else it only follows."""
        return self.voters.has(self.me)

    @property
    def may_stand(self) -> bool:
        """Whether this replica may stand for election.

        One that was removed may as long as that is not known to be committed: it may be the only one that
        has the entry which removed it, and then nobody else can be elected (Raft, dissertation, 4.2.2).
        """
        if self.is_voter:
            return True
        return self.log.voters_end > self.high_watermark and (
            self.log.previous_voters or self._static_voters
        ).has(self.me)

    @property
    def others(self) -> list[int]:
        """The nodes of the other voters."""
        return [node for node in self.voters.ids if node != self.me.id]

    def is_me(self, key: ReplicaKey) -> bool:
        """Whether somebody means this replica, who may not know its directory."""
        return key.id == self.me.id and key.directory in (self.me.directory, NO_UUID)

    def after(self, wait_ms: int) -> Instant:
        """That much later than now."""
        return Instant(self.now + wait_ms)

    def unattached(self) -> Unattached:
        """The role of one that waits for a leader to make itself known."""
        return Unattached(self.election_end(), self.now)

    def election_end(self) -> Instant:
        """When to give up on an election; no two replicas are to do so at the same time, again and again."""
        wait = self.timing.election_ms
        return self.after(wait + self.random.below(wait))

    def store(self, state: QuorumState) -> None:
        """Keep an epoch and a vote; they are on disk before anything is sent."""
        assert state.epoch >= self.state.epoch, (state, self.state)
        self.state = state
        if self.out and isinstance(self.out[-1], StoreState):
            self.out.pop()  # Nobody has heard of it; an epoch and the vote in it go to the disk together.
        self.out.append(StoreState(state))

    def advance(self, end: Offset) -> None:
        """All below `end` is committed."""
        if end > self.high_watermark:
            self.high_watermark = end
            self.out.append(Commit(end))

    @property
    def is_durable(self) -> bool:
        """Whether all of the log is on disk."""
        return self.durable >= self.log.end_offset

    def sync(self) -> None:
        """Make all of the log durable."""
        self.out.append(Sync(self.cuts))

    def synced(self, end: Offset, cuts: int) -> None:
        """All below `end` is on disk, if the log was not cut back and written anew since."""
        if cuts == self.cuts:
            self.durable = max(self.durable, end)

    def cut(self, end: Offset) -> None:
        """Give up all from `end` on, which is not committed."""
        assert end >= self.high_watermark, (end, self.high_watermark)
        self.log.truncate(end)
        self.durable = min(self.durable, end)
        self.cuts += 1

    def begin_at(self, snapshot: SnapshotId) -> None:
        """Give the log up for a snapshot, which is on disk and has all that is known to be committed here."""
        assert snapshot.end >= self.high_watermark, (snapshot, self.high_watermark)
        self.log.begin_at(snapshot)
        self.durable = snapshot.end
        self.cuts += 1
        self.advance(snapshot.end)

    def fetch_request(self) -> Fetch:
        """A fetch from the end of the log on. It says what is on disk: not before all of it is."""
        log = self.log
        assert self.is_durable, (self.durable, log.end_offset)
        return Fetch(self.me, self.epoch, log.end_offset, log.last_epoch, self.high_watermark)

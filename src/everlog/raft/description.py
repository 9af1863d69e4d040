"""The quorum as its leader sees it, for DescribeQuorum (KIP-595, 836)."""

from everlog.model.dataclass import dataclass
from everlog.model.ids import NO_TIMESTAMP, Instant, Offset, Timestamp
from everlog.ports.clock import Clock
from everlog.raft.messages import ReplicaKey
from everlog.raft.roles import Leader, Seen
from everlog.raft.voters import VoterSet

NOT_KNOWN = Offset(-1)


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """How far a replica is, and when it was last heard from; -1 where that is not known."""

    key: ReplicaKey
    end: Offset
    fetched_at: Timestamp
    caught_up_at: Timestamp


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """Who votes and who follows."""

    high_watermark: Offset
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]


def describe(me: ReplicaKey, voters: VoterSet, role: Leader, end: Offset, clock: Clock) -> QuorumDescription:
    """Describe the quorum in terms of what its leader has heard."""
    now, wall = clock.now(), clock.wall()

    def time_of(at: Instant | None) -> Timestamp:
        return NO_TIMESTAMP if at is None else Timestamp(wall - (now - at))

    def one(key: ReplicaKey, seen: Seen | None) -> ReplicaDescription:
        if key.id == me.id:
            return ReplicaDescription(key, end, wall, wall)
        if seen is None:
            return ReplicaDescription(key, NOT_KNOWN, NO_TIMESTAMP, NO_TIMESTAMP)
        return ReplicaDescription(key, seen.end, time_of(seen.at), time_of(seen.caught_up_at))

    by_voter = {key.id: seen for key, seen in role.seen.items() if voters.has(key)}
    directories = {key.id: key for key in role.seen if voters.has(key)} | {me.id: me}
    return QuorumDescription(
        role.high_watermark or Offset(0),
        tuple(one(directories.get(key.id, key), by_voter.get(key.id)) for key in voters),
        tuple(
            one(key, seen)
            for key, seen in sorted(role.seen.items(), key=lambda item: item[0].id)
            if not voters.has(key)
        ),
    )

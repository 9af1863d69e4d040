"""Leading: who has how much of the log, what is committed by that, and when to step down."""

from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant, Offset
from everlog.raft import reconfiguring
from everlog.raft.events import Ask, Lead, Reply
from everlog.raft.following import leave_lead, observe
from everlog.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
    FetchSnapshot,
    Noted,
    ReplicaKey,
    SnapshotReply,
)
from everlog.raft.replica import LeaderChange, Replica
from everlog.raft.roles import Candidate, Leader, Parked, Seen

NEVER = Instant(2**62)

_MOST_FETCHES_MISSED = 5
"""So many times the fetch time-out a voter that is slow is waited for."""

_MOST_SEEN = 1_000
"""Replicas that a leader keeps in mind; who has fetched longest ago is forgotten first."""


def become_leader(replica: Replica, won: Candidate) -> None:
    """Lead the epoch that the election was about."""
    start = replica.log.end_offset
    change = LeaderChange(replica.me.id, replica.voters.ids, tuple(sorted(won.granted)))
    replica.log.append_leader_change(replica.epoch, change)
    replica.elections_lost = 0
    replica.role = Leader(start, {}, began_at=replica.now, tell_at=replica.now)
    replica.sync()
    replica.out.append(Lead(replica.epoch))


def tell_deadline(replica: Replica, role: Leader) -> Instant:
    """When to say again who leads."""
    since = [_missed_at(replica, role, node) for node in replica.others]
    return max(role.tell_at, min(since, default=NEVER))


def _missed_at(replica: Replica, role: Leader, node: int) -> Instant:
    """When a voter has not fetched for so long that it is asked whether it follows."""
    if node not in role.has_fetched:
        return role.began_at
    return Instant(role.heard_at[node] + replica.timing.fetch_ms // 2)


def tell_voters(replica: Replica, role: Leader) -> None:
    """Say again who leads, to those who do not follow yet and to those who have not fetched for a while."""
    role.tell_at = replica.after(replica.timing.fetch_ms // 2)
    missed = [node for node in replica.others if _missed_at(replica, role, node) <= replica.now]
    for node in missed:
        voter = replica.voters.key(node)
        assert voter is not None, (node, replica.voters)
        replica.out.append(Ask(node, BeginEpoch(replica.me.id, replica.epoch, voter)))


def quorum_deadline(replica: Replica, role: Leader) -> Instant:
    """When a majority has not fetched for too long: another may lead already, and clients ask that one."""
    needed = len(replica.voters) // 2 + (0 if replica.is_voter else 1)
    if needed == 0:
        return NEVER
    return sorted((_patience_end(replica, role, node) for node in replica.others), reverse=True)[needed - 1]


def _patience_end(replica: Replica, role: Leader, node: int) -> Instant:
    """Until when a voter counts as one that follows, by its fetches and by its word.

    One whose disk takes long to keep what it has fetched does not fetch meanwhile. To step down for that
    would be of no use: whoever is elected next needs the same disk. So its word counts as well, and who was
    away for longer before, and came back, gets that time again. Neither counts for ever: who answers and does
    not fetch may have no way to, and another leader might be one that it reaches.
    """
    fetch_ms = replica.timing.fetch_ms
    most_ms = fetch_ms * _MOST_FETCHES_MISSED
    fetched_at = role.heard_at.get(node, role.began_at)
    noted_at = min(role.noted_at.get(node, fetched_at), Instant(fetched_at + most_ms))
    patience_ms = max(fetch_ms * 3 // 2, min(role.pauses_ms.get(node, 0) * 2, most_ms))
    return Instant(max(fetched_at, noted_at) + patience_ms)


def noted(replica: Replica, node: int, answer: Noted) -> None:
    """A voter has said whom it follows."""
    role = replica.role
    if isinstance(role, Leader) and (answer.epoch, answer.leader) == (replica.epoch, replica.me.id):
        role.noted_at[node] = replica.now


def needs_snapshot(replica: Replica, asked: Fetch) -> bool:
    """Whether the log does not go back to where a replica is, or to where the two may have parted."""
    start, epoch = replica.log.start_offset, replica.log.start_epoch
    if start == 0:
        return False
    is_other = asked.offset == start and asked.last_epoch != epoch
    return asked.offset < start or is_other or asked.last_epoch < epoch


def snapshot_asked(replica: Replica, token: object, asked: FetchSnapshot) -> None:
    """Let a replica have a part of a snapshot."""
    if asked.epoch > replica.epoch:
        observe(replica, asked.epoch, None)
    role = replica.role
    answer = SnapshotReply(replica.epoch, replica.leader)
    if not isinstance(role, Leader):
        answer = SnapshotReply(replica.epoch, replica.leader, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    elif asked.epoch < replica.epoch:
        answer = SnapshotReply(replica.epoch, replica.leader, ErrorCode.FENCED_LEADER_EPOCH)
    else:
        _hear(replica, role, asked.replica)
    replica.out.append(Reply(token, answer))


def fetch_asked(replica: Replica, token: object, asked: Fetch) -> None:
    """Answer a fetch, or keep it until there is something new."""
    if asked.epoch > replica.epoch:
        observe(replica, asked.epoch, None)
    role = replica.role
    if not isinstance(role, Leader):
        _refuse(replica, token, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return
    if asked.epoch < replica.epoch:
        _refuse(replica, token, ErrorCode.FENCED_LEADER_EPOCH)
        return
    node, votes = asked.replica.id, replica.voters.has(asked.replica)
    _hear(replica, role, asked.replica)
    if needs_snapshot(replica, asked):
        lacking = FetchReply(replica.epoch, replica.me.id, committed(role), snapshot=replica.log.snapshot)
        replica.out.append(Reply(token, lacking))
        return
    epoch, end = replica.log.epoch_end(asked.last_epoch)
    if epoch != asked.last_epoch or end < asked.offset:
        parting = FetchReply(replica.epoch, replica.me.id, committed(role), diverging=(epoch, end))
        replica.out.append(Reply(token, parting))
        return
    if votes:
        role.ends[node] = asked.offset
    _see(replica, role, asked)
    if (before := role.parked.pop(node, None)) is not None:
        # It waits for that one no more, but somebody here may. Were it no error, two nodes with one id would
        # chase each other without a pause.
        late = FetchReply(replica.epoch, replica.me.id, error=ErrorCode.REQUEST_TIMED_OUT)
        replica.out.append(Reply(before.token, late))
    role.parked[node] = Parked(token, asked, replica.after(min(asked.wait_ms, replica.timing.long_poll_ms)))
    count(replica, role)
    reconfiguring.proceed(replica, role)
    serve_parked(replica, role)


def _hear(replica: Replica, role: Leader, key: ReplicaKey) -> None:
    """A replica follows. One that has a voter's id and another disk is not that voter."""
    if replica.voters.has(key):
        pause_ms = replica.now - role.heard_at.get(key.id, replica.now)
        # A pause that is longer says that it was gone, not that it is slow.
        if pause_ms <= replica.timing.fetch_ms * _MOST_FETCHES_MISSED:
            role.pauses_ms[key.id] = max(role.pauses_ms.get(key.id, 0), pause_ms)
        role.has_fetched.add(key.id)
    elif key.id in replica.voters.ids or key.id < 0:
        return
    role.heard_at[key.id] = replica.now


def _see(replica: Replica, role: Leader, asked: Fetch) -> None:
    """Note how far a replica is, for who wants to know or to make it vote."""
    before = role.seen.pop(asked.replica, None)
    seen = role.seen[asked.replica] = Seen(asked.offset, replica.now)
    has_all = asked.offset >= replica.log.end_offset
    seen.caught_up_at = replica.now if has_all else None if before is None else before.caught_up_at
    if len(role.seen) > _MOST_SEEN:
        del role.seen[next(iter(role.seen))]


def _refuse(replica: Replica, token: object, error: ErrorCode) -> None:
    replica.out.append(Reply(token, FetchReply(replica.epoch, replica.leader, error=error)))


def serve_parked(replica: Replica, role: Leader) -> None:
    """Answer the fetches for which there is something new, and those that have waited long enough."""
    for node, parked in list(role.parked.items()):
        asked = parked.fetch
        has_news = asked.offset < replica.log.end_offset or asked.high_watermark < committed(role)
        if has_news or parked.until <= replica.now:
            del role.parked[node]
            answer = FetchReply(replica.epoch, replica.me.id, committed(role))
            replica.out.append(Reply(parked.token, answer))


def committed(role: Leader) -> Offset:
    """Up to where this leader knows the log to be committed."""
    return role.high_watermark or Offset(0)


def synced(replica: Replica, role: Leader) -> None:
    """Count this replica's own disk."""
    if replica.is_voter and replica.durable > role.ends.get(replica.me.id, -1):
        role.ends[replica.me.id] = replica.durable
        count(replica, role)


def count(replica: Replica, role: Leader) -> None:
    """Advance the high watermark to what a majority has, if that includes an entry of this epoch."""
    by_majority = replica.voters.majority_has(role.ends)
    # What earlier leaders left may yet be cut off by another; with an entry of ours on top it cannot
    # (Raft, section 5.4.2).
    if by_majority > role.epoch_start and by_majority > committed(role):
        role.high_watermark = by_majority
        replica.advance(by_majority)
        reconfiguring.proceed(replica, role)
        serve_parked(replica, role)


def resign(replica: Replica, role: Leader) -> None:
    """Step down in favour of who has most of the log."""
    by_end = sorted(replica.others, key=lambda node: (-role.ends.get(node, Offset(0)), node))
    for node in replica.others:
        replica.out.append(Ask(node, EndEpoch(replica.me.id, replica.epoch, tuple(by_end))))
    leave_lead(replica)
    waiting = replica.role = replica.unattached()
    # The others go first. This one leads the epoch no more, and has no second vote in it.
    waiting.campaign_at = replica.after(replica.timing.election_ms * 2)

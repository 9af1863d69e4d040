"""Following: whom a replica takes for the leader, and how its log becomes the leader's."""

from everlog.model.divergence import where_to_cut
from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant
from everlog.raft import reconfiguring
from everlog.raft.events import Ask, InstallSnapshot, Reply, StandDown
from everlog.raft.messages import EndEpoch, Fetch, FetchReply, FetchSnapshot, SnapshotId, SnapshotReply
from everlog.raft.replica import Replica
from everlog.raft.roles import Follower, Leader, Loading, Unattached
from everlog.raft.store import NOBODY, QuorumState


def observe(replica: Replica, epoch: int, leader: int | None, *, by_itself: bool = False) -> None:
    """Take in that an epoch has begun, and who leads it if that is known; `by_itself`: from the leader."""
    if epoch < replica.epoch:
        return
    if by_itself:
        replica.lost = None
    elif replica.lost == (epoch, leader):
        leader = None  # Others have yet to notice.
    if epoch == replica.epoch and (leader is None or replica.leader is not None):
        assert leader in (None, replica.leader), (epoch, leader, replica.leader)
        return
    if leader == replica.me.id:
        leader = None  # Ours from before a restart: an epoch is led in one go or not at all.
    if epoch > replica.epoch:
        leave_lead(replica)
        replica.store(QuorumState(epoch, leader=NOBODY if leader is None else leader))
    elif leader is None:
        return
    if leader is None:
        replica.role = replica.unattached()
    else:
        replica.elections_lost = 0
        role = replica.role = Follower(leader, replica.after(replica.timing.fetch_ms))
        fetch(replica, role)


def leave_lead(replica: Replica) -> None:
    """Lead no more, if it does; the role to take instead is the caller's to set."""
    if isinstance(replica.role, Leader):
        reconfiguring.abandon(replica, replica.role)
        for parked in replica.role.parked.values():
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            replica.out.append(Reply(parked.token, FetchReply(replica.epoch, None, error=error)))
        replica.out.append(StandDown())


def ask_who_leads(replica: Replica, role: Unattached) -> None:
    """Ask some voter, by a fetch that a leader may as well answer."""
    role.ask_at = replica.after(replica.timing.election_ms // 2)
    known = [*replica.others, *replica.bootstrap]
    if not replica.is_durable:
        replica.sync()
    elif known:
        replica.out.append(Ask(known[replica.random.below(len(known))], replica.fetch_request()))


def epoch_ended(replica: Replica, ended: EndEpoch) -> None:
    """The leader has stepped down: stand for election in the order that it has given."""
    if ended.epoch < replica.epoch:
        return
    observe(replica, ended.epoch, None)
    role = replica.role
    if isinstance(role, Follower) and role.leader == ended.leader and replica.may_stand:
        # The first in the list has most of the log and goes first; the others give it a moment.
        me = replica.me.id
        place = ended.successors.index(me) if me in ended.successors else len(replica.voters)
        _let_go(replica, role, replica.after(place * replica.timing.retry_ms * 2))


def gone(replica: Replica, node: int) -> None:
    """A node has closed its connections; if it leads, its process has ended or is about to."""
    role = replica.role
    if isinstance(role, Follower) and role.leader == node:
        replica.lost = (replica.epoch, node)
        # Not all at once, or all would ask each other at the same moment and nobody would win: each gives
        # those before it a moment, in an order that begins behind the one that went.
        before = [
            one for one in replica.others if one != node and _turn(one, node) < _turn(replica.me.id, node)
        ]
        _let_go(replica, role, replica.after(len(before) * replica.timing.retry_ms * 2))


def _turn(node: int, gone: int) -> tuple[bool, int]:
    return node < gone, node


def give_up(replica: Replica, role: Follower) -> None:
    """The leader was not heard from in time."""
    _let_go(replica, role, replica.now)


def _let_go(replica: Replica, role: Follower, campaign_at: Instant) -> None:
    """Follow no more; who may stand for election is not brought back by others who have yet to notice."""
    unattached = replica.role = replica.unattached()
    if replica.may_stand:
        replica.lost = (replica.epoch, role.leader)
        unattached.campaign_at = campaign_at


def fetch(replica: Replica, role: Follower) -> None:
    """Ask the leader for what comes next, as soon as all that we have is on disk."""
    role.fetch_at = None
    if role.loading is not None:
        loading = role.loading
        role.fetching = FetchSnapshot(replica.me, replica.epoch, loading.snapshot, loading.position)
    elif replica.is_durable:
        role.fetching = replica.fetch_request()
    else:
        replica.sync()
        return
    replica.out.append(Ask(role.leader, role.fetching))


def go_on(replica: Replica, role: Follower) -> None:
    """Fetch on, now that our disk has done its part. How long it took is no silence of the leader."""
    role.until = max(role.until, replica.after(replica.timing.fetch_ms))
    fetch(replica, role)


def fetched(replica: Replica, node: int, asked: Fetch, reply: FetchReply) -> None:
    """Take in what a fetch has brought."""
    observe(replica, reply.epoch, reply.leader, by_itself=reply.leader == node)
    role = replica.role
    if not isinstance(role, Follower) or role.fetching is not asked:
        return  # It asked somebody else, in another epoch, or to find out who leads.
    role.fetching = None
    if not _is_good(replica, role, node, reply):
        return
    if reply.snapshot is not None:
        load(replica, role, reply.snapshot)
        return
    if reply.diverging is not None:
        replica.cut(where_to_cut(reply.diverging, replica.log.epoch_end(reply.diverging[0])))
    else:
        if reply.batches:
            replica.log.append_fetched(reply.batches)
        replica.advance(min(reply.high_watermark, replica.log.end_offset))
    fetch(replica, role)


def _is_good(replica: Replica, role: Follower, node: int, reply: FetchReply | SnapshotReply) -> bool:
    """Whether the leader has answered; if not, what to do about it is done."""
    if reply.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and reply.epoch == replica.epoch:
        gone(replica, node)  # It has been started again, or has stepped down.
        return False
    if node != role.leader or reply.error is not ErrorCode.NONE or reply.epoch != replica.epoch:
        role.loading = None  # There may be a newer snapshot.
        role.fetch_at = replica.after(replica.timing.retry_ms)
        return False
    role.until = replica.after(replica.timing.fetch_ms)
    role.has_fetched = True
    return True


def load(replica: Replica, role: Follower, snapshot: SnapshotId) -> None:
    """Get a snapshot, without which the leader's log cannot be followed."""
    if snapshot.end < replica.high_watermark:
        # It reaches less far than what we know to be committed, and would take that away.
        role.fetch_at = replica.after(replica.timing.retry_ms)
        return
    role.loading = Loading(snapshot)
    if replica.log.has_snapshot(snapshot):
        replica.out.append(InstallSnapshot(snapshot))
    else:
        fetch(replica, role)


def snapshot_fetched(replica: Replica, node: int, asked: FetchSnapshot, reply: SnapshotReply) -> None:
    """Take in a part of a snapshot."""
    observe(replica, reply.epoch, reply.leader, by_itself=reply.leader == node)
    role = replica.role
    if not isinstance(role, Follower) or role.fetching is not asked:
        return
    role.fetching = None
    if not _is_good(replica, role, node, reply):
        return
    loading = role.loading
    assert loading is not None, role
    if not reply.data or asked.position + len(reply.data) > reply.size:
        role.loading = None
        role.fetch_at = replica.after(replica.timing.retry_ms)
        return
    replica.log.append_snapshot(asked.snapshot, asked.position, reply.data)
    loading.position = asked.position + len(reply.data)
    if loading.position == reply.size:
        replica.out.append(InstallSnapshot(asked.snapshot))
    else:
        fetch(replica, role)


def installed(replica: Replica, snapshot: SnapshotId, *, is_whole: bool) -> None:
    """A snapshot is on disk: follow the leader's log from there."""
    role = replica.role
    # One who leads by now has all that the snapshot has, and others may have its log: it stays as it is.
    if not isinstance(role, Follower) or role.loading is None or role.loading.snapshot != snapshot:
        return
    role.loading = None
    if is_whole and snapshot.end >= replica.high_watermark:
        replica.begin_at(snapshot)
        go_on(replica, role)
    else:
        role.fetch_at = replica.after(replica.timing.retry_ms)


def unanswered(replica: Replica, asked: Fetch | FetchSnapshot) -> None:
    """A fetch came to nothing. Until one does, there is no saying that the leader is heard of."""
    role = replica.role
    if isinstance(role, Follower) and role.fetching is asked:
        role.fetching = None
        role.has_fetched = False
        role.fetch_at = replica.after(replica.timing.retry_ms)

"""Following: whom a replica takes for the leader, and how its log becomes the leader's."""

from everlog.model.divergence import where_to_cut
from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant
from everlog.raft.events import Ask, Reply, StandDown
from everlog.raft.messages import EndEpoch, Fetch, FetchReply
from everlog.raft.replica import Replica
from everlog.raft.roles import Follower, Leader, Unattached
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
        role = replica.role = Follower(leader, replica.after(replica.timing.fetch_ms))
        fetch(replica, role)


def leave_lead(replica: Replica) -> None:
    """Lead no more, if it does; the role to take instead is the caller's to set."""
    if isinstance(replica.role, Leader):
        for parked in replica.role.parked.values():
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            replica.out.append(Reply(parked.token, FetchReply(replica.epoch, None, error=error)))
        replica.out.append(StandDown())


def ask_who_leads(replica: Replica, role: Unattached) -> None:
    """Ask some voter, by a fetch that a leader may as well answer."""
    role.ask_at = replica.after(replica.timing.election_ms // 2)
    others = replica.others
    if not replica.is_durable:
        replica.sync()
    elif others:
        replica.out.append(Ask(others[replica.random.below(len(others))], replica.fetch_request()))


def epoch_ended(replica: Replica, ended: EndEpoch) -> None:
    """The leader has stepped down: stand for election in the order that it has given."""
    if ended.epoch < replica.epoch:
        return
    observe(replica, ended.epoch, None)
    role = replica.role
    if isinstance(role, Follower) and role.leader == ended.leader and replica.is_voter:
        # The first in the list has most of the log and goes first; the others give it a moment.
        me = replica.me.id
        place = ended.successors.index(me) if me in ended.successors else len(replica.voters)
        _let_go(replica, replica.after(place * replica.timing.retry_ms * 2))


def gone(replica: Replica, node: int) -> None:
    """A node has closed its connections; if it leads, its process has ended or is about to."""
    if isinstance(replica.role, Follower) and replica.role.leader == node:
        replica.lost = (replica.epoch, node)
        # Not at once, or all would ask each other at the same moment and nobody would win.
        _let_go(replica, replica.after(replica.random.below(replica.timing.retry_ms) + 1))


def give_up(replica: Replica) -> None:
    """The leader was not heard from in time."""
    _let_go(replica, replica.now)


def _let_go(replica: Replica, campaign_at: Instant) -> None:
    role = replica.role = replica.unattached()
    if replica.is_voter:
        role.campaign_at = campaign_at


def fetch(replica: Replica, role: Follower) -> None:
    """Ask the leader for what comes next, as soon as all that we have is on disk."""
    role.fetch_at = None
    if not replica.is_durable:
        replica.sync()
        return
    role.fetching = replica.fetch_request()
    replica.out.append(Ask(role.leader, role.fetching))


def fetched(replica: Replica, node: int, asked: Fetch, reply: FetchReply) -> None:
    """Take in what a fetch has brought."""
    observe(replica, reply.epoch, reply.leader, by_itself=reply.leader == node)
    role = replica.role
    if not isinstance(role, Follower) or role.fetching is not asked:
        return  # It asked somebody else, in another epoch, or to find out who leads.
    role.fetching = None
    if reply.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and reply.epoch == replica.epoch:
        gone(replica, node)  # It has been started again, or has stepped down.
        return
    if node != role.leader or reply.error is not ErrorCode.NONE or reply.epoch != replica.epoch:
        role.fetch_at = replica.after(replica.timing.retry_ms)
        return
    role.until = replica.after(replica.timing.fetch_ms)
    role.has_fetched = True
    if reply.diverging is not None:
        replica.cut(where_to_cut(reply.diverging, replica.log.epoch_end(reply.diverging[0])))
    else:
        if reply.batches:
            replica.log.append_fetched(reply.batches)
        replica.advance(min(reply.high_watermark, replica.log.end_offset))
    fetch(replica, role)


def unanswered(replica: Replica, asked: Fetch) -> None:
    """A fetch came to nothing."""
    role = replica.role
    if isinstance(role, Follower) and role.fetching is asked:
        role.fetching = None
        role.fetch_at = replica.after(replica.timing.retry_ms)

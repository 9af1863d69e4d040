"""Voters come and go, one at a time, by entries in the log (KIP-853; Raft, dissertation, chapter 4).

A set of voters is in force as soon as it is in a replica's log, committed or not. Two that follow each other
differ in one voter, so a majority of one and a majority of the other have a voter in common; that holds only
if the next change waits until the one before is committed, and the first until an entry of this epoch is.
"""

from everlog.model.errors import ErrorCode
from everlog.model.ids import NO_UUID
from everlog.raft.events import Reply
from everlog.raft.messages import AddVoter, ChangeReply, RemoveVoter, UpdateVoter, VoterChange
from everlog.raft.replica import Replica
from everlog.raft.roles import Leader, PendingChange
from everlog.raft.voters import VoterSet


def change_asked(replica: Replica, token: object, asked: VoterChange) -> None:
    """Begin to add, remove or move a voter, or say why not."""
    role = replica.role
    if not isinstance(role, Leader):
        _refuse(replica, token, ErrorCode.NOT_LEADER_OR_FOLLOWER, "this replica does not lead")
        return
    if role.high_watermark is None or role.change is not None or replica.log.voters_end > role.high_watermark:
        # Raft needs them one at a time; whoever asks may ask again.
        _refuse(replica, token, ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way")
        return
    fault = _fault(replica.voters, asked)
    if fault is not None:
        _refuse(replica, token, *fault)
        return
    role.change = PendingChange(token, asked, replica.after(asked.timeout_ms))
    proceed(replica, role)


def _fault(voters: VoterSet, asked: VoterChange) -> tuple[ErrorCode, str] | None:
    known = voters.key(asked.voter.id)
    match asked:
        case AddVoter() if known is not None:
            return ErrorCode.DUPLICATE_VOTER, f"node {asked.voter.id} votes already"
        case RemoveVoter() | UpdateVoter() if known is None or not voters.has(asked.voter):
            return ErrorCode.VOTER_NOT_FOUND, f"{asked.voter} is no voter"
        case RemoveVoter() if len(voters) == 1:
            return ErrorCode.INVALID_REQUEST, f"node {asked.voter.id} is the last voter"
        case _:
            return None


def proceed(replica: Replica, role: Leader) -> None:
    """Take the change that is under way as far as it can go now."""
    change = role.change
    if change is None:
        return
    if change.end is None:
        if change.until <= replica.now:
            _end(replica, role, ErrorCode.REQUEST_TIMED_OUT, "the new voter did not catch up in time")
            return
        if isinstance(change.asked, AddVoter) and not _has_caught_up(replica, role, change.asked):
            return
        _append(replica, role, change)
        if not change.asked.ack_when_committed:
            _end(replica, role, ErrorCode.NONE, "")
            return
    if change.end is not None and role.high_watermark is not None and role.high_watermark >= change.end:
        _end(replica, role, ErrorCode.NONE, "")


def _has_caught_up(replica: Replica, role: Leader, asked: AddVoter) -> bool:
    """Whether a replica has so much of the log that the quorum does not have to wait for it."""
    seen = role.seen.get(asked.voter)
    return seen is not None and seen.end >= role.epoch_start and seen.end >= (role.high_watermark or 0)


def _append(replica: Replica, role: Leader, change: PendingChange) -> None:
    asked = change.asked
    voters = _with_directories(replica, role)
    match asked:
        case AddVoter() | UpdateVoter():
            voters = voters.with_voter(asked.voter, asked.endpoints)
        case RemoveVoter():
            voters = voters.without(asked.voter.id)
    replica.log.append_voters(replica.epoch, voters)
    change.end = replica.log.end_offset
    replica.sync()


def _with_directories(replica: Replica, role: Leader) -> VoterSet:
    """The voters, with the directories of those whom the settings know by their nodes alone.

    From then on a node that has lost its disk is another replica. Where two of one node have been seen, or
    none, nobody knows which is meant, and it stays as it was.
    """
    voters = replica.voters
    for voter in voters:
        if voter.directory == NO_UUID:
            seen = [key for key in (*role.seen, replica.me) if key.id == voter.id]
            if len(seen) == 1:
                voters = voters.with_voter(seen[0], voters.endpoints(voter.id))
    return voters


def leaves(replica: Replica, role: Leader) -> bool:
    """Whether this leader votes no more, and all know: then another has to lead."""
    committed = role.high_watermark
    return not replica.is_voter and committed is not None and committed >= replica.log.voters_end


def abandon(replica: Replica, role: Leader) -> None:
    """The lead is lost, and whether the change comes into force is up to the next leader."""
    if role.change is not None:
        _end(replica, role, ErrorCode.NOT_LEADER_OR_FOLLOWER, "this replica leads no more")


def _end(replica: Replica, role: Leader, error: ErrorCode, message: str) -> None:
    assert role.change is not None
    token, role.change = role.change.token, None
    _refuse(replica, token, error, message)


def _refuse(replica: Replica, token: object, error: ErrorCode, message: str) -> None:
    replica.out.append(Reply(token, ChangeReply(replica.epoch, replica.leader, error, message)))

"""Whose offsets a consumer group takes, and whom it tells them: only members in their epoch (C15)."""

from typing import TYPE_CHECKING, NamedTuple

from everlog.coordinator.group.consumer_member import Member, TopicIdPartition
from everlog.coordinator.group.group import CheckPartition
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Uuid

if TYPE_CHECKING:
    from everlog.coordinator.group.consumer_group import ConsumerGroup

_FIRST_WITH_MEMBER_EPOCH = 9
"""The version of OffsetCommit from which a client knows STALE_MEMBER_EPOCH."""


class Committer(NamedTuple):
    """Who commits: a member by id and epoch, or nobody in particular."""

    member_id: str
    instance_id: str | None
    epoch: int
    transactional: bool


def check_commit(group: "ConsumerGroup", committer: Committer, api_version: int) -> CheckPartition | None:
    """Refuse a commit that does not come from a member in its epoch.

    A member whose epoch has risen meanwhile may still commit what it had before and has still (KIP-1251): the
    answer with the new epoch is on its way to it. Then each partition is checked.
    """
    member_id, instance_id, epoch, transactional = committer
    if epoch < 0 and group.is_empty:
        # Somebody who is no member sets the offsets of a group that nobody uses.
        return None
    if transactional and epoch == -1 and not member_id and instance_id is None:
        # Transactions need not say which member they are for.
        return None
    member = group.member(member_id)
    if not transactional and not member.speaks_classic and api_version < _FIRST_WITH_MEMBER_EPOCH:
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"members of a consumer group commit with version 9 or later, found {api_version}",
        )
    if epoch == member.epoch:
        return None
    if epoch > member.epoch:
        raise _stale(member, epoch)

    def check(topic_id: Uuid, partition: int) -> None:
        one = TopicIdPartition(topic_id, partition)
        since = member.assigned.get(one, member.pending_revocation.get(one))
        if since is None or since > epoch:
            raise _stale(member, epoch)

    return check


def check_fetch(group: "ConsumerGroup", member_id: str | None, epoch: int) -> None:
    """Refuse a fetch by a member that is none or in another epoch; without a member id anyone may."""
    if member_id is None and epoch < 0:
        return
    member = group.member(member_id or "")
    if epoch != member.epoch:
        raise _stale(member, epoch)


def _stale(member: Member, epoch: int) -> Refused:
    code = ErrorCode.ILLEGAL_GENERATION if member.speaks_classic else ErrorCode.STALE_MEMBER_EPOCH
    return Refused(code, f"the member {member.id!r} is in epoch {member.epoch}, found {epoch}")

"""One member's next step towards its target: first give up, then get (KIP-848).

A partition goes to its new owner only after the old one has said that it no longer has it. So a member first
keeps what both its assignment and its target have and is told to give up the rest; it reaches the epoch of
the target when that is done; and it gets what is free of the target at once and the rest when others
let go of it.
"""

from collections.abc import Callable

from everlog.coordinator.group.consumer_member import (
    NOTHING_ASSIGNED,
    Assigned,
    Member,
    MemberState,
    Partitions,
    TopicIdPartition,
)
from everlog.model.errors import ErrorCode, Refused

IsFree = Callable[[TopicIdPartition], bool]
"""Whether no other member has a partition, nor has yet to give it up."""


def reconcile(
    member: Member, target: Partitions, target_epoch: int, owned: Partitions | None, is_free: IsFree
) -> Member:
    """The member one step further, or the same where there is none to take.

    `owned` is what the member says that it has; None where it did not say.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                return member
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_has(owned, member.pending_revocation):
                return member
        case MemberState.UNRELEASED_PARTITIONS:
            pass
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise Refused(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    f"the member {member.id!r} is in a state that this version does not know: "
                    "it must give up its partitions and join again",
                )
    return _next(member, target, target_epoch, owned, is_free)


def _next(
    member: Member, target: Partitions, target_epoch: int, owned: Partitions | None, is_free: IsFree
) -> Member:
    kept = {one: epoch for one, epoch in member.assigned.items() if one in target}
    leaving = {one: epoch for one, epoch in member.assigned.items() if one not in target}
    if leaving and _still_has(owned, leaving):
        return member.moved(MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, leaving)
    wanted = target - member.partitions
    coming = {one: target_epoch for one in sorted(wanted) if is_free(one)}
    state = MemberState.STABLE if len(coming) == len(wanted) else MemberState.UNRELEASED_PARTITIONS
    if not coming and not leaving and member.epoch == target_epoch and member.state is state:
        return member
    return member.moved(state, target_epoch, kept | coming, NOTHING_ASSIGNED)


def _still_has(owned: Partitions | None, leaving: Assigned) -> bool:
    # A member that does not say what it has may have all of it.
    return owned is None or not owned.isdisjoint(leaving)

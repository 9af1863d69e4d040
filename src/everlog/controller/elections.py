"""Elections: who leads a partition and who is in sync, once its brokers have changed (R5-R7, KIP-966).

A replica is in the ISR while it has all that is committed. Who leaves it while too few are left still has all
that was committed then: it stays eligible (ELR) until enough are in sync again, and may lead if nobody of the
ISR can. Whoever stopped uncleanly may have lost its tail, and is neither.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from everlog.metadata.image import NO_LEADER, PartitionImage
from everlog.model.ids import LeaderEpoch

NOBODY = frozenset[int]()


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What counts for one partition."""

    active: Collection[int]
    """Brokers that are alive and not on their way out: they may lead and be in sync."""
    least_in_sync: int = 1
    unclean_allowed: bool = False
    """`unclean.leader.election.enable`: whether a replica that may lack records is better than none."""


def without(
    partition: PartitionImage,
    brokers: Collection[int],
    circumstances: Circumstances,
    *,
    unclean: Collection[int] = NOBODY,
) -> PartitionImage | None:
    """The partition when brokers can be counted on no more; None if nothing changes for it.

    Those in `unclean` have stopped in a way that may have cost them records: they are not eligible either.
    """
    isr = tuple(one for one in partition.isr if one not in brokers and one not in unclean)
    left = {one for one in partition.isr if one not in isr} - set(unclean)
    eligible = _eligible(partition, isr, left, unclean, circumstances)
    last_known = partition.last_known_leaders
    if not isr and partition.leader != NO_LEADER:
        last_known = (partition.leader,)
    changed = replace(partition, isr=isr, eligible_leaders=eligible, last_known_leaders=last_known)
    return _settled(
        partition, elect(changed, circumstances), must_bump=any(one in unclean for one in partition.isr)
    )


def with_isr(
    partition: PartitionImage, isr: Iterable[int], circumstances: Circumstances
) -> PartitionImage | None:
    """The partition with the ISR that its leader has proposed."""
    wanted = tuple(isr)
    left = set(partition.isr) - set(wanted)
    eligible = _eligible(partition, wanted, left, NOBODY, circumstances)
    changed = replace(partition, isr=wanted, eligible_leaders=eligible)
    if len(wanted) >= circumstances.least_in_sync:
        changed = replace(changed, last_known_leaders=())
    return _settled(partition, elect(changed, circumstances))


def with_leader_wanted(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage | None:
    """The partition when brokers have come (back), if it has no leader; None if nothing changes."""
    if partition.leader != NO_LEADER and partition.leader in circumstances.active:
        return None
    return _settled(partition, elect(partition, circumstances))


def with_preferred_leader(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage | None:
    """The partition led by the first of its replicas; None if that is not in sync, or leads already."""
    first = partition.replicas[0]
    if partition.leader == first or first not in partition.isr or first not in circumstances.active:
        return None
    return _settled(partition, replace(partition, leader=first))


def elect(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage:
    """The same with a leader that may lead; nobody if there is none, and none of the ISR is lost by that."""
    active = circumstances.active
    if partition.leader in partition.isr and partition.leader in active:
        return partition
    for one in partition.replicas:
        if one in partition.isr and one in active:
            return replace(partition, leader=one)
    for one in partition.replicas:
        if one in partition.eligible_leaders and one in active:
            # It has all that was committed. It alone is known to be in sync with itself.
            rest = tuple(each for each in partition.eligible_leaders if each != one)
            return replace(partition, leader=one, isr=(one,), eligible_leaders=rest, last_known_leaders=())
    if circumstances.unclean_allowed:
        for one in partition.replicas:
            if one in active:
                return replace(
                    partition,
                    leader=one,
                    isr=(one,),
                    eligible_leaders=(),
                    last_known_leaders=(),
                    recovering=True,
                )
    return replace(partition, leader=int(NO_LEADER))


def _eligible(
    partition: PartitionImage,
    isr: Collection[int],
    left: Collection[int],
    unclean: Collection[int],
    circumstances: Circumstances,
) -> tuple[int, ...]:
    if len(isr) >= circumstances.least_in_sync:
        return ()
    # While too few are in sync nothing more is committed, so that whoever left then still has all of it.
    known = set(partition.eligible_leaders) | set(left)
    kept = [one for one in partition.replicas if one in known and one not in isr and one not in unclean]
    return tuple(kept)


def _settled(
    before: PartitionImage, after: PartitionImage, *, must_bump: bool = False
) -> PartitionImage | None:
    if after == before:
        return None
    bump = after.leader != before.leader or must_bump
    epoch = LeaderEpoch(before.leader_epoch + 1) if bump else before.leader_epoch
    return replace(after, leader_epoch=epoch, partition_epoch=before.partition_epoch + 1)

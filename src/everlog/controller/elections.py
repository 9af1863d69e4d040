"""Elections: who leads a partition and who is in sync, once its brokers have changed (R5-R7, KIP-966).

A replica is in the ISR while it has all that is committed. Who leaves it while too few are left still has all
that was committed then: it stays eligible (ELR) until enough are in sync again, and may lead if nobody of the
ISR can. Whoever stopped uncleanly may have lost its tail, and is neither. Where nobody is left in either, the
last that led may lead again, for nobody can have more than it had; any other only where
`unclean.leader.election.enable` says so, or somebody asks for it. Both may cost records, and both mark the
partition as recovering.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from everlog.metadata.image import NO_LEADER, PartitionImage
from everlog.model.ids import LeaderEpoch, Uuid

NOBODY = frozenset[int]()


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What counts for one partition."""

    active: Collection[int]
    """Brokers that are alive and not on their way out: they may lead and be in sync."""
    least_in_sync: int = 1
    """`min.insync.replicas`; a partition with fewer replicas needs no more than it has."""
    unclean_allowed: bool = False
    """`unclean.leader.election.enable`: whether a replica that may lack records is better than none."""

    def but(self, brokers: Collection[int]) -> "Circumstances":
        """The same where some brokers cannot be counted on."""
        if not any(one in self.active for one in brokers):
            return self
        return replace(self, active=frozenset(self.active).difference(brokers))


def without(
    partition: PartitionImage,
    brokers: Collection[int],
    circumstances: Circumstances,
    *,
    unclean: Collection[int] = NOBODY,
) -> PartitionImage | None:
    """The partition when brokers can be counted on no more; None if nothing changes for it.

    Those in `unclean` have stopped in a way that may have cost them records: they are not eligible either,
    and where one was in sync the leader epoch is a new one: what it had counts no more (KAFKA-18106).
    """
    isr = tuple(one for one in partition.isr if one not in brokers and one not in unclean)
    changed = _with_isr(partition, isr, circumstances, unclean)
    return settled(
        partition,
        elect(changed, circumstances.but((*brokers, *unclean))),
        must_bump=any(one in unclean for one in partition.isr),
    )


def with_isr(
    partition: PartitionImage,
    isr: Iterable[int],
    circumstances: Circumstances,
    *,
    recovering: bool | None = None,
) -> PartitionImage | None:
    """The partition with the ISR that its leader has proposed; a reassignment that waited for it is done.

    `recovering` is what the leader says of itself after an unclean election; None leaves it as it is.
    """
    changed = _with_isr(partition, tuple(isr), circumstances, NOBODY)
    if recovering is not None:
        changed = replace(changed, recovering=recovering)
    return settled(partition, elect(completed(changed, circumstances), circumstances))


def with_leader_wanted(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage | None:
    """The partition when brokers have come (back), if it has no leader; None if nothing changes."""
    if partition.leader != NO_LEADER:
        return None
    return settled(partition, elect(partition, circumstances))


def with_enough_in_sync(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage | None:
    """The partition when it needs fewer in sync than before: if it has enough, nobody else is eligible."""
    return settled(partition, _with_isr(partition, partition.isr, circumstances, NOBODY))


def with_preferred_leader(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage | None:
    """The partition led by the first of its replicas; None if that is not in sync, or leads already."""
    first = partition.replicas[0]
    if partition.leader == first or first not in circumstances.active:
        return None
    if first in partition.isr:
        return settled(partition, replace(partition, leader=first, last_known_leaders=()))
    if not partition.isr and first in partition.eligible_leaders:
        return settled(partition, _led_by_eligible(partition, first, circumstances))
    return None


def with_replicas(
    partition: PartitionImage,
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    directories: tuple[Uuid, ...],
    circumstances: Circumstances,
) -> PartitionImage | None:
    """The partition held by others; who holds it no more is not in sync. None if nothing changes."""
    changed = replace(partition, replicas=replicas, adding=adding, removing=removing, directories=directories)
    isr = tuple(one for one in partition.isr if one in replicas)
    changed = completed(_with_isr(changed, isr, circumstances, NOBODY), circumstances)
    return settled(partition, elect(changed, circumstances))


def completed(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage:
    """The same, its reassignment done if all who are to hold it are in sync (KIP-455)."""
    if not partition.adding and not partition.removing:
        return partition
    stay = [at for at, one in enumerate(partition.replicas) if one not in partition.removing]
    replicas = tuple(partition.replicas[at] for at in stay)
    if not replicas or any(one not in partition.isr for one in replicas):
        return partition
    known = len(partition.directories) == len(partition.replicas)
    done = replace(
        partition,
        replicas=replicas,
        adding=(),
        removing=(),
        directories=tuple(partition.directories[at] for at in stay) if known else partition.directories,
    )
    return _with_isr(done, tuple(one for one in partition.isr if one in replicas), circumstances, NOBODY)


def elect(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage:
    """The same with a leader that may lead; nobody if there is none, and none of the ISR is lost by that."""
    active = circumstances.active
    if partition.leader in partition.isr and partition.leader in active:
        return partition
    for one in partition.replicas:
        if one in partition.isr and one in active:
            return replace(partition, leader=one, last_known_leaders=())
    if partition.isr:
        # Those in sync are all on their way out, and are taken out of here one broker at a time.
        return partition if partition.leader in partition.isr else replace(partition, leader=int(NO_LEADER))
    for one in partition.replicas:
        if one in partition.eligible_leaders and one in active:
            return _led_by_eligible(partition, one, circumstances)
    uncleanly = _unclean_leader(partition, circumstances)
    if uncleanly is not None:
        return replace(
            partition,
            leader=uncleanly,
            isr=(uncleanly,),
            eligible_leaders=(),
            last_known_leaders=(),
            recovering=True,
        )
    return replace(partition, leader=int(NO_LEADER))


def least_in_sync(partition: PartitionImage, circumstances: Circumstances) -> int:
    """How many must be in sync for more to be committed, as far as we may count on it.

    The leader counts those that are being added, so it may wait for more than this, and never for fewer:
    were it for fewer, it would commit what the eligible ones do not have.
    """
    return min(circumstances.least_in_sync, max(1, len(partition.replicas) - len(partition.adding)))


def settled(
    before: PartitionImage, after: PartitionImage, *, must_bump: bool = False
) -> PartitionImage | None:
    """`after` with the epochs that it gets as the successor of `before`; None if nothing is different.

    Another leader is another leader epoch, and so is one replica less: the leader must not go on counting
    with who holds the partition no more.
    """
    if after == before and not must_bump:
        return None
    fewer = any(one not in after.replicas for one in before.replicas)
    bump = after.leader != before.leader or must_bump or fewer
    epoch = LeaderEpoch(before.leader_epoch + 1) if bump else before.leader_epoch
    return replace(after, leader_epoch=epoch, partition_epoch=before.partition_epoch + 1)


def _led_by_eligible(partition: PartitionImage, one: int, circumstances: Circumstances) -> PartitionImage:
    # It has all that was committed. It alone is known to be in sync with itself; where that is enough, it
    # goes on committing, and what it commits then the others do not have.
    rest: tuple[int, ...] = ()
    if least_in_sync(partition, circumstances) > 1:
        rest = tuple(each for each in partition.eligible_leaders if each != one)
    return replace(partition, leader=one, isr=(one,), eligible_leaders=rest, last_known_leaders=())


def _unclean_leader(partition: PartitionImage, circumstances: Circumstances) -> int | None:
    active = circumstances.active
    if not partition.eligible_leaders and len(partition.last_known_leaders) == 1:
        (last,) = partition.last_known_leaders
        if last in active and last in partition.replicas:
            return last
    if circumstances.unclean_allowed:
        for one in partition.replicas:
            if one in active:
                return one
    return None


def _with_isr(
    partition: PartitionImage, isr: tuple[int, ...], circumstances: Circumstances, unclean: Collection[int]
) -> PartitionImage:
    """The same with another ISR, who is eligible, and who led last if nobody is in sync."""
    last_known = partition.last_known_leaders
    if isr:
        last_known = ()
    elif partition.leader != NO_LEADER:
        last_known = (partition.leader,)
    eligible: tuple[int, ...] = ()
    if len(isr) < least_in_sync(partition, circumstances):
        # While too few are in sync nothing more is committed, so that whoever left then still has all of it.
        known = (*partition.eligible_leaders, *partition.isr)
        eligible = tuple(
            one for one in partition.replicas if one in known and one not in isr and one not in unclean
        )
    return replace(partition, isr=isr, eligible_leaders=eligible, last_known_leaders=last_known)

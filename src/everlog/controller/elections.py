"""Elections: who leads a partition and who is in sync, once its brokers have changed (R5-R7, KIP-966).

A replica is in the ISR while it has all that is committed. Who leaves it while too few are left still has all
that was committed then: it stays eligible (ELR) until enough are in sync again, and may lead if nobody of the
ISR can. Whoever stopped uncleanly may have lost its tail, and is neither; of those that could have led before
it stays known that they could. Where nobody is left in either, these are asked how far their logs reach, and
whoever has most leads (`with_recovered_leader`). Any other leads only where
`unclean.leader.election.enable` says so, or somebody asks for it. Both may cost records, and both mark the
partition as recovering.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from everlog.metadata.image import NO_LEADER, UNASSIGNED_DIRECTORY, PartitionImage, stands_for_none
from everlog.model.dataclass import dataclass
from everlog.model.ids import LeaderEpoch, Uuid

NOBODY = frozenset[int]()
_NONE = int(NO_LEADER)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What counts for one partition."""

    active: Collection[int]
    """Brokers that are alive and not on their way out: they may lead and be in sync."""
    least_in_sync: int = 1
    """`min.insync.replicas`; a partition with fewer replicas needs no more than it has."""
    unclean_allowed: bool = False
    """`unclean.leader.election.enable`: whether a replica that may lack records is better than none."""
    directories: Mapping[int, Collection[Uuid]] | None = None
    """The log directories that each broker can use (KIP-858); None where all can be taken for usable."""

    def may_lead(self, broker: int, partition: "PartitionImage | Draft") -> bool:
        """Whether a replica's broker is active and can use the directory that the replica lies in."""
        if broker not in self.active:
            return False
        usable = None if self.directories is None else self.directories.get(broker)
        if usable is None:
            return True
        directory = partition.directory_of(broker)
        return directory in usable or stands_for_none(directory)

    def but(self, brokers: Collection[int]) -> "Circumstances":
        """The same where some brokers cannot be counted on."""
        for one in brokers:
            if one in self.active:
                return replace(self, active=frozenset(self.active).difference(brokers))
        return self


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
    isr: list[int] = []
    must_bump = False
    for one in partition.isr:
        if one in unclean:
            must_bump = True
        elif one not in brokers:
            isr.append(one)
    draft = Draft(partition)
    draft.set_isr(tuple(isr), circumstances, unclean)
    draft.elect(circumstances.but((*brokers, *unclean) if unclean else brokers))
    return draft.settled(must_bump=must_bump)


def with_damaged(
    partition: PartitionImage, broker: int, circumstances: Circumstances
) -> PartitionImage | None:
    """The partition when a replica lacks records that it should have, as one that stopped uncleanly does.

    A leader epoch begins in any case: what the leader knows of the replica, it knows from before. None, so
    that nothing changes, where nobody else in sync can lead: it may have the only copy of the rest.
    """
    if all(one == broker or not circumstances.may_lead(one, partition) for one in partition.isr):
        return None
    draft = Draft(partition)
    draft.set_isr(tuple(one for one in partition.isr if one != broker), circumstances, (broker,))
    draft.elect(circumstances.but((broker,)))
    return draft.settled(must_bump=True)


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
    draft = Draft(partition)
    draft.set_isr(tuple(isr), circumstances)
    if recovering is not None:
        draft.recovering = recovering
    draft.complete(circumstances)
    draft.elect(circumstances)
    return draft.settled()


def with_leader_wanted(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage | None:
    """The partition when brokers have come (back), if it has no leader; None if nothing changes."""
    if partition.leader != NO_LEADER:
        return None
    draft = Draft(partition)
    draft.elect(circumstances)
    return draft.settled()


@dataclass(frozen=True, slots=True, order=True)
class LogEnd:
    """How far a replica's log reaches, as it says itself.

    Of two logs the greater one has all that is committed in the other: who has a record of a newer epoch has
    followed its leader, who had all that was committed before, and one epoch has one order of records.
    """

    last_epoch: int
    """The leader epoch of its last record."""
    end: int


def needs_recovery(partition: PartitionImage) -> bool:
    """Whether nobody may lead before those that were eligible have said what their unclean stops left."""
    return (
        partition.leader == NO_LEADER
        and not partition.eligible_leaders
        and bool(partition.last_known_eligible)
        and len(partition.replicas) > 1
    )


def with_recovered_leader(
    partition: PartitionImage, ends: Mapping[int, LogEnd], circumstances: Circumstances
) -> PartitionImage | None:
    """The partition led by the one, of those that said how far their logs reach, whose log reaches furthest.

    None, unless all that were eligible last have said it and are alive: one of them may be the only one that
    still has a record. Where the loss of records was accepted, those that are there are enough.
    """
    if not needs_recovery(partition):
        return None
    said = [one for one in partition.replicas if one in ends and circumstances.may_lead(one, partition)]
    missing = [one for one in partition.last_known_eligible if one not in said]
    if not said or (missing and not circumstances.unclean_allowed):
        return None
    draft = Draft(partition)
    draft.lead_uncleanly(max(said, key=ends.__getitem__))
    return draft.settled()


def with_enough_in_sync(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage | None:
    """The partition when it needs fewer in sync than before: if it has enough, nobody else is eligible."""
    draft = Draft(partition)
    draft.set_isr(partition.isr, circumstances)
    return draft.settled()


def with_preferred_leader(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage | None:
    """The partition led by the first of its replicas; None if that is not in sync, or leads already."""
    first = partition.replicas[0]
    if partition.leader == first or not circumstances.may_lead(first, partition):
        return None
    draft = Draft(partition)
    if first in partition.isr:
        draft.leader = first
    elif not partition.isr and first in partition.eligible_leaders:
        draft.lead_by_eligible(first, circumstances)
    return draft.settled()


def with_replicas(
    partition: PartitionImage,
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    directories: tuple[Uuid, ...],
    circumstances: Circumstances,
) -> PartitionImage | None:
    """The partition held by others; who holds it no more is not in sync. None if nothing changes."""
    draft = Draft(partition)
    draft.replicas, draft.adding, draft.removing = replicas, adding, removing
    draft.directories = directories
    draft.set_isr(tuple(one for one in partition.isr if one in replicas), circumstances)
    draft.complete(circumstances)
    draft.elect(circumstances)
    return draft.settled()


def with_directories(
    partition: PartitionImage,
    directories: tuple[Uuid, ...],
    lost: Collection[int],
    circumstances: Circumstances,
    *,
    renewed: Collection[int] = NOBODY,
) -> PartitionImage | None:
    """The partition with its replicas in these directories; those in `lost` cannot be reached there.

    Those in `renewed` were lost with another directory and begin without records: they are eligible no more.
    """
    draft = Draft(partition)
    draft.directories = directories
    if lost or renewed:
        isr = tuple(one for one in partition.isr if one not in lost and one not in renewed)
        draft.set_isr(isr, circumstances, renewed)
        draft.elect(circumstances.but(lost))
    return draft.settled()


def least_in_sync(partition: "PartitionImage | Draft", circumstances: Circumstances) -> int:
    """How many must be in sync for more to be committed, as far as we may count on it.

    The leader counts those that are being added, so it may wait for more than this, and never for fewer:
    were it for fewer, it would commit what the eligible ones do not have.
    """
    own = len(partition.replicas) - len(partition.adding)
    least = circumstances.least_in_sync
    return least if least <= own else own or 1


class Draft:
    """A partition that is being changed. A failover changes very many, so each is copied once and no more."""

    __slots__ = (
        "_before",
        "adding",
        "directories",
        "eligible_leaders",
        "isr",
        "last_known_eligible",
        "leader",
        "recovering",
        "removing",
        "replicas",
    )

    def __init__(self, before: PartitionImage) -> None:
        self._before = before
        self.replicas: tuple[int, ...] = before.replicas
        self.isr: tuple[int, ...] = before.isr
        self.leader: int = before.leader
        self.directories: tuple[Uuid, ...] = before.directories
        self.removing: tuple[int, ...] = before.removing
        self.adding: tuple[int, ...] = before.adding
        self.recovering: bool = before.recovering
        self.eligible_leaders: tuple[int, ...] = before.eligible_leaders
        self.last_known_eligible: tuple[int, ...] = before.last_known_eligible

    def directory_of(self, broker: int) -> Uuid:
        """The directory in which one of its replicas lies, as far as it is known."""
        at = self.replicas.index(broker)
        return self.directories[at] if at < len(self.directories) else UNASSIGNED_DIRECTORY

    def set_isr(
        self, isr: tuple[int, ...], circumstances: Circumstances, unclean: Collection[int] = NOBODY
    ) -> None:
        """Give it another ISR, and with it who is eligible, and who was before it stopped uncleanly."""
        if len(isr) >= least_in_sync(self, circumstances):
            self.eligible_leaders = self.last_known_eligible = ()
        else:
            # While too few are in sync nothing more is committed: whoever leaves then has all of it, but for
            # what its disk may have lost.
            known = (*self.eligible_leaders, *self.isr)
            self.eligible_leaders = tuple(
                [one for one in self.replicas if one in known and one not in isr and one not in unclean]
            )
            if unclean or self.last_known_eligible:
                doubted = [one for one in known if one in unclean]
                doubted.extend(self.last_known_eligible)
                self.last_known_eligible = tuple(
                    [one for one in self.replicas if one in doubted and one not in isr]
                )
        self.isr = isr

    def complete(self, circumstances: Circumstances) -> None:
        """End its reassignment if all who are to hold it are in sync (KIP-455)."""
        if not self.adding and not self.removing:
            return
        stay = [at for at, one in enumerate(self.replicas) if one not in self.removing]
        replicas = tuple(self.replicas[at] for at in stay)
        if not replicas or any(one not in self.isr for one in replicas):
            return
        if len(self.directories) == len(self.replicas):
            self.directories = tuple(self.directories[at] for at in stay)
        self.replicas, self.adding, self.removing = replicas, (), ()
        self.set_isr(tuple(one for one in self.isr if one in replicas), circumstances)

    def elect(self, circumstances: Circumstances) -> None:
        """Give it a leader that may lead, or none."""
        isr = self.isr
        if self.leader in isr and self.leader in circumstances.active:
            return
        for one in self.replicas:
            if one in isr and circumstances.may_lead(one, self):
                self.leader = one
                return
        if isr:
            # Those in sync are all on their way out. One that leads does so until it is taken out of here;
            # others would never lead, so they are in sync with nobody.
            if self.leader in isr:
                return
            self.set_isr((), circumstances)
        for one in self.replicas:
            if one in self.eligible_leaders and circumstances.may_lead(one, self):
                self.lead_by_eligible(one, circumstances)
                return
        self._elect_uncleanly(circumstances)

    def lead_by_eligible(self, one: int, circumstances: Circumstances) -> None:
        """Let one lead that is eligible, where nobody is in sync."""
        # It has all that was committed. It alone is known to be in sync with itself; where that is enough, it
        # goes on committing, and what it commits then the others do not have.
        enough = least_in_sync(self, circumstances) == 1
        if enough:
            self.eligible_leaders = self.last_known_eligible = ()
        else:
            self.eligible_leaders = tuple(each for each in self.eligible_leaders if each != one)
        self.leader = one
        self.isr = (one,)

    def _elect_uncleanly(self, circumstances: Circumstances) -> None:
        self.leader = _NONE
        chosen = self._unclean_leader(circumstances)
        if chosen is not None:
            self.lead_uncleanly(chosen)

    def lead_uncleanly(self, one: int) -> None:
        """Let one lead that may lack records; what others have beyond it is given up."""
        self.leader = one
        self.isr = (one,)
        self.eligible_leaders = self.last_known_eligible = ()
        self.recovering = True

    def _unclean_leader(self, circumstances: Circumstances) -> int | None:
        known = self.last_known_eligible
        if len(self.replicas) == 1 and not self.eligible_leaders and known == self.replicas:
            # Whatever it has lost, nobody else can have it.
            return known[0] if circumstances.may_lead(known[0], self) else None
        if circumstances.unclean_allowed:
            for one in (*known, *self.replicas):
                if one in self.replicas and circumstances.may_lead(one, self):
                    return one
        return None

    def settled(self, *, must_bump: bool = False) -> PartitionImage | None:
        """The partition with the epochs that it gets; None if nothing is different.

        Another leader is another leader epoch, and so is one replica less: the leader must not go on
        counting with who holds the partition no more.
        """
        before = self._before
        bump = must_bump or self.leader != before.leader
        if self.replicas != before.replicas:
            bump = bump or any(one not in self.replicas for one in before.replicas)
        elif not bump and self._same_as(before):
            return None
        return PartitionImage(
            self.replicas,
            self.isr,
            self.leader,
            LeaderEpoch(before.leader_epoch + 1) if bump else before.leader_epoch,
            before.partition_epoch + 1,
            self.directories,
            self.removing,
            self.adding,
            self.recovering,
            self.eligible_leaders,
            self.last_known_eligible,
        )

    def _same_as(self, before: PartitionImage) -> bool:
        return (
            self.isr == before.isr
            and self.eligible_leaders == before.eligible_leaders
            and self.last_known_eligible == before.last_known_eligible
            and self.recovering == before.recovering
            and self.directories == before.directories
            and self.adding == before.adding
            and self.removing == before.removing
        )

"""What must hold of the quorum and of what it has decided, after every step of any member."""

from typing import Protocol

from everlog.metadata.image import ClusterImage, PartitionImage
from everlog.model.ids import Offset, Uuid
from everlog.raft.member import QuorumMember

_Batch = tuple[int, int, int]
Place = tuple[bytes, int]
"""A partition: the id of its topic, whose name others may have had or get, and its number."""


class Holder(Protocol):
    """Says who has what."""

    def has_all(self, node_id: int, place: Place) -> bool:
        """Whether a node has all that is committed of a partition, or cannot be asked."""
        ...


class QuorumGhosts:
    """Remembers what any member called committed, and who led when."""

    def __init__(self) -> None:
        self.committed_end = 0
        self._batches: dict[int, _Batch] = {}
        """What is committed, by first offset: the offset behind it, checksum, epoch."""
        self._leaders: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        """Up to where each node has called its log committed in its present life."""

    def began(self, node_id: int) -> None:
        """A node begins a life: it learns anew what is committed."""
        self._ends[node_id] = 0

    def step(self, member: QuorumMember) -> None:
        """Look at a member; AssertionError names what does not hold."""
        node_id, epoch = member.node_id, member.epoch
        # A node may go back to an earlier epoch, where it died or its disk failed before it had written down
        # the newer one. Nobody has heard of that then, and so nobody can have been elected twice.
        if member.leader is not None:
            leader = self._leaders.setdefault(epoch, member.leader)
            assert leader == member.leader, f"epoch {epoch} is led by {leader} and {member.leader}"
        high, known = int(member.high_watermark), self._ends.get(node_id, 0)
        if high > known:
            assert high <= member.end_offset, (
                f"node {node_id} calls {high} committed, has {member.end_offset}"
            )
            # What is below a snapshot is in no log any more.
            self._compare(member, max(known, int(member.start_offset)), high)
            self._ends[node_id] = high

    def _compare(self, member: QuorumMember, start: int, end: int) -> None:
        for batch in member.batches(Offset(start), Offset(end)):
            base = int(batch.base_offset)
            found = (int(batch.next_offset), int(batch.crc), int(batch.leader_epoch))
            known = self._batches.get(base)
            if known is None:
                assert base >= self.committed_end, (
                    f"node {member.node_id} has {found} at {base}, not committed"
                )
                self._batches[base] = found
            else:
                assert known == found, f"node {member.node_id} has {found} at {base}, committed was {known}"
        self.committed_end = max(self.committed_end, end)


class ImageGhosts:
    """Looks at each image of the cluster once, in the order of the metadata log."""

    def __init__(self, holder: Holder, least_in_sync: int) -> None:
        self.newest: ClusterImage | None = None
        self.changes: list[str] = []
        """What the last image changed about partitions, in words."""
        self._holder = holder
        self._least = least_in_sync
        self.seen: dict[Place, PartitionImage] = {}
        """The partitions as the newest image has them."""
        self._epochs: dict[int, int] = {}
        """The epoch under which each broker was last registered."""
        self._ended: dict[int, set[Uuid]] = {}
        """By node, the lives that have stopped uncleanly since one of later was registered."""
        self._back: set[Uuid] = set()
        """The lives that began after such a stop."""

    def began(self, node_id: int, life: Uuid) -> None:
        """A node begins a life."""
        if self._ended.get(node_id):
            self._back.add(life)

    def stopped_uncleanly(self, node_id: int, life: Uuid) -> None:
        """A node has ended a life without a word; that life may yet be registered by what it sent before."""
        self._ended.setdefault(node_id, set()).add(life)

    def step(self, image: ClusterImage) -> None:
        """Look at an image that a node has published, if it is newer than any before."""
        if self.newest is not None and image.end_offset <= self.newest.end_offset:
            return
        self.newest = image
        self.changes = []
        for broker in image.brokers.values():
            if broker.epoch != self._epochs.get(broker.id):
                self._epochs[broker.id] = broker.epoch
                if broker.incarnation in self._back:
                    self._check_excluded(image, broker.id)
                self._ended[broker.id] = self._ended.get(broker.id, set()) & {broker.incarnation}
        for topic in image.topics.values():
            for index, partition in enumerate(topic.partitions):
                place = (topic.id, index)
                before = self.seen.get(place)
                if partition is not before and partition != before:
                    self.seen[place] = partition
                    self._check(image, f"{topic.name}-{index}", place, before, partition)
        if len(self.seen) > image.partition_count:
            # Topics that are gone; one that is there has all the partitions that it ever had.
            for topic_id, index in [place for place in self.seen if place[0] not in image.topics_by_id]:
                del self.seen[topic_id, index]
        assert len(self.seen) == image.partition_count, (len(self.seen), image.partition_count)

    def _check(
        self,
        image: ClusterImage,
        name: str,
        place: Place,
        before: PartitionImage | None,
        now: PartitionImage,
    ) -> None:
        isr, elr, replicas = set(now.isr), set(now.eligible_leaders), set(now.replicas)
        what = (
            f"{name}: leader {now.leader} epoch {now.leader_epoch} isr {now.isr} elr {now.eligible_leaders}"
        )
        self.changes.append(what)
        assert isr <= replicas, f"{what}, replicas {now.replicas}"
        assert elr <= replicas, f"{what}, replicas {now.replicas}"
        assert not isr & elr, f"{what}: in both"
        assert len(isr) < self._least or not elr, (
            f"{what}: the ISR is large enough for no others to be eligible"
        )
        for member in (*now.isr, now.leader):
            broker = image.brokers.get(member)  # type: ignore[call-overload]  # ids are ints in images of partitions
            fenced = broker is None or broker.fenced
            # The last one in sync stays the last one in sync while it is away.
            assert member < 0 or not fenced or len(isr) <= 1, f"{what}: {member} is fenced"
        assert now.leader < 0 or now.leader in isr, f"{what}: the leader is not in sync"
        if before is not None:
            self._check_changes(what, before, now)
        for member in sorted(isr | elr):
            assert self._holder.has_all(member, place), f"{what}: {member} lacks what is committed"

    def _check_excluded(self, image: ClusterImage, node_id: int) -> None:
        """Whoever is back from an unclean stop leads nothing, and is in no ISR and eligible nowhere."""
        for topic in image.topics.values():
            for index, partition in enumerate(topic.partitions):
                places = {partition.leader, *partition.isr, *partition.eligible_leaders}
                assert node_id not in places, (
                    f"{node_id} is back from an unclean stop in {topic.name}-{index}"
                )

    def _check_changes(self, what: str, before: PartitionImage, now: PartitionImage) -> None:
        assert now.partition_epoch > before.partition_epoch, f"{what}: partition epoch {now.partition_epoch}"
        assert now.leader_epoch >= before.leader_epoch, f"{what}: the leader epoch was {before.leader_epoch}"
        if now.leader != before.leader and now.leader >= 0:
            assert now.leader_epoch > before.leader_epoch, f"{what}: another leader in the same epoch"
            if now.partition_epoch > before.partition_epoch + 1:
                return  # What was between the two came with others, and nobody has shown it.
            if before.last_known_eligible and not before.eligible_leaders and before.leader < 0:
                return  # Whoever has most may lead then; that it has everything, ghosts of partitions check.
            clean = {*before.isr, *before.eligible_leaders}
            if (before.adding or before.removing) and not (now.adding or now.removing):
                # The last of those that it moves to has joined the ISR, and with that the move is done.
                clean |= set(now.isr) - set(before.isr)
            assert now.leader in clean, f"{what}: it was not in sync before: {before}"

"""What must hold of a cluster after every step of any node: the quorum, its decisions, and the partitions."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from everlog.metadata.image import PartitionImage
from everlog.sim.cluster_plan import Mark
from everlog.sim.history import Recorder
from everlog.sim.partition_ghosts import PartitionGhosts
from everlog.sim.quorum_ghosts import ImageGhosts, Place, QuorumGhosts

if TYPE_CHECKING:
    from everlog.sim.machine import Machine

LEAST_IN_SYNC = 2


class ClusterGhosts:
    """Looks at nodes, and answers what the world asks about them."""

    def __init__(
        self,
        machines: "list[Machine]",
        recorder: Recorder,
        ids: Mapping[str, bytes],
        say: Callable[[str], None],
    ) -> None:
        """`ids` are those of topics, by what the history calls them."""
        self._machines = machines
        self._say = say
        self.rotted: dict[Place, int] = {}
        """By partition, the node on whose disk a bit of it has changed."""
        self.partitions = PartitionGhosts(recorder, ids, self._counts, self.rotted)
        self.quorum = QuorumGhosts()
        self.images = ImageGhosts(self, LEAST_IN_SYNC)

    # As it happens.

    def recovered(self, machine: "Machine") -> None:
        """A node begins a life."""
        self.quorum.began(machine.node_id)
        self.partitions.began(machine.node_id)
        assert machine.node is not None
        self.images.began(machine.node_id, machine.node.lifecycle.incarnation)

    def stopped(self, machine: "Machine", *, clean: bool) -> None:
        """A node ends its life."""
        if not clean and machine.node is not None:
            self.images.stopped_uncleanly(machine.node_id, machine.node.lifecycle.incarnation)

    def step(self, machine: "Machine") -> None:
        """Look at a node; AssertionError names what does not hold."""
        node = machine.node
        if node is None:
            return
        self.quorum.step(node.quorum)
        if machine.serving:
            # First what logs have, then who is said to have it.
            self.partitions.step(machine)
        before = self.images.newest
        self.images.step(node.keeper.image)
        if self.images.newest is not before:
            for change in self.images.changes:
                self._say(change)
        self.partitions.check_standing()

    def has_all(self, node_id: int, place: Place) -> bool:
        """Whether a node has all that is committed of a partition, or cannot be asked."""
        machine = self._machines[node_id - 1]
        if machine.node is None or not machine.serving:
            return True
        return self.partitions.end_of(machine, place) is None or self.partitions.has_all(machine, place)

    def _counts(self, node_id: int, place: Place) -> bool:
        """Whether a node may lead a partition, as the newest image has it."""
        partition = self.images.seen.get(place)
        return partition is not None and (node_id in partition.isr or node_id in partition.eligible_leaders)

    # What the world asks.

    def is_marked(self, machine: "Machine", mark: Mark) -> bool:
        """Whether a machine is what a mark says."""
        node = machine.node
        if node is None:
            return False
        match mark:
            case Mark.ANY:
                return True
            case Mark.CONTROLLER:
                return node.quorum.is_active
            case Mark.LEADER | Mark.COORDINATOR:
                wanted = mark is Mark.COORDINATOR
                return machine.serving and any(
                    replica.leads and replica.internal is wanted for replica in node.broker.replicas
                )

    def is_broken(self, machine: "Machine") -> bool:
        """Whether its disk has failed a node: it is out of the quorum, or a log takes nothing more."""
        node = machine.node
        if node is None or not machine.serving:
            return False
        return node.quorum.epoch < 0 or any(
            replica.log is not None and replica.log.failure is not None for replica in node.broker.replicas
        )

    def has_copies_without(self, machines: "list[Machine]") -> bool:
        """Whether, for each partition, a node that runs has all of it, is in sync, and is none of these.

        Whoever stops uncleanly is out of sync by that, whatever its disk has kept. Two of them at once may be
        all that were in sync, and then nobody can tell which of them has lost something.
        """
        struck = {machine.node_id for machine in machines}
        return all(
            any(
                self._holds(member, place)
                for member in partition.isr
                if member not in struck and not self._is_proposed_out(member, place)
            )
            for place, partition in self.images.seen.items()
        )

    def whole_copies(self, place: Place, but: int) -> list[int]:
        """Who runs, is in sync with a partition and has all of it, but for one node."""
        partition = self.images.seen[place]
        return [
            one
            for one in partition.isr
            if one != but and self._holds(one, place) and not self._is_proposed_out(one, place)
        ]

    def _is_proposed_out(self, member: int, place: Place) -> bool:
        """Whether some leader wants a member out of the ISR, of which the controller may know already."""
        for machine in self._machines:
            if machine.node is None or not machine.serving:
                continue
            replica = machine.node.broker.replicas.get(*place)
            leading = None if replica is None else replica.leading
            if leading is not None and leading.proposed is not None and member not in leading.proposed:
                return True
        return False

    def _holds(self, node_id: int, place: Place) -> bool:
        machine = self._machines[node_id - 1]
        if machine.node is None or not machine.serving or self.rotted.get(place) == node_id:
            return False
        return self.partitions.has_all(machine, place)

    def converged(self) -> bool:
        """Whether every node serves and knows the same cluster, in which nothing moves any more.

        Every replica is in sync, and all of them end at the same offset.
        """
        if not all(machine.serving for machine in self._machines):
            return False
        if not all(
            partition.leader >= 0
            and not partition.adding
            and not partition.removing
            and len(partition.isr) == len(partition.replicas)
            and all(self.partitions.is_even(self._machines[one - 1], place) for one in partition.replicas)
            for place, partition in self.images.seen.items()
        ):
            return False
        images = [machine.node.keeper.image for machine in self._machines if machine.node is not None]
        if len({image.end_offset for image in images}) > 1:
            return False
        # However each came by it: entry by entry, from a snapshot, or from its own disk.
        for image in images[1:]:
            different = [
                f"{each.name}: {getattr(image, each.name)} and {getattr(images[0], each.name)}"
                for each in fields(image)
                # A snapshot does not say when features changed, only that they did before its end.
                if each.name != "features_offset"
                and getattr(image, each.name) != getattr(images[0], each.name)
            ]
            assert not different, f"two nodes know different clusters at the same offset: {different}"
        return True

    def state(self) -> str:
        """How things stand, for a failure's message."""
        nodes = ", ".join(
            f"{machine.name} {'serves' if machine.serving else 'down' if machine.node is None else 'starts'}"
            for machine in self._machines
        )
        newest = self.images.newest
        names: dict[bytes, str] = (
            {} if newest is None else {topic.id: topic.name for topic in newest.topics.values()}
        )
        parts = "; ".join(
            f"{names.get(place[0])}-{place[1]} leader {part.leader} epoch {part.leader_epoch} "
            f"replicas {part.replicas} isr {part.isr} elr {part.eligible_leaders} "
            f"adding {part.adding} removing {part.removing} ends {self._ends(place, part)}"
            for place, part in self.images.seen.items()
        )
        return f"{nodes}; {parts}"

    def _ends(self, place: Place, partition: PartitionImage) -> "dict[int, tuple[int, int] | None]":
        """By replica, its high watermark and its end."""
        return {one: self.partitions.ends_of(self._machines[one - 1], place) for one in partition.replicas}

"""What must hold of a cluster after every step of any node: the quorum, its decisions, and the partitions."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from everlog.metadata.image import PartitionImage
from everlog.sim.cluster_plan import Mark
from everlog.sim.history import Recorder
from everlog.sim.partition_ghosts import PartitionGhosts
from everlog.sim.quorum_ghosts import ImageGhosts, QuorumGhosts

if TYPE_CHECKING:
    from everlog.sim.machine import Machine

LEAST_IN_SYNC = 2


class ClusterGhosts:
    """Looks at nodes, and answers what the world asks about them."""

    def __init__(self, machines: "list[Machine]", recorder: Recorder, say: Callable[[str], None]) -> None:
        self._machines = machines
        self._say = say
        self.partitions = PartitionGhosts(recorder, self._counts)
        self.quorum = QuorumGhosts()
        self.images = ImageGhosts(self, LEAST_IN_SYNC)

    # As it happens.

    def recovered(self, machine: "Machine") -> None:
        """A node begins a life."""
        self.quorum.began(machine.node_id)
        self.partitions.began(machine.node_id)

    def stopped(self, machine: "Machine", *, clean: bool) -> None:
        """A node ends its life."""
        if not clean:
            self.images.unclean.add(machine.node_id)

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

    def has_all(self, node_id: int, name: str) -> bool:
        """Whether a node has all that is committed of a partition, or cannot be asked."""
        machine = self._machines[node_id - 1]
        if machine.node is None or not machine.serving:
            return True
        return self.partitions.end_of(machine, name) is None or self.partitions.has_all(machine, name)

    def _counts(self, node_id: int, name: str) -> bool:
        """Whether a node may lead a partition, as the newest image has it."""
        image = self.images.newest
        topic, _, number = name.rpartition("-")
        known = None if image is None else image.topics.get(topic)
        if known is None or int(number) >= len(known.partitions):
            return False
        partition = known.partitions[int(number)]
        return node_id in partition.isr or node_id in partition.eligible_leaders

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
                self._holds(member, name)
                for member in partition.isr
                if member not in struck and not self._is_proposed_out(member, name)
            )
            for name, partition in self._partitions()
        )

    def _is_proposed_out(self, member: int, name: str) -> bool:
        """Whether some leader wants a member out of the ISR, of which the controller may know already."""
        topic, _, number = name.rpartition("-")
        for machine in self._machines:
            if machine.node is None or not machine.serving:
                continue
            replica = machine.node.broker.replicas.get(topic, int(number))
            leading = None if replica is None else replica.leading
            if leading is not None and leading.proposed is not None and member not in leading.proposed:
                return True
        return False

    def _holds(self, node_id: int, name: str) -> bool:
        machine = self._machines[node_id - 1]
        return machine.node is not None and machine.serving and self.partitions.has_all(machine, name)

    def _partitions(self) -> "list[tuple[str, PartitionImage]]":
        image = self.images.newest
        if image is None:
            return []
        return [
            (f"{topic.name}-{index}", partition)
            for topic in image.topics.values()
            for index, partition in enumerate(topic.partitions)
        ]

    def converged(self) -> bool:
        """Whether every node serves, every replica is in sync, and all of them end at the same offset."""
        if not all(machine.serving for machine in self._machines):
            return False
        return all(
            partition.leader >= 0
            and len(partition.isr) == len(partition.replicas)
            and all(self.partitions.is_even(self._machines[one - 1], name) for one in partition.replicas)
            for name, partition in self._partitions()
        )

    def state(self) -> str:
        """How things stand, for a failure's message."""
        nodes = ", ".join(
            f"{machine.name} {'serves' if machine.serving else 'down' if machine.node is None else 'starts'}"
            for machine in self._machines
        )
        parts = "; ".join(
            f"{name} leader {part.leader} epoch {part.leader_epoch} isr {part.isr} "
            f"elr {part.eligible_leaders} "
            f"ends {self._ends(name, part)}"
            for name, part in self._partitions()
        )
        return f"{nodes}; {parts}"

    def _ends(self, name: str, partition: PartitionImage) -> "dict[int, tuple[int, int] | None]":
        """By replica, its high watermark and its end."""
        return {one: self.partitions.ends_of(self._machines[one - 1], name) for one in partition.replicas}

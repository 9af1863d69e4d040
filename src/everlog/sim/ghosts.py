"""What must hold after every step of a node, checked against what the world has seen of it so far."""

from everlog.broker.replicas import Replica
from everlog.node.node import Node
from everlog.sim.history import Outcome, Recorder


class Ghosts:
    """Remembers where logs have been, and what was acknowledged."""

    def __init__(self, recorder: Recorder, *, forgetful: bool) -> None:
        self._recorder = recorder
        self._forgetful = forgetful
        """Whether a restart may lose what was acknowledged."""
        self._seen = 0
        """How many operations of the history were looked at."""
        self.acknowledged: dict[str, int] = {}
        """By partition, the offset behind the last record that was acknowledged to its client."""
        self._ends: dict[str, tuple[int, int, int]] = {}
        """By partition: log start, last stable offset and high watermark after the last step of this life."""
        self._synced: dict[str, int] = {}
        """By partition: below it everything was durable when the machine last stopped."""

    def step(self, node: Node) -> None:
        """Look at every log that is open; AssertionError names what does not hold."""
        if not self._forgetful:
            self._take_in_acknowledged()
        for replica in node.broker.replicas:
            if replica.log is not None:
                self._check(replica)

    def _check(self, replica: Replica) -> None:
        name = str(replica.name)
        now = (
            int(replica.opened().start_offset),
            int(replica.last_stable_offset),
            int(replica.high_watermark),
        )
        before = self._ends.get(name)
        if now == before:
            return
        start, stable, high = now
        assert start <= stable <= high, (
            f"{name}: log start {start}, last stable {stable}, high watermark {high}"
        )
        if before is not None:
            for what, old, new in zip(
                ("log start", "last stable offset", "high watermark"), before, now, strict=True
            ):
                assert new >= old, f"the {what} of {name} fell from {old} to {new} within one life"
        acknowledged = self.acknowledged.get(name, 0)
        assert high >= acknowledged, f"{name} ends at {high}, acknowledged was up to {acknowledged}"
        self._ends[name] = now

    def stopped(self, node: Node) -> None:
        """The machine stops now; remember what the disk has promised to keep."""
        self._ends.clear()
        for replica in node.broker.replicas:
            if replica.log is not None:
                self._synced[str(replica.name)] = int(replica.log.recovery_point)

    def recovered(self, node: Node) -> dict[str, int]:
        """The node has read its disk: check that it kept its promises, and return where its logs end."""
        ends: dict[str, int] = {}
        for replica in node.broker.replicas:
            name = str(replica.name)
            end = ends[name] = int(replica.high_watermark)
            synced = self._synced.get(name, 0)
            assert end >= synced, f"{name} ends at {end} after a restart, {synced} was synced before"
            kept = self.acknowledged.get(name, 0)
            assert end >= kept, f"{name} ends at {end} after a restart, {kept} was acknowledged before"
        return ends

    def _take_in_acknowledged(self) -> None:
        operations = self._recorder.operations
        for operation in operations[self._seen :]:
            if operation.outcome is Outcome.OK:
                for sent in operation.sends:
                    if sent.offset is not None:
                        known = self.acknowledged.get(sent.partition, 0)
                        self.acknowledged[sent.partition] = max(known, sent.offset + 1)
        self._seen = len(operations)

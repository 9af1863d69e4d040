"""What must hold of replicated partitions after every step, checked against what any replica ever showed.

`committed` is the ghost of each partition: up to where some replica has called its log committed, and which
batches lie there. No replica may ever show others; whoever leads next must have them, and so must whoever is
in sync.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everlog.broker.replicas import Replica
from everlog.log.partition import PartitionLog
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset
from everlog.records.batch import whole_batches
from everlog.sim.history import Outcome, Recorder
from everlog.sim.quorum_ghosts import Place

if TYPE_CHECKING:
    from everlog.sim.machine import Machine

_CHUNK = 1 << 20
_Batch = tuple[int, int, int]
"""The offset behind a batch, its checksum, and its leader epoch."""


@dataclass(slots=True)
class Committed:
    """What is known of one partition, whoever holds it."""

    end: int = 0
    """The highest high watermark that any replica has shown."""
    batches: dict[int, _Batch] = field(default_factory=dict[int, _Batch])
    """All committed batches, by their first offsets."""
    acknowledged: int = 0
    """The offset behind the last record whose writer was told that it is there."""
    leaders: dict[int, int] = field(default_factory=dict[int, int])
    """Who has led in each leader epoch."""


@dataclass(slots=True)
class _Shown:
    """What one replica showed after its last step."""

    facts: tuple[int, int, int, int, int, bool]
    """Log start, last stable offset, high watermark, log end, leader epoch, whether it leads."""
    replica: Replica
    """Who showed it: a node that gives a partition up and gets it again begins anew."""
    compared: int = 0
    """Below it, the log was compared with what is committed."""
    led: int = -1
    """The last leader epoch in which its whole log was compared because it leads."""


class PartitionGhosts:
    """Remembers where every log has been."""

    def __init__(
        self,
        recorder: Recorder,
        ids: Mapping[str, bytes],
        counts: Callable[[int, Place], bool],
        rotted: Mapping[Place, int],
    ) -> None:
        """Hear from `counts` whether a node may lead a partition, as the newest metadata has it.

        `ids` are those of topics, by what the history calls them. `rotted` has, by partition, the node on
        whose disk a bit of it has changed: that one may refuse to show what was committed, and give it up.
        """
        self._counts = counts
        self._rotted = rotted
        self._ids = ids
        self.committed: dict[Place, Committed] = {}
        self._recorder = recorder
        self._gone: list[tuple[int, Replica]] = []
        self._begun: list[tuple[int, Replica, int]] = []
        self._seen = 0
        """How many operations of the history were looked at."""
        self._shown: dict[int, dict[Place, _Shown]] = {}
        """By node, what its replicas showed in its present life."""
        self._glanced: dict[int, dict[Replica, tuple[int, int, int, bool, int]]] = {}
        """The same as far as it takes to see that nothing has changed."""

    def of(self, place: Place) -> Committed:
        """What is known of a partition."""
        return self.committed.setdefault(place, Committed())

    def began(self, node_id: int) -> None:
        """A node begins a life: what it showed before, it need not show again."""
        self._shown[node_id] = {}
        self._glanced[node_id] = {}

    def step(self, machine: "Machine") -> None:
        """Look at every log of a node; AssertionError names what does not hold."""
        assert machine.node is not None
        self._take_in_acknowledged()
        glanced = self._glanced.setdefault(machine.node_id, {})
        held = 0
        for replica in machine.node.broker.replicas:
            held += 1
            log = replica.log
            if log is None:
                continue
            # Most steps change nothing here, and what is undecided changes with one of these.
            glance = (
                log.end_offset,
                replica.high_watermark,
                replica.leader_epoch,
                replica.leads,
                log.start_offset,
            )
            if glanced.get(replica) == glance:
                continue
            glanced[replica] = glance
            facts = (
                int(log.start_offset),
                int(replica.last_stable_offset),
                int(replica.high_watermark),
                int(log.end_offset),
                int(replica.leader_epoch),
                replica.leads,
            )
            shown = self._shown.setdefault(machine.node_id, {})
            before = shown.get((replica.topic_id, replica.name.partition))
            if before is not None and before.replica is not replica:
                self._given_up(machine, before.replica)
                before = None
            self._check(machine, replica, log, before, facts)
        if len(glanced) > held:
            for gone in [one for one in glanced if machine.node.broker.replicas.get(*_place(one)) is not one]:
                self._given_up(machine, gone)

    def check_standing(self) -> None:
        """Look at what a node gave up or began with in its step, with the metadata by which it did so."""
        for node_id, replica, end in self._begun:
            known = self.of(_place(replica)).end
            assert end >= known or not self._counts(node_id, _place(replica)), (
                f"node {node_id} begins with {replica.name} up to {end} and is in sync, committed was {known}"
            )
        self._begun.clear()
        for node_id, replica in self._gone:
            assert not self._counts(node_id, _place(replica)), (
                f"node {node_id} has given up {replica.name} and is in sync"
            )
        self._gone.clear()

    def _given_up(self, machine: "Machine", replica: Replica) -> None:
        """A node has a partition no more, or has it anew: nobody may count on what it had."""
        place = _place(replica)
        self._gone.append((machine.node_id, replica))
        self._glanced[machine.node_id].pop(replica, None)
        shown = self._shown[machine.node_id].get(place)
        if shown is not None and shown.replica is replica:
            del self._shown[machine.node_id][place]

    def _check(
        self,
        machine: "Machine",
        replica: Replica,
        log: PartitionLog,
        before: _Shown | None,
        facts: tuple[int, int, int, int, int, bool],
    ) -> None:
        start, stable, high, end, epoch, leads = facts
        place, who = _place(replica), f"{replica.name} on {machine.name}"
        has_rotted = self._rotted.get(place) == machine.node_id
        assert start <= high, f"{who}: log start {start}, high watermark {high}"
        assert stable <= high <= end, f"{who}: last stable {stable}, high watermark {high}, end {end}"
        if before is None:
            self._begun.append((machine.node_id, replica, end))
        else:
            assert epoch >= before.facts[4], f"{who} went back from epoch {before.facts[4]} to {epoch}"
            assert high >= before.facts[2] or has_rotted, (
                f"the high watermark of {who} fell from {before.facts[2]} to {high}"
            )
            if end < before.facts[3] and self._counts(machine.node_id, place) and not has_rotted:
                known = self.of(place).end
                assert end >= known, f"{who} is in sync and cuts its log to {end}, committed was {known}"
        compared, led = (min(before.compared, high), before.led) if before else (start, -1)
        now = _Shown(facts, replica, compared, led)
        self._shown[machine.node_id][place] = now
        committed = self.of(place)
        if leads:
            leader = committed.leaders.setdefault(epoch, machine.node_id)
            assert leader == machine.node_id, (
                f"epoch {epoch} of {replica.name} is led by {leader} and {machine.node_id}"
            )
            if epoch == max(committed.leaders):
                self._check_leader(who, log, committed, now, has_rotted)
        if high > now.compared:
            self._compare(who, log, committed, now.compared, high, has_rotted)
            now.compared = high

    def _check_leader(
        self, who: str, log: PartitionLog, committed: Committed, now: _Shown, has_rotted: bool
    ) -> None:
        """Whoever leads the newest epoch has everything that is committed, and all that was acknowledged."""
        end, epoch = now.facts[3], now.facts[4]
        assert end >= committed.end, f"{who} leads epoch {epoch} up to {end}, committed was {committed.end}"
        assert end >= committed.acknowledged, (
            f"{who} leads epoch {epoch} up to {end}, acknowledged was {committed.acknowledged}"
        )
        if now.led < epoch:
            now.led = epoch
            self._compare(who, log, committed, now.facts[0], committed.end, has_rotted)

    def _compare(
        self, who: str, log: PartitionLog, committed: Committed, start: int, end: int, has_rotted: bool
    ) -> None:
        """Compare a range that is committed with what is known to be there, and learn what is new."""
        damaged_at = log.damaged_at
        try:
            self._compare_whole(who, log, committed, start, end, has_rotted)
        except CorruptDataError:
            # It shows nobody what has rotted. That it was read here, it is not to know.
            log.damaged_at = damaged_at
            if not has_rotted:
                raise

    def _compare_whole(
        self, who: str, log: PartitionLog, committed: Committed, start: int, end: int, has_rotted: bool
    ) -> None:
        compacted, at = log.settings.cleanup_compact, max(start, int(log.start_offset))
        for base, batch in _batches(log, start, end):
            assert compacted or base <= at, f"{who} goes on at {base}, and ended at {at} before"
            at = batch[0]
            known = committed.batches.get(base)
            if known is None:
                assert base >= committed.end, (
                    f"{who} has a batch at {base} that was not committed there: {batch}"
                )
                committed.batches[base] = batch
            else:
                # Compaction takes records out of a batch, which keeps its place.
                same = known == batch or (compacted and (known[0], known[2]) == (batch[0], batch[2]))
                # No checksum covers the epoch, so that it may have rotted and nobody have noticed yet.
                same = same or (has_rotted and known[:2] == batch[:2])
                assert same, f"{who} has {batch} at {base}, committed was {known}"
        assert compacted or at >= end, f"{who} ends at {at}, committed is {end}"
        committed.end = max(committed.end, end)

    def has_all(self, machine: "Machine", place: Place) -> bool:
        """Whether a running node has all that is committed of a partition."""
        shown = self._shown.get(machine.node_id, {}).get(place)
        known = self.committed.get(place)
        if known is None or machine.node is None:
            return known is None
        return shown is not None and shown.facts[3] >= max(known.end, known.acknowledged)

    def end_of(self, machine: "Machine", place: Place) -> int | None:
        """Where a running node's log ended after its last step, if it has one."""
        shown = self._shown.get(machine.node_id, {}).get(place)
        return None if shown is None else shown.facts[3]

    def ends_of(self, machine: "Machine", place: Place) -> tuple[int, int] | None:
        """High watermark and end of a running node's log after its last step, if it has one."""
        shown = self._shown.get(machine.node_id, {}).get(place)
        return None if shown is None else (shown.facts[2], shown.facts[3])

    def is_even(self, machine: "Machine", place: Place) -> bool:
        """Whether a node has all of a partition and knows that all of it is committed."""
        shown = self._shown.get(machine.node_id, {}).get(place)
        known = self.committed.get(place)
        return known is None or (shown is not None and shown.facts[2] == shown.facts[3] == known.end)

    def _take_in_acknowledged(self) -> None:
        operations = self._recorder.operations
        for operation in operations[self._seen :]:
            if operation.outcome is Outcome.OK:
                for sent in operation.sends:
                    if sent.offset is not None:
                        topic, _, number = sent.partition.rpartition("-")
                        known = self.of((self._ids[topic], int(number)))
                        known.acknowledged = max(known.acknowledged, sent.offset + 1)
        self._seen = len(operations)


def _place(replica: Replica) -> Place:
    return replica.topic_id, replica.name.partition


def _batches(log: PartitionLog, start: int, end: int) -> Iterator[tuple[int, _Batch]]:
    """The batches of a log from one offset to another."""
    at = max(start, int(log.start_offset))
    while at < end:
        found = log.read(Offset(at), _CHUNK, Offset(end))
        if found is None:
            return
        for batch in whole_batches(found.read()):
            at = int(batch.next_offset)
            yield int(batch.base_offset), (at, int(batch.crc), int(batch.leader_epoch))

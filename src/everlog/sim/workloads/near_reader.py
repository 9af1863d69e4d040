"""A reader that asks from a rack, and reads from the follower that it is sent to (KIP-392)."""

from collections.abc import Mapping

from everlog.model.errors import ErrorCode
from everlog.sim.history import Bounds, Polled
from everlog.sim.script import Lost, Script, ask
from everlog.sim.workloads.actor import LOADING, Topic, error_name
from everlog.sim.workloads.content import read_batches
from everlog.sim.workloads.reader import Reader, a_fetch
from everlog.wire.messages.fetch import FetchResponse, PartitionData

_NEITHER = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NONE})


class NearReader(Reader):
    """Reads from whoever its leader names; goes back to the leader when that one does not answer well."""

    rack = ""
    reads_near = 0
    """How many answers of followers had something to say."""
    _asked = 0

    def fetch(
        self, topic: Topic, positions: dict[int, int], *, read_committed: bool
    ) -> Script[tuple[tuple[Polled, ...], tuple[Bounds, ...]] | None]:
        """Fetch each partition from its leader or from a follower near by."""
        polls: list[Polled] = []
        bounds: list[Bounds] = []
        heard = False
        for index in positions:
            leader = yield from self.routing.leader(topic, index)
            if leader is None:
                continue
            node, epochs = leader.node, {index: leader.epoch}
            found = yield from self._ask(node, topic, positions, epochs, read_committed)
            if found is not None and found.preferred_read_replica >= 0:
                node = found.preferred_read_replica
                found = yield from self._ask(node, topic, positions, epochs, read_committed)
            if found is None:
                self.routing.forget_leader(topic, index)
                continue
            heard = True
            self._take(topic, found, positions, polls, bounds, read_committed=read_committed)
            self.reads_near += node != leader.node
        return (tuple(polls), tuple(bounds)) if heard else None

    def _ask(
        self,
        node: int,
        topic: Topic,
        positions: dict[int, int],
        epochs: Mapping[int, int],
        read_committed: bool,
    ) -> Script[PartitionData | None]:
        version = self.chance.pick(topic.versions((11, 12, 13, 16)))
        request = a_fetch(
            topic,
            {index: positions[index] for index in epochs},
            version,
            read_committed=read_committed,
            wait_ms=self.chance.below(60),
            bytes_=self.chance.pick((1, 400, 1 << 20)),
            epochs=epochs,
        )
        request.rack_id = self.rack
        try:
            answer = yield from ask(FetchResponse, request, version, "data", node=node)
        except Lost:
            return None
        if not answer.responses or not answer.responses[0].partitions:
            return None
        found = answer.responses[0].partitions[0]
        if found.error_code in _NEITHER:
            return found
        if found.error_code not in (*LOADING, ErrorCode.KAFKA_STORAGE_ERROR):
            self.setting.complain(self.name, f"fetch of {topic.name} answered {error_name(found.error_code)}")
        return None

    def _take(
        self,
        topic: Topic,
        part: PartitionData,
        positions: dict[int, int],
        polls: list[Polled],
        bounds: list[Bounds],
        *,
        read_committed: bool,
    ) -> None:
        index = part.partition_index
        name = topic.names()[index]
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # A follower that has not heard yet that so much is committed says that it is not there yet.
            positions[index] = self._out_of_range(name, self.setting.epoch())
            return
        aborted = part.aborted_transactions if read_committed else None
        read, positions[index] = read_batches(name, part.records, positions[index], aborted)
        polls += read
        # A follower hears later than its leader what is committed: each answer stands for itself.
        self._asked += 1
        bounds.append(Bounds(name, part.high_watermark, part.last_stable_offset, -self._asked))

"""Readers: some that follow partitions while they are written, and one that reads everything in the end."""

from collections.abc import Mapping

from everlog.model.errors import ErrorCode
from everlog.sim.history import Bounds, Kind, Lookup, Outcome, Polled
from everlog.sim.script import ANYBODY, Lost, Script, ask
from everlog.sim.workloads.actor import LOADING, Actor, Topic, error_name
from everlog.sim.workloads.content import read_batches
from everlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from everlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_BY_ID = 13
_NO_EPOCHS: Mapping[int, int] = {}


def a_fetch(
    topic: Topic,
    positions: dict[int, int],
    version: int,
    *,
    read_committed: bool,
    wait_ms: int,
    bytes_: int,
    epochs: Mapping[int, int] = _NO_EPOCHS,
) -> FetchRequest:
    """A fetch of some partitions of a topic without a session."""
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=1 if read_committed else 0,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=topic.name,
                topic_id=topic.id,
                partitions=[
                    FetchPartition(
                        partition=index,
                        current_leader_epoch=epochs.get(index, -1),
                        fetch_offset=offset,
                        partition_max_bytes=bytes_,
                    )
                    for index, offset in positions.items()
                ],
            )
        ],
    )


class Reader(Actor):
    """Reads partitions from a place of its own choosing, over and over."""

    _epoch = 0

    def script(self, topic: Topic, *, read_committed: bool) -> Script[None]:
        """Read until told to stop; now and then begin again somewhere else."""
        positions = self._choose(topic)
        while not self.stopping:
            if self.chance.happens(3):
                positions = self._choose(topic)
            start = self.now()
            found = yield from self.fetch(topic, positions, read_committed=read_committed)
            if found is None:
                yield from self.pause(100)
                continue
            polls, bounds = found
            self.note(Kind.POLL, Outcome.OK, start, polls=polls, bounds=bounds, read_committed=read_committed)
            yield from self.pause(20 if polls else 100)

    def _choose(self, topic: Topic) -> dict[int, int]:
        self.note(Kind.ASSIGN, Outcome.OK, self.now(), partitions=topic.names())
        return dict.fromkeys(range(topic.partitions), 0)

    def fetch(
        self, topic: Topic, positions: dict[int, int], *, read_committed: bool
    ) -> Script[tuple[tuple[Polled, ...], tuple[Bounds, ...]] | None]:
        """Fetch once from everybody who leads, and move the positions on; None if nothing can be said."""
        shares = yield from self.routing.shares(topic, positions)
        polls: list[Polled] = []
        bounds: list[Bounds] = []
        heard = False
        for node, epochs in shares.items():
            found = yield from self._fetch_from(node, topic, positions, epochs, read_committed=read_committed)
            if found is not None:
                heard = True
                polls += found[0]
                bounds += found[1]
        return (tuple(polls), tuple(bounds)) if heard else None

    def _fetch_from(
        self,
        node: int,
        topic: Topic,
        positions: dict[int, int],
        epochs: Mapping[int, int],
        *,
        read_committed: bool,
    ) -> Script[tuple[list[Polled], list[Bounds]] | None]:
        # Only newer versions say in which epoch they want to read.
        versions = (4, 11, 12, _BY_ID, 16) if node == ANYBODY else (11, 12, _BY_ID, 16)
        version = self.chance.pick(topic.versions(versions))
        request = a_fetch(
            topic,
            {index: positions[index] for index in epochs},
            version,
            read_committed=read_committed,
            wait_ms=self.chance.below(60),
            bytes_=self.chance.pick((1, 400, 1 << 20)),
            epochs=epochs,
        )
        asked_at = self.now()
        try:
            answer = yield from ask(FetchResponse, request, version, "data", node=node)
        except Lost:
            for index in epochs:
                self.routing.forget_leader(topic, index)
            return None
        epoch = self.setting.epoch()
        if epoch != self._epoch:
            # What was read and not yet durable is gone, and others may be in its place.
            self._epoch = epoch
            self.note(Kind.ASSIGN, Outcome.OK, asked_at, partitions=topic.names())
        polls: list[Polled] = []
        bounds: list[Bounds] = []
        for part in answer.responses[0].partitions if answer.responses else ():
            name = topic.names()[part.partition_index]
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                positions[part.partition_index] = self._out_of_range(name, epoch)
            elif part.error_code == ErrorCode.NONE:
                position = positions[part.partition_index]
                aborted = part.aborted_transactions if read_committed else None
                read, positions[part.partition_index] = read_batches(name, part.records, position, aborted)
                polls += read
                seen_in = epoch if node == ANYBODY else epochs[part.partition_index]
                bounds.append(Bounds(name, part.high_watermark, part.last_stable_offset, seen_in))
            else:
                self.routing.forget_leader(topic, part.partition_index)
                if part.error_code in LOADING or (
                    # A disk has let its broker down, and another is to lead.
                    part.error_code == ErrorCode.KAFKA_STORAGE_ERROR and self.setting.clustered
                ):
                    continue
                self.setting.complain(self.name, f"fetch of {name} answered {error_name(part.error_code)}")
        return polls, bounds

    def _out_of_range(self, name: str, epoch: int) -> int:
        if epoch == 0:
            self.setting.complain(self.name, f"{name} has lost offsets that it gave out")
        self.note(Kind.ASSIGN, Outcome.OK, self.now(), partitions=(name,))
        return 0


class FinalReader(Reader):
    """Reads everything from start to end after all is healed, and looks some of it up by time."""

    def final_script(self, topics: list[Topic]) -> Script[None]:
        """Read all topics, each partition until what is stable has been read and nothing is undecided."""
        for topic in topics:
            yield from self._read_topic(topic)

    def _read_topic(self, topic: Topic) -> Script[None]:
        start = self.now()
        positions = dict.fromkeys(range(topic.partitions), 0)
        polls: list[Polled] = []
        ends: dict[str, Bounds] = {}
        while True:
            found = yield from self.fetch(topic, positions, read_committed=True)
            if found is None:
                yield from self.pause(100)
                continue
            polls += found[0]
            ends.update((bounds.partition, bounds) for bounds in found[1])
            if self._complete(topic, positions, ends):
                break
            if not found[0]:
                # A transaction whose client is gone is undecided until its time is up.
                yield from self.pause(500)
        self.note(
            Kind.POLL,
            Outcome.OK,
            start,
            polls=tuple(polls),
            bounds=tuple(ends.values()),
            partitions=topic.names(),
            final=True,
        )

    def _complete(self, topic: Topic, positions: dict[int, int], ends: dict[str, Bounds]) -> bool:
        for index, name in enumerate(topic.names()):
            end = ends.get(name)
            if end is None or end.last_stable_offset != end.high_watermark:
                return False
            if positions[index] < end.high_watermark:
                return False
        return True

    def look_up(self, topic: Topic, times: list[int]) -> Script[None]:
        """Ask for the offsets of some times, as the last thing that happens to the topic."""
        for time in times:
            index = self.chance.below(topic.partitions)
            leader = yield from self.routing.leader(topic, index)
            if leader is None:
                continue
            asked = ListOffsetsPartition(partition_index=index, timestamp=time)
            request = ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=[asked])]
            )
            start = self.now()
            try:
                answer = yield from ask(ListOffsetsResponse, request, 7, node=leader.node)
            except Lost:
                continue
            found = answer.topics[0].partitions[0]
            if found.error_code == ErrorCode.NONE:
                lookup = Lookup(topic.names()[index], time, found.offset)
                self.note(Kind.LOOKUP, Outcome.OK, start, lookups=(lookup,), final=True)

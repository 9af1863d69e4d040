"""Where a consumer is in each partition, and what it must find out before it can read on (C1, C5, C7).

    NO_OFFSET --committed offset--> CHECK --leader agrees--> READING --new leader--> CHECK
        '------none committed-----> RESET --offset of a moment--^      '--out of range--> RESET

There are two positions: what the application has been given, and what the next request asks for. Between
them lie the chunks that were fetched ahead. `version` rises with each seek, so that an answer which was asked
for earlier is known to be of no use any more. Time is the loop's, in seconds.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum

from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.errors import LogTruncated, NoOffset, OffsetOutOfRange
from everlog.client.core.consumer.fetch_sessions import Ask
from everlog.client.core.consumer.list_offsets import EARLIEST, LATEST
from everlog.client.core.consumer.settings import EARLIEST as RESET_EARLIEST
from everlog.client.core.consumer.settings import NONE as RESET_NONE
from everlog.client.core.consumer.settings import reset_duration_ms
from everlog.client.core.errors import Misused
from everlog.client.core.metadata import ClusterView
from everlog.model.errors import EverlogError
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.topics import TopicPartition

UNKNOWN = -1
NO_REPLICA = -1


class Stage(Enum):
    """What a partition waits for; see the drawing above."""

    NO_OFFSET = "no offset"
    RESET = "reset"
    CHECK = "check"
    READING = "reading"
    STUCK = "stuck"
    """It has a `problem` that only `seek` ends."""


class PartitionState:
    """One partition that is assigned. The consumer's thread writes `position`, the loop all else."""

    __slots__ = (
        "ask",
        "buffered",
        "buffered_bytes",
        "fetch_epoch",
        "fetch_offset",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start",
        "not_before",
        "paused",
        "place",
        "position",
        "position_epoch",
        "problem",
        "replica",
        "replica_until",
        "reset_to",
        "stage",
        "topic_id",
        "turn",
        "version",
    )

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        self.stage = Stage.NO_OFFSET
        self.position: int = UNKNOWN
        """The offset of the record to hand out next; it is what gets committed."""
        self.position_epoch: int = UNKNOWN
        """The leader epoch of the last record that was handed out."""
        self.fetch_offset: int = UNKNOWN
        """What the next request asks for; `position <= fetch_offset`."""
        self.fetch_epoch: int = UNKNOWN
        """The leader epoch of the last batch before it."""
        self.leader_epoch: int = UNKNOWN
        """That of the leader which is known to have all batches before `fetch_offset`."""
        self.topic_id: Uuid = NO_UUID
        self.version: int = 0
        self.paused: bool = False
        self.problem: EverlogError | None = None
        """What the application must hear of, after it has been given what is buffered."""
        self.reset_to: int = UNKNOWN
        """In RESET: the timestamp whose offset is looked up, EARLIEST or LATEST."""
        self.not_before: float = 0.0
        """When the next request may ask for it."""
        self.high_watermark: int = UNKNOWN
        self.last_stable_offset: int = UNKNOWN
        self.log_start: int = UNKNOWN
        self.replica: int = NO_REPLICA
        """A follower that the leader would rather have us read from (KIP-392)."""
        self.replica_until: float = 0.0
        self.buffered: deque[Chunk] = deque()
        self.buffered_bytes: int = 0
        self.ask: Ask | None = None
        """What was last asked; made anew only when that has changed."""
        self.turn: int = 0
        """Rises when it brought records; those with smaller turns are asked for first."""

    def to_ask(self, max_bytes: int) -> Ask:
        """What the next request says."""
        ask = self.ask
        if (
            ask is None
            or ask.fetch_offset != self.fetch_offset
            or ask.version != self.version
            or ask.leader_epoch != self.leader_epoch
            or ask.topic_id != self.topic_id
            or ask.max_bytes != max_bytes
        ):
            ask = Ask(self.topic_id, self.fetch_offset, self.leader_epoch, max_bytes, self.version)
            self.ask = ask
        return ask

    def wants(self, ask: Ask) -> bool:
        """Whether an answer to this is still of use: nothing was sought, revoked or reset meanwhile."""
        return ask.version == self.version and ask.fetch_offset == self.fetch_offset

    def put_at(self, offset: int, epoch: int, stage: Stage) -> None:
        """Go to an offset and forget what was fetched, or is under way, from elsewhere."""
        self.version += 1
        self.position = self.fetch_offset = offset
        self.position_epoch = self.fetch_epoch = epoch
        self.stage = stage
        self.problem = None
        self.not_before = 0.0
        self.drop_buffered()

    def reset(self, timestamp: int) -> None:
        """Go to the offset of a moment, once it is known."""
        self.put_at(UNKNOWN, UNKNOWN, Stage.RESET)
        self.reset_to = timestamp

    def fail(self, problem: EverlogError) -> None:
        """Stay where it is until `seek`."""
        self.stage = Stage.STUCK
        self.problem = problem

    def drop_buffered(self) -> None:
        """Forget what was fetched ahead."""
        self.buffered.clear()
        self.buffered_bytes = 0

    def buffer(self, chunk: Chunk) -> None:
        """Take in what an answer brought; the next request asks for what follows."""
        assert chunk.start == self.fetch_offset, (chunk.start, self.fetch_offset)
        self.buffered.append(chunk)
        self.buffered_bytes += chunk.size_bytes
        self.fetch_offset = chunk.next_offset
        if chunk.leader_epoch >= 0:
            self.fetch_epoch = chunk.leader_epoch

    def unbuffer(self) -> Chunk:
        """Give the next chunk away."""
        chunk = self.buffered.popleft()
        self.buffered_bytes -= chunk.size_bytes
        return chunk

    def put_back(self, chunk: Chunk) -> None:
        """Take the rest of a chunk back, to be given away first."""
        self.buffered.appendleft(chunk)
        self.buffered_bytes += chunk.size_bytes

    def cut_back(self, offset: int, epoch: int, problem: EverlogError) -> None:
        """Forget what was fetched from an offset on; `epoch` is that of the batch before it, -1 if not known.

        What is under way from elsewhere is of no use any more.
        """
        self.drop_buffered()
        self.fetch_offset = offset
        self.fetch_epoch = epoch if epoch >= 0 else self.position_epoch
        self.problem = problem

    def handed_out(self, position: int, epoch: int) -> None:
        """The application has all records before `position`."""
        self.position = position
        if epoch >= 0:
            self.position_epoch = epoch


class Positions:
    """The partitions that a consumer has, and how each of them gets to be read.

    `reset` is the setting auto_offset_reset; `wall_ms` is asked for the time of day when it counts back.
    """

    def __init__(self, reset: str, wall_ms: Callable[[], int], *, has_group: bool) -> None:
        self._reset = reset
        self._wall_ms = wall_ms
        self._has_group = has_group
        self._states: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(tuple(self._states.values()))  # A copy: other threads may look while it changes.

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, place: TopicPartition) -> bool:
        return place in self._states

    @property
    def places(self) -> list[TopicPartition]:
        """What is assigned, in order."""
        return sorted(self._states)

    @property
    def topics(self) -> set[str]:
        """The topics of what is assigned."""
        return {place.topic for place in self._states}

    def get(self, place: TopicPartition) -> PartitionState | None:
        """The state of a partition if it is assigned."""
        return self._states.get(place)

    def of(self, place: TopicPartition) -> PartitionState:
        """The state of a partition; Misused if it is not assigned."""
        state = self._states.get(place)
        if state is None:
            assigned = ", ".join(map(str, self.places[:5])) or "nothing"
            raise Misused(f"partition {place} is not assigned: {assigned} is")
        return state

    def chosen(self, places: Collection[TopicPartition]) -> list[PartitionState]:
        """The states of some partitions, or with none named of all."""
        return [self.of(place) for place in places] if places else list(self._states.values())

    def add(self, places: Iterable[TopicPartition]) -> None:
        """Assign partitions; those that are assigned already stay as they are."""
        for place in places:
            if place not in self._states:
                state = self._states[place] = PartitionState(place)
                if not self._has_group:
                    self._without_offset(state)

    def remove(self, places: Iterable[TopicPartition]) -> None:
        """Take partitions away; what is under way for them is of no use any more."""
        for place in places:
            state = self._states.pop(place, None)
            if state is not None:
                state.version += 1
                state.drop_buffered()

    def seek(self, place: TopicPartition, offset: int, epoch: int = UNKNOWN) -> None:
        """Read on from an offset; `epoch` is the leader epoch of the record before it, if that is known."""
        self.of(place).put_at(offset, epoch, Stage.CHECK)

    # What is found out, and for which version it was asked. What came too late is let go.

    def waiting(self, stage: Stage, now: float) -> list[PartitionState]:
        """The partitions in a stage that may be worked on now."""
        return [state for state in self if state.stage is stage and state.not_before <= now]

    def take_committed(self, state: PartitionState, version: int, offset: int | None, epoch: int) -> None:
        """Take in what the group has committed, None if nothing."""
        if state.version != version or state.stage is not Stage.NO_OFFSET:
            return
        if offset is None:
            self._without_offset(state)
        else:
            state.put_at(offset, epoch, Stage.CHECK)

    def take_reset(self, state: PartitionState, version: int, offset: int, epoch: int) -> None:
        """Take in the offset of the moment that was looked up."""
        if state.version == version and state.stage is Stage.RESET:
            state.put_at(offset, epoch, Stage.CHECK)

    def take_epoch_end(
        self, state: PartitionState, version: int, checked: int, leader_epoch: int, end: int | None
    ) -> None:
        """Take in where the log of the leader of `leader_epoch` leaves the epoch of the last batch (KIP-320).

        `checked` is the offset for which it was asked. `end` is None if the leader never had that epoch.
        """
        if state.version != version or state.stage is not Stage.CHECK or state.fetch_offset != checked:
            return
        if end is not None and end >= checked:
            state.leader_epoch = leader_epoch
            state.stage = Stage.READING
        elif end is not None and state.position <= end:
            # Only what was fetched ahead is gone: nobody has seen it.
            state.put_at(state.position, state.position_epoch, Stage.READING)
            state.leader_epoch = leader_epoch
        elif self._reset == RESET_NONE:
            where = "" if end is None else f": from offset {end} on it is another"
            message = f"the log of {state.place} lost records before offset {state.position}{where}"
            state.version += 1
            state.drop_buffered()
            state.fail(LogTruncated(message, {state.place: end}))
        elif end is None:
            state.reset(self._reset_timestamp())
        else:
            state.put_at(end, UNKNOWN, Stage.READING)
            state.leader_epoch = leader_epoch

    def take_out_of_range(self, state: PartitionState) -> None:
        """Take in that the log does not hold the offset to fetch."""
        if state.position != state.fetch_offset:
            return  # What is buffered comes first; the request is made again once that is handed out.
        if self._reset == RESET_NONE:
            message = (
                f"offset {state.position} of {state.place} is not in the log, and auto_offset_reset is none"
            )
            state.fail(OffsetOutOfRange(message, {state.place: state.position}))
        else:
            state.reset(self._reset_timestamp())

    def take_view(self, view: ClusterView) -> None:
        """Take in new leaders."""
        for state in self:
            self.compare(state, view)

    def compare(self, state: PartitionState, view: ClusterView) -> None:
        """Take in who leads a partition: what was read must be in that log before it is read on (KIP-320)."""
        known = view.partition(state.place)
        if known is None:
            return
        topic_id = view.topic_id(state.place.topic)
        if state.topic_id != topic_id:
            if state.topic_id != NO_UUID:
                # The topic was made anew: these are epochs of another log.
                state.fetch_epoch = state.position_epoch = state.leader_epoch = UNKNOWN
            state.topic_id = topic_id
        if known.leader_epoch > state.leader_epoch:
            state.replica = NO_REPLICA
            if state.stage is Stage.READING:
                state.stage = Stage.CHECK
        if state.stage is Stage.CHECK and (state.fetch_epoch < 0 or known.leader_epoch < 0):
            state.leader_epoch = known.leader_epoch
            state.stage = Stage.READING

    def problem(self) -> EverlogError | None:
        """What the application must hear of now; one of a kind tells of all partitions it concerns."""
        stuck = [state for state in self if state.problem is not None and not state.buffered]
        if not stuck:
            return None
        first = stuck[0].problem
        if isinstance(first, NoOffset):
            return _no_offset([state.place for state in stuck if isinstance(state.problem, NoOffset)])
        if stuck[0].stage is not Stage.STUCK:
            stuck[0].problem = None  # It is tried again after this.
        return first

    def _without_offset(self, state: PartitionState) -> None:
        if self._reset == RESET_NONE:
            state.version += 1
            state.fail(_no_offset([state.place]))
        else:
            state.reset(self._reset_timestamp())

    def _reset_timestamp(self) -> int:
        back_ms = reset_duration_ms(self._reset)
        if back_ms is not None:
            return max(0, self._wall_ms() - back_ms)
        return EARLIEST if self._reset == RESET_EARLIEST else LATEST


def _no_offset(places: list[TopicPartition]) -> NoOffset:
    named = ", ".join(map(str, places))
    return NoOffset(f"no offset is committed for {named}, and auto_offset_reset is none", places)

"""Records of chunks that were taken over from the fetcher, handed out in pieces (C1).

It is used by one thread at a time: that of the loop, or that of whoever polls while the loop does not look.
"""

from collections import deque
from collections.abc import Callable, Sequence

from everlog.client.core.columns.feed import Portion
from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.errors import DeserializationError
from everlog.client.core.consumer.positions import PartitionState
from everlog.client.core.consumer.settings import Deserializer
from everlog.model.errors import CorruptDataError
from everlog.model.topics import TopicPartition
from everlog.records.rows import ConsumerRecord, RowRun, read_rows

READ_ROWS = 500
"""About so many records are read at a time, however few are asked for; of small batches several then."""


class _Portion:
    """One chunk: rows of its first batches, and the batches that are not read yet."""

    __slots__ = ("at", "batch_at", "chunk", "rows", "state", "version")

    def __init__(self, state: PartitionState, chunk: Chunk) -> None:
        self.state = state
        self.version = state.version
        self.chunk = chunk
        self.batch_at = 0
        self.rows: list[ConsumerRecord] = []
        self.at = 0

    def read(self, count: int) -> bool:
        """Have rows to hand out; False if the chunk has no more. Reads whole batches, `count` rows about."""
        if self.at < len(self.rows):
            return True
        batches = self.chunk.batches
        rows: list[ConsumerRecord] = []
        place = self.chunk.place
        while self.batch_at < len(batches) and len(rows) < count:
            batch = batches[self.batch_at]
            try:
                read_rows(batch, place.topic, place.partition, self.chunk.start, self.chunk.end, rows)
            except CorruptDataError as error:
                if rows:
                    break  # What is before it can be handed out.
                raise CorruptDataError(
                    f"the batch of {place} at offset {batch.base_offset} is damaged: {error}"
                ) from None
            self.batch_at += 1
        self.rows, self.at = rows, 0
        return bool(rows)

    def hand_out(self, count: int) -> list[ConsumerRecord]:
        """The next rows, `count` at most; the partition's position moves behind them."""
        rows, at = self.rows, self.at
        self.at = end = min(len(rows), at + count)
        handed = rows if end - at == len(rows) else rows[at:end]
        if end < len(rows):
            last = handed[-1]
            self.state.handed_out(last.offset + 1, last.leader_epoch)
            return handed
        self.rows, self.at = [], 0  # The list is the caller's now.
        if self.batch_at < len(self.chunk.batches):
            batch = self.chunk.batches[self.batch_at - 1]
            self.state.handed_out(batch.next_offset, batch.leader_epoch)
        else:
            self.finish()
        return handed

    def finish(self) -> None:
        """Move the position behind the chunk."""
        self.state.handed_out(self.chunk.next_offset, self.chunk.leader_epoch)


class RowFeed:
    """The chunks that were taken over, in order, and the deserializers of their records."""

    def __init__(self, key: Deserializer | None, value: Deserializer | None) -> None:
        self._key = key
        self._value = value
        self._is_plain = key is None and value is None
        self._portions: deque[_Portion] = deque()
        self._run: tuple[_Portion, RowRun] | None = None

    def add(self, state: PartitionState, chunk: Chunk) -> None:
        """Take a chunk over."""
        self._portions.append(_Portion(state, chunk))

    @property
    def is_ready(self) -> bool:
        """Whether rows may be handed out without asking anyone: there are some, and they are still wanted."""
        if not self._portions:
            return False
        first = self._portions[0]
        return first.version == first.state.version and not first.state.paused

    def tidy(self) -> bool:
        """Let go of what is not wanted, give back what is paused; whether anything is left."""
        kept: deque[_Portion] = deque()
        self._end_run()
        for portion in reversed(self._portions):
            state = portion.state
            if portion.version != state.version:
                continue
            if state.paused:
                state.put_back(portion.chunk.rest(max(portion.chunk.start, state.position)))
            else:
                kept.appendleft(portion)
        self._portions = kept
        return bool(kept)

    def give_back(self) -> None:
        """Give everything back to where it was taken from."""
        self._end_run()
        for portion in reversed(self._portions):
            state = portion.state
            if portion.version == state.version:
                state.put_back(portion.chunk.rest(max(portion.chunk.start, state.position)))
        self._portions.clear()

    def take_portions(self) -> list[Portion]:
        """Hand over all chunks as far as they are left, to be read as columns."""
        taken: list[Portion] = []
        self._end_run()
        while self.is_ready:
            portion = self._portions.popleft()
            chunk, state = portion.chunk, portion.state
            left = chunk if state.position <= chunk.start else chunk.rest(state.position)
            taken.append(Portion(state, portion.version, left))
        return taken

    def return_portions(self, portions: Sequence[Portion]) -> None:
        """Take back what was not read, in front of all else."""
        for state, version, chunk in reversed(portions):
            if state.version == version:
                self._portions.appendleft(_Portion(state, chunk))

    def take(self, count: int) -> list[ConsumerRecord]:
        """The next records, `count` at most. DeserializationError or CorruptDataError about the first."""
        out: list[ConsumerRecord] = []
        self._end_run()
        while len(out) < count and self.is_ready:
            portion = self._portions[0]
            try:
                if not portion.read(max(READ_ROWS, count - len(out))):
                    portion.finish()
                    self._portions.popleft()
                    continue
            except CorruptDataError:
                if out:
                    break
                raise
            if not self._is_plain:
                if not self._take_read(portion, count - len(out), out):
                    break
                continue
            handed = portion.hand_out(count - len(out))
            if out:
                out += handed
            else:
                out = handed
        return out

    def run(self, clock: Callable[[], float], until: float) -> RowRun | None:
        """Rows that are read already, to be handed out one by one while they are wanted; None without any.

        The last one of those is left to `take`, which knows what is behind it. Whatever else is done with the
        feed ends the run.
        """
        self._end_run()
        if not self.is_ready or self._key is not None or self._value is not None:
            return None
        portion = self._portions[0]
        last = len(portion.rows) - 1
        if portion.at >= last:
            return None
        self._run = portion, RowRun(portion.rows, portion.at, last, portion.state, clock, until)
        return self._run[1]

    def interrupt(self) -> None:
        """Have a run hand out nothing more; from any thread."""
        if (current := self._run) is not None:
            current[1].stop()

    def _end_run(self) -> None:
        if self._run is not None:
            portion, run = self._run
            portion.at = run.stop()
            self._run = None

    def _take_read(self, portion: _Portion, count: int, out: list[ConsumerRecord]) -> bool:
        """Hand out deserialized records up to one that fails; False, or its error if it comes first."""
        rows: list[ConsumerRecord] = []
        failure: DeserializationError | None = None
        for row in portion.rows[portion.at : portion.at + count]:
            try:
                rows.append(self._deserialize(row))
            except DeserializationError as error:
                failure = error
                break
        if failure is not None and not rows:
            if out:
                return False
            raise failure
        portion.hand_out(len(rows))
        out += rows
        return failure is None

    def _deserialize(self, row: ConsumerRecord) -> ConsumerRecord:
        key, value = row.key, row.value
        part = "key"
        try:
            if self._key is not None and key is not None:
                key = self._key(key)
            part = "value"
            if self._value is not None and value is not None:
                value = self._value(value)
        except Exception as error:
            place = TopicPartition(row.topic, row.partition)
            raise DeserializationError(
                f"the {part} of {place} at offset {row.offset} cannot be read: {error!r}", place, row.offset
            ) from error
        return row.with_content(key, value)

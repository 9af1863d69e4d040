"""Records of chunks that were taken over from the fetcher, handed out in pieces (C1).

It is used by one thread at a time: that of the loop, or that of whoever polls while the loop does not look.
"""

from collections import deque
from collections.abc import Callable, Sequence

from everlog.client.core.columns.feed import Portion
from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.errors import DamagedBatch, DeserializationError
from everlog.client.core.consumer.positions import PartitionState
from everlog.client.core.consumer.settings import Deserializer
from everlog.model.errors import CorruptDataError
from everlog.model.topics import TopicPartition
from everlog.records.batch import BatchView, batch_at
from everlog.records.rows import ConsumerRecord, RowRun, read_rows, read_run
from everlog.records.runs import PlainRun

READ_ROWS = 500
"""About so many records are read at a time, however few are asked for; of small batches several then."""


class _Batches:
    """Reads the batches of a chunk one by one."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._at = 0

    @property
    def is_read(self) -> bool:
        """Whether none is left."""
        return self._at >= len(self._chunk.batches)

    @property
    def batch(self) -> BatchView:
        """The next one."""
        return self._chunk.batches[self._at]

    def read(self, rows: list[ConsumerRecord], _count: int) -> tuple[int, int]:
        """Append the rows of the next batch; return what follows it, and its epoch."""
        chunk, batch = self._chunk, self.batch
        read_rows(batch, chunk.place.topic, chunk.place.partition, chunk.start, chunk.end, rows)
        self._at += 1
        return batch.next_offset, batch.leader_epoch


class _Run:
    """Reads the batches of a run, many in one call."""

    def __init__(self, chunk: Chunk) -> None:
        assert isinstance(chunk.batches, PlainRun)
        self._chunk = chunk
        self._raw = chunk.batches.raw
        self._at = 0

    @property
    def is_read(self) -> bool:
        """Whether none is left."""
        return self._at >= len(self._raw)

    @property
    def batch(self) -> BatchView:
        """The next one."""
        return batch_at(self._raw, self._at)

    def read(self, rows: list[ConsumerRecord], count: int) -> tuple[int, int]:
        """Append the rows of the next batches until there are `count`; return what follows, and the epoch."""
        chunk, began_at = self._chunk, self._at
        self._at, *read_to = read_run(
            self._raw,
            began_at,
            chunk.place.topic,
            chunk.place.partition,
            chunk.start,
            chunk.end,
            rows,
            count,
        )
        if self._at == began_at:
            read_rows(self.batch, chunk.place.topic, chunk.place.partition, chunk.start, chunk.end, [])
            raise AssertionError(f"the batch at byte {began_at} of a run was refused and cannot be")
        return read_to[0], read_to[1]


class _Portion:
    """One chunk: rows of its first batches, and the batches that are not read yet."""

    __slots__ = ("at", "chunk", "is_read", "read_to", "rows", "source", "state", "version")

    def __init__(self, state: PartitionState, chunk: Chunk) -> None:
        self.state = state
        self.version = state.version
        self.chunk = chunk
        self.source = (_Run if isinstance(chunk.batches, PlainRun) else _Batches)(chunk)
        self.is_read = not chunk.batches
        """Whether no batch is left to be read."""
        self.read_to = (chunk.start, -1)
        """The offset behind the last batch that was read, and its leader epoch."""
        self.rows: list[ConsumerRecord] = []
        self.at = 0

    def read(self, count: int) -> bool:
        """Have rows to hand out; False if the chunk has no more. Reads whole batches, `count` rows about."""
        if self.at < len(self.rows):
            return True
        rows: list[ConsumerRecord] = []
        while not self.is_read and len(rows) < count:
            try:
                self.read_to = self.source.read(rows, count)
            except CorruptDataError as error:
                if rows:
                    break  # What is before it can be handed out.
                at = max(self.source.batch.base_offset, self.chunk.start)
                raise DamagedBatch(error, self.chunk.place, at, retriable=False) from None
            self.is_read = self.source.is_read
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
        if self.is_read:
            self.finish()
        else:
            self.state.handed_out(*self.read_to)
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
        """The next records, `count` at most. DeserializationError or DamagedBatch about the first."""
        out: list[ConsumerRecord] = []
        self._end_run()
        while len(out) < count and self.is_ready:
            portion = self._portions[0]
            try:
                if not portion.read(max(READ_ROWS, count - len(out))):
                    portion.finish()
                    self._portions.popleft()
                    continue
            except DamagedBatch:
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

"""The plain twins of `_rows`: records one by one into a batch and out of it. See `rows` for what is picked.

They are the reference that the compiled ones are held to. What is wrong with a batch that is read is put
into words here for both.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, Self, cast

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer
from everlog.records import sealing
from everlog.records.batch import HEADER_BYTES, LOG_APPEND_TIME, BatchView, batch_at
from everlog.records.builder import Header, NewRecord, append_record
from everlog.records.compression import Codec
from everlog.records.reader import read_records
from everlog.records.varint import LARGEST_INT64, SMALLEST_INT64

MAX_SECTION_BYTES = (1 << 31) - 1 - HEADER_BYTES
"""The length of a batch is a signed number of 32 bits."""

_NO_HEADERS: tuple[Header, ...] = ()
_Fields = tuple[str, int, int, int, int, Any, Any, tuple[Header, ...], int]


class BatchBuffer:
    """The records of one batch, encoded as they come.

    A call that fails leaves it as it was. What it is given is copied.
    """

    __slots__ = ("_section", "base_timestamp", "count", "max_timestamp")

    count: int
    """How many records there are."""

    base_timestamp: int
    """The first one's timestamp; -1 without records."""

    max_timestamp: int
    """The largest timestamp; -1 without records."""

    def __init__(self) -> None:
        self.count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        self._section = bytearray()

    @classmethod
    def adopt(cls, section: Buffer, count: int, base_timestamp: int, max_timestamp: int) -> Self:
        """Return one with records that are encoded already; that they are right is the caller's promise."""
        if count < 1:
            raise ValueError(f"count is {count}, expected at least 1")
        adopted = cls()
        adopted._section += section
        adopted.count = count
        adopted.base_timestamp = base_timestamp
        adopted.max_timestamp = max_timestamp
        return adopted

    @property
    def size_bytes(self) -> int:
        """Bytes of the batch before compression, its header included."""
        return HEADER_BYTES + len(self._section)

    def append(
        self,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str, Buffer | None]],
        timestamp: int,
    ) -> int:
        """Encode one more record and return its number in the batch; the timestamp is in ms since 1970.

        TypeError or ValueError if a field is of the wrong kind.
        """
        _check_kind(timestamp, "timestamp", int)
        if not 0 <= timestamp <= LARGEST_INT64:
            raise ValueError(f"timestamp is {timestamp}, expected milliseconds since 1970")
        record = NewRecord(_as_bytes(key, "key"), _as_bytes(value, "value"), _as_headers(headers), timestamp)
        base = timestamp if self.count == 0 else self.base_timestamp
        encoded = bytearray()
        append_record(encoded, record, self.count, timestamp - base)
        if len(self._section) + len(encoded) > MAX_SECTION_BYTES:
            raise ValueError(f"a batch has at most {MAX_SECTION_BYTES} bytes of records")
        self._section += encoded
        self.base_timestamp = base
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.count += 1
        return self.count - 1

    def copy_behind(self, room: int) -> bytearray:
        """Return `room` bytes of zero and the records behind them."""
        copy = bytearray(room)
        copy += self._section
        return copy

    def behind_header(self) -> bytearray:
        """Return the records behind room for a header. Compiled, the first call makes no copy of them."""
        return self.copy_behind(HEADER_BYTES)

    def seal(
        self,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> bytearray:
        """Return the batch with header and checksum; it may be made again with other ids."""
        return sealing.seal(
            self,
            codec,
            level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )

    def split(self) -> tuple[Self, Self]:
        """Return the first half of the records and the second, for a broker that finds a batch too large."""
        return sealing.split(self)


def _as_bytes(field: object, name: str) -> bytes | None:
    if field is None or type(field) is bytes:
        return field
    try:
        with memoryview(field) as view:  # type: ignore[arg-type]  # what it is gets found out here
            if view.c_contiguous:
                return view.tobytes()
    except TypeError:
        pass
    raise TypeError(f"{name} should be bytes or None, found {type(field).__name__}")


def _as_headers(headers: Sequence[tuple[str, Buffer | None]]) -> tuple[Header, ...]:
    if not isinstance(headers, tuple | list):
        raise TypeError(f"headers should be a list of pairs, found {type(headers).__name__}")
    return tuple([_as_header(header) for header in headers]) if headers else _NO_HEADERS


def _as_header(header: Any) -> Header:
    if not isinstance(header, tuple | list) or len(cast(Sequence[object], header)) != 2:
        raise TypeError(
            f"a header should be a pair of a name and a value, found {type(cast(object, header)).__name__}"
        )
    name, content = cast(Sequence[object], header)
    if not isinstance(name, str):
        raise TypeError(f"a header's name should be a str, found {type(name).__name__}")
    return name, _as_bytes(content, "a header's value")


def _check_kind(field: object, name: str, kind: type) -> None:
    if not isinstance(field, kind):
        raise TypeError(f"{name} should be of type {kind.__name__}, found {type(field).__name__}")


def _check_number(number: int, name: str, bits: int) -> None:
    _check_kind(number, name, int)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise OverflowError(f"{name} is {number}, expected a number of {bits} bits")


class ConsumerRecord:
    """One record as it lies in a topic. It does not change; equal ones have equal fields.

    `timestamp` is in milliseconds since 1970; `timestamp_type` is 0 where the producer's clock made it
    and 1 where the broker's did. `leader_epoch` is -1 where it is not known.
    """

    __slots__ = (
        "_headers",
        "_key",
        "_leader_epoch",
        "_offset",
        "_partition",
        "_timestamp",
        "_timestamp_type",
        "_topic",
        "_value",
    )
    __match_args__: ClassVar[tuple[str, ...]] = (
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "value",
        "headers",
        "leader_epoch",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int = -1,
        timestamp_type: int = 0,
        key: Any = None,
        value: Any = None,
        headers: tuple[Header, ...] = (),
        leader_epoch: int = -1,
    ) -> None:
        _check_kind(topic, "topic", str)
        _check_kind(headers, "headers", tuple)
        _check_number(partition, "partition", 32)
        _check_number(offset, "offset", 64)
        _check_number(timestamp, "timestamp", 64)
        _check_number(timestamp_type, "timestamp_type", 32)
        _check_number(leader_epoch, "leader_epoch", 32)
        self._set((topic, partition, offset, timestamp, timestamp_type, key, value, headers, leader_epoch))

    @classmethod
    def of_fields(cls, fields: _Fields) -> Self:
        """Return the record of fields that are known to be right."""
        record = cls.__new__(cls)
        record._set(fields)
        return record

    def _set(self, fields: _Fields) -> None:
        (
            self._topic,
            self._partition,
            self._offset,
            self._timestamp,
            self._timestamp_type,
            self._key,
            self._value,
            self._headers,
            self._leader_epoch,
        ) = fields

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._partition

    @property
    def offset(self) -> int:
        """The record's place in its partition."""
        return self._offset

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970; -1 for none."""
        return self._timestamp

    @property
    def timestamp_type(self) -> int:
        """0 where the producer's clock made the timestamp, 1 where the broker's did."""
        return self._timestamp_type

    @property
    def key(self) -> Any:
        """Bytes or None; what the key deserializer made of them where there is one."""
        return self._key

    @property
    def value(self) -> Any:
        """Bytes or None; what the value deserializer made of them where there is one."""
        return self._value

    @property
    def headers(self) -> tuple[Header, ...]:
        """Names and values in the order in which they were sent."""
        return self._headers

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that took the record in; -1 where it is not known."""
        return self._leader_epoch

    def with_content(self, key: Any, value: Any) -> "ConsumerRecord":
        """Return the same record with another key and value, as deserializers make them."""
        return ConsumerRecord(
            self._topic,
            self._partition,
            self._offset,
            self._timestamp,
            self._timestamp_type,
            key,
            value,
            self._headers,
            self._leader_epoch,
        )

    def _fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        fields = zip(self.__match_args__, self._fields(), strict=True)
        return f"ConsumerRecord({', '.join(f'{name}={value!r}' for name, value in fields)})"

    def __reduce__(self) -> tuple[object, ...]:
        from everlog.records.rows import rebuild_record

        return rebuild_record, self._fields()


class RowPlace(Protocol):
    """Where an application is in one partition."""

    position: int
    position_epoch: int
    paused: bool
    version: int


class RowRun:
    """Rows `at` to `end` of a list, handed out one by one until a clock says `until`.

    Before a row is handed out, `state.position` moves behind it and `state.position_epoch` becomes its
    leader epoch where that is known. It ends at once when `state.version` changes or `state.paused` is set.
    """

    __slots__ = ("_at", "_clock", "_end", "_first", "_rows", "_state", "_until", "_version")

    def __init__(
        self,
        rows: list[ConsumerRecord],
        at: int,
        end: int,
        state: RowPlace,
        clock: Callable[[], float],
        until: float,
    ) -> None:
        if at < 0 or end > len(rows):
            raise ValueError(f"no rows from {at} to {end} among {len(rows)}")
        self._rows: list[ConsumerRecord] | None = rows
        self._at = self._first = at
        self._end = end
        self._state = state
        self._version = state.version
        self._clock = clock
        self._until = until

    @property
    def handed(self) -> int:
        """How many rows were handed out."""
        return self._at - self._first

    def stop(self) -> int:
        """Hand out nothing any more; return the index of the row that would have been next."""
        self._rows = None
        return self._at

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        rows, at, state = self._rows, self._at, self._state
        if rows is None or at >= self._end or self._clock() >= self._until:
            raise StopIteration
        if state.version != self._version or state.paused:
            raise StopIteration
        row = rows[at]
        self._at = at + 1
        state.position = row.offset + 1
        if row.leader_epoch >= 0:
            state.position_epoch = row.leader_epoch
        return row


def read_rows(
    batch: BatchView,
    topic: str,
    partition: int,
    start: int,
    end: int | None,
    into: list[ConsumerRecord],
) -> None:
    """Append the records from offset `start` up to `end` to `into`, copied out of the batch's buffer.

    CorruptDataError as `read_records`, or if an offset or a timestamp has more than 64 bits; `into` is left
    as it was then. The checksum, and whether the batch is a marker, are the caller's to check.
    """
    a_row = ConsumerRecord.of_fields
    kind = 1 if batch.attributes & LOG_APPEND_TIME else 0
    epoch = batch.leader_epoch
    rows: list[ConsumerRecord] = []
    for index, record in enumerate(read_records(batch)):
        offset, timestamp, key, value, headers = record
        if not SMALLEST_INT64 <= offset <= LARGEST_INT64:
            raise CorruptDataError(f"record {index} of {batch.count} is damaged: its offset is {offset}")
        if not SMALLEST_INT64 <= timestamp <= LARGEST_INT64:
            raise CorruptDataError(
                f"record {index} of {batch.count} is damaged: its timestamp is {timestamp}"
            )
        if offset >= start and (end is None or offset < end):
            rows.append(a_row((topic, partition, offset, timestamp, kind, key, value, headers, epoch)))
    into += rows


def read_run(
    raw: memoryview,
    position: int,
    topic: str,
    partition: int,
    start: int,
    end: int | None,
    into: list[ConsumerRecord],
    count: int,
) -> tuple[int, int, int]:
    """As `read_rows` with batch after batch of a run from `position` on, until `into` has `count` rows.

    Returns where the next batch begins, and the next offset and the epoch of the last one that was read. What
    is damaged ends it without a word, at the same position if it comes first: `read_rows` says why.
    """
    next_offset = epoch = -1
    while position < len(raw) and len(into) < count:
        batch = batch_at(raw, position)
        try:
            read_rows(batch, topic, partition, start, end, into)
        except CorruptDataError:
            break
        position += batch.size
        next_offset, epoch = batch.next_offset, batch.leader_epoch
    return position, next_offset, epoch

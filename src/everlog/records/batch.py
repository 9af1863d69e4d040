"""BatchView: the header of a record batch, read in place over the bytes that hold it."""

from collections.abc import Iterator
from struct import Struct

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer
from everlog.records.crc import crc32c

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size  # 61
LENGTH_OFFSET = 8
LENGTH_OVERHEAD = 12
"""The bytes that the length field does not count: base offset and the length itself."""
MIN_BATCH_LENGTH = HEADER_BYTES - LENGTH_OVERHEAD
CRC_START = 21
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_INT32 = Struct(">i")
_INT64 = Struct(">q")
_UINT32 = Struct(">I")
_ATTRIBUTES = Struct(">h")
_OFFSET_LENGTH = Struct(">qi")

_CRC_AT = 17
_ATTRIBUTES_AT = 21
_EPOCH_AT = 12
_MAX_TIMESTAMP_AT = 35
MAX_SEQUENCE = 0x7FFFFFFF


class BatchView:
    """One batch: its header fields as attributes, its bytes as `raw`.

    The view owns nothing: `raw` is a slice of whatever buffer it was parsed from and is valid for as
    long as that buffer is. Fields are those found at parsing; `stamp` and `set_max_timestamp` change
    both the bytes and the fields.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "length",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "raw",
    )

    attributes: int
    base_offset: int
    base_sequence: int
    base_timestamp: int
    count: int
    crc: int
    last_offset_delta: int
    leader_epoch: int
    length: int
    magic: int
    max_timestamp: int
    producer_epoch: int
    producer_id: int

    def __init__(self, raw: memoryview) -> None:
        self.raw = raw
        (
            self.base_offset,
            self.length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = HEADER.unpack_from(raw)

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of the last record, whether or not compaction has left it in place."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset of the record that follows this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, which wraps from 2^31 - 1 to 0; -1 if there is none."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def codec(self) -> int:
        """The compression codec's number; 0 is none."""
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction, markers included."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch is a marker rather than data."""
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is the time at which tombstones may go."""
        return self.attributes & DELETE_HORIZON != 0

    @property
    def records(self) -> memoryview:
        """The bytes behind the header, compressed if `codec` says so."""
        return self.raw[HEADER_BYTES:]

    def checksum_holds(self) -> bool:
        """Whether the bytes from the attributes on are those the checksum was made of."""
        return crc32c(self.raw[CRC_START:]) == self.crc

    def stamp(self, base_offset: int, leader_epoch: int) -> None:
        """Give the batch its place in the log; both fields lie outside the checksum."""
        _INT64.pack_into(self.raw, 0, base_offset)
        _INT32.pack_into(self.raw, _EPOCH_AT, leader_epoch)
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch

    def set_max_timestamp(self, timestamp: int, *, log_append_time: bool) -> None:
        """Set the largest timestamp and who made it; makes a new checksum if that changes anything."""
        attributes = self.attributes & ~LOG_APPEND_TIME | (LOG_APPEND_TIME if log_append_time else 0)
        if timestamp == self.max_timestamp and attributes == self.attributes:
            return
        _ATTRIBUTES.pack_into(self.raw, _ATTRIBUTES_AT, attributes)
        _INT64.pack_into(self.raw, _MAX_TIMESTAMP_AT, timestamp)
        self.attributes = attributes
        self.max_timestamp = timestamp
        self.crc = crc32c(self.raw[CRC_START:])
        _UINT32.pack_into(self.raw, _CRC_AT, self.crc)

    def __repr__(self) -> str:
        return (
            f"BatchView({self.base_offset}..{self.last_offset}, epoch={self.leader_epoch}, size={self.size}, "
            f"attributes={self.attributes:#x}, "
            f"producer={self.producer_id}/{self.producer_epoch}/{self.base_sequence})"
        )


def batch_at(buffer: Buffer, position: int = 0) -> BatchView:
    """Return the batch that begins at `position`; CorruptDataError if a whole one does not."""
    view = memoryview(buffer)
    available = len(view) - position
    if available < HEADER_BYTES:
        raise CorruptDataError(f"a record batch has at least {HEADER_BYTES} bytes, found {available}")
    length = _INT32.unpack_from(view, position + LENGTH_OFFSET)[0]
    if length < MIN_BATCH_LENGTH or length > available - LENGTH_OVERHEAD:
        raise CorruptDataError(
            f"a record batch gives its length as {length}, expected {MIN_BATCH_LENGTH} to "
            f"{available - LENGTH_OVERHEAD}"
        )
    return BatchView(view[position : position + length + LENGTH_OVERHEAD])


def whole_batches(buffer: Buffer) -> Iterator[BatchView]:
    """Yield the batches that lie back to back in a buffer; one that is cut off at the end is left out.

    That is how a fetch answer ends, and no error. A length that no batch can have is a CorruptDataError.
    """
    view = memoryview(buffer)
    position, end = 0, len(view)
    while end - position >= HEADER_BYTES:
        length = _OFFSET_LENGTH.unpack_from(view, position)[1]
        behind = position + length + LENGTH_OVERHEAD
        if length >= MIN_BATCH_LENGTH and behind > end:
            return
        # A consumer comes here for each batch: what is known to be right is not checked again.
        yield BatchView(view[position:behind]) if length >= MIN_BATCH_LENGTH else batch_at(view, position)
        position = behind

"""Records encoded one by one to the bytes of a batch, and to two smaller ones.

Work once a batch, so it is plain Python for both kinds of `BatchBuffer`.
"""

from typing import Protocol, TypeVar

from everlog.records.batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    batch_at,
)
from everlog.records.builder import Header
from everlog.records.compression import Codec, compress
from everlog.records.crc import crc32c
from everlog.records.reader import read_records

_CRC_AT = 17


class Counted(Protocol):
    """What the header says of the records of one batch."""

    @property
    def count(self) -> int:
        """How many they are."""
        ...

    @property
    def base_timestamp(self) -> int:
        """The first one's timestamp."""
        ...

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp."""
        ...


class Sealable(Counted, Protocol):
    """The records of one batch, encoded."""

    def copy_behind(self, room: int) -> bytearray:
        """Return `room` bytes of zero and the records behind them."""
        ...

    def behind_header(self) -> bytearray:
        """Return the records behind room for a header; the caller fills that in and changes nothing else."""
        ...

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...],
        timestamp: int,
    ) -> int:
        """Encode one more record."""
        ...


Buffered = TypeVar("Buffered", bound=Sealable)


def seal(
    records: Sealable,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """Return the batch, header and checksum made; ValueError if there is no record."""
    if not records.count:
        raise ValueError("a batch has at least one record")
    if codec == Codec.NONE:
        batch = records.behind_header()
    else:
        batch = bytearray(HEADER_BYTES)
        batch += compress(codec, records.copy_behind(0), level)
    put_fields(
        batch,
        records,
        codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
    with memoryview(batch) as view:
        put_checksum(batch, crc32c(view[CRC_START:]))
    return batch


def put_fields(
    batch: bytearray,
    records: Counted,
    codec: Codec,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool,
) -> None:
    """Fill in the header but for the checksum."""
    count = records.count
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LENGTH_OVERHEAD,
        -1,
        MAGIC,
        0,
        codec | (TRANSACTIONAL if transactional else 0),
        count - 1,
        records.base_timestamp,
        records.max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )


def put_checksum(batch: bytearray, checksum: int) -> None:
    """Fill in the checksum."""
    batch[_CRC_AT:CRC_START] = checksum.to_bytes(4, "big")


def split(records: Buffered) -> tuple[Buffered, Buffered]:
    """Return the first half of the records and the second; ValueError if there are not two."""
    if records.count < 2:
        raise ValueError(f"a batch of {records.count} records cannot be split")
    first, second = type(records)(), type(records)()
    for record in read_records(batch_at(seal(records))):
        half = first if record.offset < records.count // 2 else second
        half.append(record.key, record.value, record.headers, record.timestamp)
    return first, second

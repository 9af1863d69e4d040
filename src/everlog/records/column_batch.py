"""A batch whose records were encoded from columns: what goes on as `BatchBuffer` does, without the copies."""

from everlog.records import sealing
from everlog.records.batch import CRC_START, HEADER_BYTES
from everlog.records.column_buffers import EncodedRows
from everlog.records.columns import join_checksums
from everlog.records.compression import Codec, compress
from everlog.records.crc import crc32c
from everlog.records.rows import BatchBuffer


class ColumnBatch:
    """Records that are all there; as a BatchBuffer but for `append`.

    `rows` were encoded with room for a header, so that the batch can be sealed in place.
    """

    __slots__ = ("_is_sealed", "_packed", "_raw", "base_timestamp", "count", "max_timestamp", "size_bytes")

    def __init__(self, rows: EncodedRows, count: int) -> None:
        self.count = count
        self.base_timestamp = rows.base_timestamp
        self.max_timestamp = rows.max_timestamp
        self.size_bytes = len(rows.section)
        """Bytes of the batch before compression, its header included."""
        self._raw = rows.section
        self._is_sealed = False
        self._packed: tuple[Codec, int | None, bytes | None, int] | None = None
        """Codec and level, what they made of the records, unless nothing, and the checksum of that."""

    def pack(self, codec: Codec, level: int | None) -> None:
        """Compress the records and sum them up ahead of `seal`.

        Right after they were encoded they are close at hand still, and the network's thread has enough to do.
        """
        records = memoryview(self._raw)[HEADER_BYTES:]
        if codec == Codec.NONE:
            self._packed = codec, level, None, crc32c(records)
        else:
            packed = compress(codec, records, level)
            self._packed = codec, level, packed, crc32c(packed)

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
        if self._packed is None or self._packed[:2] != (codec, level):
            self.pack(codec, level)
        assert self._packed is not None
        _, _, packed, checksum = self._packed
        if packed is None:
            # The first time it is the bytes themselves; they may be on their way when it is made again.
            batch = bytearray(self._raw) if self._is_sealed else self._raw
            self._is_sealed = True
        else:
            batch = bytearray(HEADER_BYTES)
            batch += packed
        sealing.put_fields(
            batch,
            self,
            codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
        header = crc32c(batch[CRC_START:HEADER_BYTES])
        sealing.put_checksum(batch, join_checksums(header, checksum, len(batch) - HEADER_BYTES))
        return batch

    def split(self) -> tuple[BatchBuffer, BatchBuffer]:
        """Return the first half of the records and the second, for a broker that finds a batch too large."""
        records = memoryview(self._raw)[HEADER_BYTES:]
        return BatchBuffer.adopt(records, self.count, self.base_timestamp, self.max_timestamp).split()

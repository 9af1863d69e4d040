"""A batch whose records were encoded from columns: what goes on as `BatchBuffer` does, without the copies."""

from everlog.records import sealing
from everlog.records.batch import HEADER_BYTES
from everlog.records.column_buffers import EncodedRows
from everlog.records.compression import Codec, compress
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
        self._packed: tuple[Codec, int | None, bytes] | None = None

    def pack(self, codec: Codec, level: int | None) -> None:
        """Compress the records ahead of `seal`, on a thread that has the time."""
        if codec != Codec.NONE:
            self._packed = codec, level, compress(codec, memoryview(self._raw)[HEADER_BYTES:], level)

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
        if codec == Codec.NONE:
            # The first time it is the bytes themselves; they may be on their way when it is made again.
            batch = bytearray(self._raw) if self._is_sealed else self._raw
            self._is_sealed = True
        else:
            if self._packed is None or self._packed[:2] != (codec, level):
                self.pack(codec, level)
            assert self._packed is not None
            batch = bytearray(HEADER_BYTES)
            batch += self._packed[2]
        sealing.put_header(
            batch,
            self,
            codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
        return batch

    def split(self) -> tuple[BatchBuffer, BatchBuffer]:
        """Return the first half of the records and the second, for a broker that finds a batch too large."""
        records = memoryview(self._raw)[HEADER_BYTES:]
        return BatchBuffer.adopt(records, self.count, self.base_timestamp, self.max_timestamp).split()

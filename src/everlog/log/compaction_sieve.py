"""What is left of one batch after compaction.

A batch keeps its base and last offset, its epoch, its producer's fields and its codec, whatever records
go. One of which nothing is left goes as a whole, unless something else depends on it; then its header stays.
"""

from everlog.log.compaction import CleanPlan
from everlog.log.compaction_keys import KeyScan, section_of
from everlog.ports.files import Buffer
from everlog.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchView,
)
from everlog.records.compression import compress
from everlog.records.crc import crc32c
from everlog.records.key_scan import KeepRule, Sifted

_CRC_AT = 17
_NO_TIMESTAMP = -1


class Sieve:
    """The second pass's judge. It is shown every batch from the log's first on, in order, once.

    A tombstone, and a marker none of whose transaction's data is left, stays until its delete horizon: the
    moment, written into its batch by the first round that finds it so, after which those who began to read
    before that round have had `delete.retention.ms` to come across it (KIP-534).
    """

    def __init__(self, plan: CleanPlan, found: KeyScan) -> None:
        self._keys = found.keys
        self._latest = found.end_offset - 1
        self._aborted = found.aborted
        self._producers = plan.producers
        self._wall = plan.wall
        self._horizon = plan.wall + plan.settings.delete_retention_ms
        self._settings = plan.settings
        # Producers of whose open transaction data has passed, be it only an empty batch.
        self._with_data: set[int] = set()

    def sift(self, batch: BatchView, *, keeps_place: bool) -> Buffer | None:
        """Return the bytes that take the batch's place, its own if nothing changes, or None to drop it.

        `keeps_place` is for a batch that has to stay in its place, if only as a header.
        """
        keeps_place = keeps_place or self._is_last_of_producer(batch)
        if batch.attributes & CONTROL:
            return self._sift_control(batch, keeps_place)
        if batch.attributes & TRANSACTIONAL:
            self._with_data.add(batch.producer_id)
        if not batch.count:
            return batch.raw if keeps_place else None
        left = None if self._aborted.hold(batch) else self._sift_data(batch)
        if left is None and keeps_place:
            return _emptied(batch)
        return left

    def _is_last_of_producer(self, batch: BatchView) -> bool:
        if batch.producer_id < 0:
            return False
        last = self._producers.get(batch.producer_id)
        if last is None:
            return False
        if last.data_offset is not None:
            return batch.last_offset == last.data_offset
        return batch.attributes & CONTROL != 0 and batch.producer_epoch == last.epoch

    def _sift_control(self, batch: BatchView, keeps_place: bool) -> Buffer | None:
        if not batch.count:
            return batch.raw if keeps_place else None
        if not batch.attributes & TRANSACTIONAL:
            return batch.raw
        if batch.producer_id in self._with_data:
            # Even an empty batch counts: without the marker it would open a transaction that never ends.
            self._with_data.discard(batch.producer_id)
            return batch.raw
        if not batch.attributes & DELETE_HORIZON:
            return self._with_horizon(batch)
        if self._wall < batch.base_timestamp:
            return batch.raw
        return _emptied(batch) if keeps_place else None

    def _sift_data(self, batch: BatchView) -> Buffer | None:
        has_horizon = batch.attributes & DELETE_HORIZON != 0
        over = has_horizon and self._wall >= batch.base_timestamp
        section = section_of(batch)
        sifted = self._keys.sift(section, KeepRule(self._latest, over))
        if not sifted.kept:
            return None
        # The values that a tombstone deletes are gone only once the map knew the tombstone itself.
        if sifted.tombstones and not has_horizon and batch.last_offset <= self._latest:
            rule = KeepRule(self._latest, over, batch.base_timestamp - self._horizon)
            return self._rebuilt(batch, self._keys.sift(section, rule), self._horizon)
        if sifted.records is None:
            return batch.raw
        return self._rebuilt(batch, sifted)

    def _with_horizon(self, batch: BatchView) -> Buffer:
        """A marker with its delete horizon."""
        keep_all = KeepRule(-1, drop_tombstones=False, shift=batch.base_timestamp - self._horizon)
        return self._rebuilt(batch, self._keys.sift(section_of(batch), keep_all), self._horizon)

    def _rebuilt(self, batch: BatchView, sifted: Sifted, horizon: int | None = None) -> Buffer:
        records = sifted.records if sifted.records is not None else section_of(batch).records
        codec = batch.attributes & CODEC_MASK
        if codec:
            level = self._settings.compression_level if self._settings.target_codec == codec else None
            records = compress(codec, records, level)
        attributes, base_timestamp = batch.attributes, batch.base_timestamp
        if horizon is not None:
            attributes, base_timestamp = attributes | DELETE_HORIZON, horizon
        max_timestamp = batch.max_timestamp
        if not attributes & LOG_APPEND_TIME:
            max_timestamp = batch.base_timestamp + sifted.max_timestamp_delta
        return _packed(batch, attributes, (base_timestamp, max_timestamp), sifted.kept, records)


def _emptied(batch: BatchView) -> bytearray:
    """The header alone.

    Kafka leaves the largest timestamp as it was. Then a time index would lead to a batch that has no such
    record, which Kafka's own tools complain of, so it goes with the records here.
    """
    attributes = batch.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return _packed(batch, attributes, (_NO_TIMESTAMP, _NO_TIMESTAMP), 0, b"")


def _packed(
    batch: BatchView, attributes: int, timestamps: tuple[int, int], count: int, records: Buffer
) -> bytearray:
    raw = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        raw,
        0,
        batch.base_offset,
        HEADER_BYTES - LENGTH_OVERHEAD + len(records),
        batch.leader_epoch,
        MAGIC,
        0,
        attributes,
        batch.last_offset_delta,
        *timestamps,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    raw += records
    raw[_CRC_AT:CRC_START] = crc32c(memoryview(raw)[CRC_START:]).to_bytes(4, "big")
    return raw

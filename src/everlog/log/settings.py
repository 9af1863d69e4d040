"""What one partition's log obeys, with Kafka's defaults."""

from everlog.model.dataclass import dataclass
from everlog.records.compression import Codec

FOREVER = (1 << 63) - 1
"""Kafka's way to say never: the largest int64."""

_DAY_MS = 24 * 3600 * 1000

_TARGET_CODECS = {
    "producer": None,
    "uncompressed": int(Codec.NONE),
    "gzip": int(Codec.GZIP),
    "snappy": int(Codec.SNAPPY),
    "lz4": int(Codec.LZ4),
    "zstd": int(Codec.ZSTD),
}


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings of a topic as far as its logs care. Times are milliseconds, sizes bytes."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS
    """-1 keeps records for ever."""
    retention_bytes: int = -1
    """-1 sets no limit."""
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    delete_retention_ms: int = _DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    max_message_bytes: int = (1 << 20) + 12
    log_append_time: bool = False
    """Whether the broker's clock stamps the records rather than the producer's."""
    timestamp_before_max_ms: int = FOREVER
    timestamp_after_max_ms: int = 3600 * 1000
    flush_messages: int = FOREVER
    flush_ms: int = FOREVER
    file_delete_delay_ms: int = 60_000
    compression_type: str = "producer"
    """`producer` keeps a batch as it came; `uncompressed` or a codec's name makes the broker recompress."""
    compression_level: int | None = None
    """The level of the broker's own compression; None is the codec's default."""
    producer_id_expiration_ms: int = _DAY_MS
    verify_transactions: bool = False
    """Whether a transaction must be admitted by its coordinator before its first batch is taken."""
    refuses_damage: bool = False
    """Whether a log with damage among its durable records is not opened, rather than cut there."""
    max_decompressed_bytes: int = 100 << 20
    """The most that a client's batch may unpack to."""

    @property
    def keeps_batches(self) -> bool:
        """Whether a good batch is kept as it came, with neither its codec nor its timestamps looked at."""
        return (
            self.compression_type == "producer"
            and not self.log_append_time
            and self.timestamp_before_max_ms == FOREVER
        )

    @property
    def target_codec(self) -> int | None:
        """The codec that batches are kept in, or None to keep the producer's choice."""
        return _TARGET_CODECS[self.compression_type]

"""What a topic's partitions here obey: the topic's own configs over this broker's settings."""

from functools import lru_cache
from typing import TypeVar

from everlog.log.settings import LogSettings
from everlog.metadata.image import ClusterImage, topic_resource
from everlog.model.settings import BrokerSettings, Layers, TopicSetting, topic_value
from everlog.model.settings import broker_table as keys
from everlog.model.settings import topic_table as rows

T = TypeVar("T")

_LEVELS: dict[str, TopicSetting[int]] = {
    "gzip": rows.COMPRESSION_GZIP_LEVEL,
    "lz4": rows.COMPRESSION_LZ4_LEVEL,
    "zstd": rows.COMPRESSION_ZSTD_LEVEL,
}


def min_insync_replicas(settings: BrokerSettings, image: ClusterImage, topic: str) -> int:
    """The replicas that must be in sync before the topic takes a write with acks=all."""
    return topic_value(
        rows.MIN_INSYNC_REPLICAS, image.config(topic_resource(topic)), Layers({}, {}, settings.given)
    )


def throttled_replicas(
    settings: BrokerSettings, image: ClusterImage, topic: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The replicas of a topic that are slowed down while they catch up: by leaders, and by themselves."""
    own, layers = image.config(topic_resource(topic)), Layers({}, {}, settings.given)
    by_leaders = topic_value(rows.LEADER_REPLICATION_THROTTLED_REPLICAS, own, layers)
    return by_leaders, topic_value(rows.FOLLOWER_REPLICATION_THROTTLED_REPLICAS, own, layers)


def topic_log_settings(settings: BrokerSettings, image: ClusterImage, topic: str) -> LogSettings:
    """What the topic's logs obey; `settings` are the broker's, with all that was changed while running."""
    return _log_settings(settings, frozenset(image.config(topic_resource(topic)).items()))


# Most topics have no configs of their own, so thousands of partitions share one value.
@lru_cache(maxsize=64)
def _log_settings(settings: BrokerSettings, overrides: frozenset[tuple[str, str]]) -> LogSettings:
    own = dict(overrides)
    layers = Layers({}, {}, settings.given)

    def value(row: TopicSetting[T]) -> T:
        return topic_value(row, own, layers)

    policy = value(rows.CLEANUP_POLICY)
    max_lag_ms = value(rows.MAX_COMPACTION_LAG_MS)
    codec = value(rows.COMPRESSION_TYPE)
    level = _LEVELS.get(codec)
    segment_bytes = value(rows.INTERNAL_SEGMENT_BYTES)
    return LogSettings(
        segment_bytes=value(rows.SEGMENT_BYTES) if segment_bytes is None else segment_bytes,
        # What is to be compacted by then must have been sealed by then.
        segment_ms=min(value(rows.SEGMENT_MS), max_lag_ms) if "compact" in policy else value(rows.SEGMENT_MS),
        segment_jitter_ms=value(rows.SEGMENT_JITTER_MS),
        segment_index_bytes=value(rows.SEGMENT_INDEX_BYTES),
        index_interval_bytes=value(rows.INDEX_INTERVAL_BYTES),
        retention_ms=value(rows.RETENTION_MS),
        retention_bytes=value(rows.RETENTION_BYTES),
        cleanup_delete="delete" in policy,
        cleanup_compact="compact" in policy,
        delete_retention_ms=value(rows.DELETE_RETENTION_MS),
        min_cleanable_dirty_ratio=value(rows.MIN_CLEANABLE_DIRTY_RATIO),
        min_compaction_lag_ms=value(rows.MIN_COMPACTION_LAG_MS),
        max_compaction_lag_ms=max_lag_ms,
        max_message_bytes=value(rows.MAX_MESSAGE_BYTES),
        log_append_time=value(rows.MESSAGE_TIMESTAMP_TYPE) == "LogAppendTime",
        timestamp_before_max_ms=value(rows.MESSAGE_TIMESTAMP_BEFORE_MAX_MS),
        timestamp_after_max_ms=value(rows.MESSAGE_TIMESTAMP_AFTER_MAX_MS),
        flush_messages=value(rows.FLUSH_MESSAGES),
        flush_ms=value(rows.FLUSH_MS),
        file_delete_delay_ms=value(rows.FILE_DELETE_DELAY_MS),
        compression_type=codec,
        compression_level=None if level is None else value(level),
        producer_id_expiration_ms=settings[keys.PRODUCER_ID_EXPIRATION_MS],
        verify_transactions=settings[keys.TRANSACTION_PARTITION_VERIFICATION_ENABLE],
        max_decompressed_bytes=settings[keys.DECOMPRESSED_MAX_BYTES],
    )

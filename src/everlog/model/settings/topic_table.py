"""The settings of a topic, each with the broker's settings that stand in where a topic has none.

The table is Kafka 4.4's: names, types, defaults and bounds. A broker's twin of a topic's setting is
made from the same row, so the two cannot disagree.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from everlog.model.settings.kinds import (
    INT_MAX,
    LONG_MAX,
    Kind,
    Setting,
    Update,
    changing,
    flag,
    fraction,
    needing,
    whole,
    whole_or_unset,
    word,
    words,
)

T = TypeVar("T")

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
MIB = 1 << 20

TIERED_STORAGE = "tiered storage"
SHARE_GROUPS = "share groups"


@dataclass(frozen=True)
class Twin:
    """A broker's setting that stands in for a topic's, and how its value becomes one."""

    setting: Setting[Any]
    factor: int = 1
    """What its value is multiplied with: milliseconds in an hour where it counts hours."""

    def converted(self, value: object) -> object:
        """The value as the topic's setting would have it; negative times stay what they are: for ever."""
        if self.factor == 1 or not isinstance(value, int):
            return value
        return -1 if value < 0 else value * self.factor


@dataclass(frozen=True)
class TopicSetting(Generic[T]):
    """A topic's setting, and the broker's that stand in for it, first one first."""

    setting: Setting[T]
    twins: tuple[Twin, ...] = ()

    @property
    def key(self) -> str:
        """The name of the topic's setting."""
        return self.setting.key


_rows: dict[str, TopicSetting[Any]] = {}


def _topic(setting: Setting[T], *twins: Twin) -> TopicSetting[T]:
    row = TopicSetting(setting, twins)
    _rows[setting.key] = row
    return row


def _with_twin(setting: Setting[T], broker_key: str) -> TopicSetting[T]:
    meaning = f"For topics without their own {setting.key}. {setting.meaning}"
    twin = replace(setting, key=broker_key, meaning=meaning, update=Update.CLUSTER_WIDE)
    return _topic(setting, Twin(twin))


def _dynamic(make: Callable[..., Setting[T]], *args: Any, **bounds: Any) -> Setting[T]:
    return changing(make(*args, **bounds), Update.CLUSTER_WIDE)


INT = Kind.INT

SEGMENT_BYTES = _with_twin(
    whole(
        "segment.bytes",
        1024 * MIB,
        "The size at which a segment is sealed and the next one begun.",
        MIB,
        kind=INT,
    ),
    "log.segment.bytes",
)
SEGMENT_MS = _topic(
    whole("segment.ms", WEEK_MS, "The age at which a segment is sealed even though it is not full.", 1),
    Twin(
        _dynamic(
            whole_or_unset,
            "log.roll.ms",
            "The age in milliseconds at which a segment is sealed; unset: log.roll.hours.",
            1,
        )
    ),
    Twin(
        _dynamic(whole, "log.roll.hours", 168, "The age in hours at which a segment is sealed.", 1, kind=INT),
        HOUR_MS,
    ),
)
SEGMENT_JITTER_MS = _topic(
    whole(
        "segment.jitter.ms", 0, "The most that chance takes off segment.ms, so that not all roll at once.", 0
    ),
    Twin(
        _dynamic(
            whole_or_unset,
            "log.roll.jitter.ms",
            "The most that chance takes off a segment's age; unset: log.roll.jitter.hours.",
            0,
        )
    ),
    Twin(
        _dynamic(
            whole,
            "log.roll.jitter.hours",
            0,
            "The most hours that chance takes off a segment's age.",
            0,
            kind=INT,
        ),
        HOUR_MS,
    ),
)
SEGMENT_INDEX_BYTES = _with_twin(
    whole(
        "segment.index.bytes",
        10 * MIB,
        "The size of an offset index at which its segment is sealed.",
        4,
        kind=INT,
    ),
    "log.index.size.max.bytes",
)
FLUSH_MESSAGES = _with_twin(
    whole(
        "flush.messages",
        LONG_MAX,
        "The number of records after which they are forced to disk; 1 is each batch.",
        1,
    ),
    "log.flush.interval.messages",
)
FLUSH_MS = _topic(
    whole("flush.ms", LONG_MAX, "The longest that records wait before they are forced to disk.", 0),
    Twin(
        _dynamic(
            whole_or_unset,
            "log.flush.interval.ms",
            "The longest that records wait for the disk; unset: log.flush.scheduler.interval.ms.",
            0,
        )
    ),
    Twin(
        whole(
            "log.flush.scheduler.interval.ms",
            LONG_MAX,
            "How often logs are looked at for records due to be flushed.",
            0,
        )
    ),
)
RETENTION_BYTES = _with_twin(
    whole(
        "retention.bytes", -1, "The size of a partition beyond which its oldest segments go; -1 is no limit."
    ),
    "log.retention.bytes",
)
RETENTION_MS = _topic(
    whole(
        "retention.ms", WEEK_MS, "The age beyond which whole sealed segments go; -1 keeps them for ever.", -1
    ),
    Twin(
        _dynamic(
            whole_or_unset,
            "log.retention.ms",
            "The age in milliseconds beyond which segments go; -1 keeps them; unset: log.retention.minutes.",
            -1,
        )
    ),
    Twin(
        _dynamic(
            whole_or_unset,
            "log.retention.minutes",
            "The age in minutes beyond which segments go; -1 keeps them; unset: log.retention.hours.",
            -1,
            kind=INT,
        ),
        MINUTE_MS,
    ),
    Twin(
        _dynamic(
            whole,
            "log.retention.hours",
            168,
            "The age in hours beyond which segments go; -1 keeps them for ever.",
            -1,
            kind=INT,
        ),
        HOUR_MS,
    ),
)
MAX_MESSAGE_BYTES = _with_twin(
    whole(
        "max.message.bytes", MIB + 12, "The largest record batch that is accepted, as it comes.", 0, kind=INT
    ),
    "message.max.bytes",
)
INDEX_INTERVAL_BYTES = _with_twin(
    whole(
        "index.interval.bytes", 4096, "The bytes of log between two entries of its offset index.", 0, kind=INT
    ),
    "log.index.interval.bytes",
)
DELETE_RETENTION_MS = _with_twin(
    whole("delete.retention.ms", DAY_MS, "How long compaction keeps the mark that a key was deleted.", 0),
    "log.cleaner.delete.retention.ms",
)
MIN_COMPACTION_LAG_MS = _with_twin(
    whole("min.compaction.lag.ms", 0, "The age that a record reaches before compaction may remove it.", 0),
    "log.cleaner.min.compaction.lag.ms",
)
MAX_COMPACTION_LAG_MS = _with_twin(
    whole("max.compaction.lag.ms", LONG_MAX, "The age at which a record must have been compacted.", 1),
    "log.cleaner.max.compaction.lag.ms",
)
FILE_DELETE_DELAY_MS = _with_twin(
    whole(
        "file.delete.delay.ms",
        MINUTE_MS,
        "How long a removed segment's files stay on disk for their readers.",
        0,
    ),
    "log.segment.delete.delay.ms",
)
MIN_CLEANABLE_DIRTY_RATIO = _with_twin(
    fraction(
        "min.cleanable.dirty.ratio",
        0.5,
        "The share of a log that must be uncompacted before compaction begins.",
        0,
        1,
    ),
    "log.cleaner.min.cleanable.ratio",
)
CLEANUP_POLICY = _with_twin(
    words(
        "cleanup.policy",
        ("delete",),
        "What becomes of old segments: delete by age and size, compact to each key's last value, or both.",
        ("compact", "delete"),
    ),
    "log.cleanup.policy",
)
UNCLEAN_LEADER_ELECTION_ENABLE = _with_twin(
    flag(
        "unclean.leader.election.enable",
        False,
        "Whether a replica that lags may lead when no other is left, at the price of records.",
    ),
    "unclean.leader.election.enable",
)
MIN_INSYNC_REPLICAS = _with_twin(
    whole(
        "min.insync.replicas",
        1,
        "The replicas that must be in sync before a write with acks=all is accepted.",
        1,
        kind=INT,
    ),
    "min.insync.replicas",
)
COMPRESSION_TYPE = _with_twin(
    word(
        "compression.type",
        "producer",
        "The codec that batches are kept in; producer keeps what the producer chose.",
        ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    "compression.type",
)
COMPRESSION_GZIP_LEVEL = _with_twin(
    whole(
        "compression.gzip.level",
        -1,
        "The level at which the broker compresses with gzip.",
        1,
        9,
        kind=INT,
        also=-1,
    ),
    "compression.gzip.level",
)
COMPRESSION_LZ4_LEVEL = _with_twin(
    whole("compression.lz4.level", 9, "The level at which the broker compresses with lz4.", 1, 17, kind=INT),
    "compression.lz4.level",
)
COMPRESSION_ZSTD_LEVEL = _with_twin(
    whole(
        "compression.zstd.level",
        3,
        "The level at which the broker compresses with zstd.",
        -131072,
        22,
        kind=INT,
    ),
    "compression.zstd.level",
)
PREALLOCATE = _with_twin(
    needing(
        flag("preallocate", False, "Whether a new segment takes its whole size on disk at once."),
        "files that take their size in advance",
    ),
    "log.preallocate",
)
MESSAGE_TIMESTAMP_TYPE = _with_twin(
    word(
        "message.timestamp.type",
        "CreateTime",
        "Whose clock stamps the records: the producer's or, at the append, the broker's.",
        ("CreateTime", "LogAppendTime"),
    ),
    "log.message.timestamp.type",
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = _with_twin(
    whole(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        "How far behind the broker's clock a record's timestamp may be.",
        0,
    ),
    "log.message.timestamp.before.max.ms",
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = _with_twin(
    whole(
        "message.timestamp.after.max.ms",
        HOUR_MS,
        "How far ahead of the broker's clock a record's timestamp may be.",
        0,
    ),
    "log.message.timestamp.after.max.ms",
)
LEADER_REPLICATION_THROTTLED_REPLICAS = _topic(
    words(
        "leader.replication.throttled.replicas",
        (),
        "The replicas whose reading from their leader is slowed down, as partition:broker, or *.",
    )
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = _topic(
    words(
        "follower.replication.throttled.replicas",
        (),
        "The replicas that are slowed down while they catch up, as partition:broker, or *.",
    )
)
REMOTE_STORAGE_ENABLE = _topic(
    needing(
        flag("remote.storage.enable", False, "Whether sealed segments move to object storage."),
        TIERED_STORAGE,
    )
)
LOCAL_RETENTION_MS = _with_twin(
    needing(
        whole(
            "local.retention.ms",
            -2,
            "How long a tiered segment stays on the broker too; -2 is retention.ms.",
            -2,
        ),
        TIERED_STORAGE,
    ),
    "log.local.retention.ms",
)
LOCAL_RETENTION_BYTES = _with_twin(
    needing(
        whole(
            "local.retention.bytes",
            -2,
            "The bytes of a tiered partition kept on the broker; -2 is retention.bytes.",
            -2,
        ),
        TIERED_STORAGE,
    ),
    "log.local.retention.bytes",
)
REMOTE_COPY_LAG_MS = _with_twin(
    needing(
        whole("remote.copy.lag.ms", 0, "How long a sealed segment waits before it is tiered.", -1),
        TIERED_STORAGE,
    ),
    "log.remote.copy.lag.ms",
)
REMOTE_COPY_LAG_BYTES = _with_twin(
    needing(
        whole(
            "remote.copy.lag.bytes", -1, "The bytes of sealed segments that wait before they are tiered.", -1
        ),
        TIERED_STORAGE,
    ),
    "log.remote.copy.lag.bytes",
)
REMOTE_LOG_COPY_DISABLE = _topic(
    needing(
        flag("remote.log.copy.disable", False, "Whether a tiered topic stops copying and is only read."),
        TIERED_STORAGE,
    )
)
REMOTE_LOG_DELETE_ON_DISABLE = _topic(
    needing(
        flag("remote.log.delete.on.disable", False, "Whether tiered data goes when tiering is switched off."),
        TIERED_STORAGE,
    )
)
ERRORS_DEADLETTERQUEUE_GROUP_ENABLE = _topic(
    needing(
        flag(
            "errors.deadletterqueue.group.enable",
            False,
            "Whether share groups may use the topic for dead letters.",
        ),
        SHARE_GROUPS,
    )
)
INTERNAL_SEGMENT_BYTES = _topic(
    whole_or_unset(
        "internal.segment.bytes",
        "As segment.bytes, with no lower bound to speak of: for tests of what happens with many segments.",
        1,
        INT_MAX,
        kind=INT,
    )
)

TOPIC_SETTINGS: Mapping[str, TopicSetting[Any]] = MappingProxyType(_rows)
"""Every setting that a topic may have, by key."""

INTERNAL_KEYS = frozenset({INTERNAL_SEGMENT_BYTES.key})
"""Settings that can be given and are not described unless they are."""

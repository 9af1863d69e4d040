"""The settings of a producer, under Kafka's names and with Kafka's defaults (P1-P5)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from everlog.client.core.settings import (
    ConnectionOptions,
    ConnectionSettings,
    flag,
    function,
    maybe,
    one_of,
    read_settings,
    setting,
    text,
    whole,
    wrong,
)
from everlog.model.errors import ConfigError
from everlog.records.compression import Codec

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
MAX_IN_FLIGHT_IN_ORDER = 5
"""A broker remembers so many batches of a producer: a retry of an older one would not be recognized."""
NO_END = 2**31 - 1
MURMUR2, ROUND_ROBIN = "murmur2", "round_robin"
STICKY = "sticky"
"""Another name of murmur2, for what both do with records that have no key."""

Serializer = Callable[[Any], bytes | None]
"""Makes bytes of what an application sends. None stays None, it is not asked about."""

Partitioner = Callable[[str, bytes | None, bytes | None, Sequence[int]], int]
"""Given topic, key, value (as bytes) and the partitions: the partition of a record."""

_CODECS = {codec.name.lower(): codec for codec in Codec}
_LEVELS = {Codec.GZIP: (1, 9), Codec.LZ4: (1, 17), Codec.ZSTD: (-131072, 22)}


class ProducerOptions(ConnectionOptions, total=False):
    """Keyword arguments of a producer, beside its bootstrap servers."""

    acks: int | Literal["all"]
    linger_ms: int
    batch_size: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_level: int | None
    max_in_flight_requests_per_connection: int
    retries: int
    delivery_timeout_ms: int
    enable_idempotence: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    partitioner: Literal["murmur2", "sticky", "round_robin"] | Partitioner
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    allow_auto_create_topics: bool


def _acks(name: str, value: Any) -> int:
    known = {"all": ACKS_ALL, "-1": ACKS_ALL, "0": ACKS_NONE, "1": ACKS_LEADER}
    if isinstance(value, bool) or str(value) not in known:
        raise wrong(name, value, "0, 1 or 'all'")
    return known[str(value)]


def _partitioner(name: str, value: Any) -> Any:
    if value == STICKY:
        return MURMUR2
    if value in (MURMUR2, ROUND_ROBIN) or callable(value):
        return value
    raise wrong(name, value, "'murmur2' or 'sticky', which are the same, 'round_robin' or something to call")


def _level(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(name, value, "a whole number or None")
    return value


@dataclass(frozen=True, kw_only=True)
class ProducerSettings(ConnectionSettings):
    """How a producer collects records and sends them."""

    acks: int = setting(ACKS_ALL, _acks, "whose copies make a record delivered: 0 none, 1 the leader, 'all'")
    linger_ms: int = setting(5, whole(0), "how long a batch that is not full waits for more records")
    batch_size: int = setting(16 * 1024, whole(0), "bytes from which a batch waits no longer")
    buffer_memory: int = setting(
        32 * 1024 * 1024, whole(1, 2**62), "bytes of records that may wait; above it send waits"
    )
    max_block_ms: int = setting(60_000, whole(0), "how long send waits for room or for metadata")
    max_request_size: int = setting(1024 * 1024, whole(1), "most bytes of a record, a batch, a request")
    compression_type: str = setting("none", one_of(*_CODECS), "the codec of batches")
    compression_level: int | None = setting(
        None, maybe(_level), "the codec's own level; None for its default"
    )
    max_in_flight_requests_per_connection: int = setting(5, whole(1), "requests sent ahead of answers")
    retries: int = setting(NO_END, whole(0), "how often a batch is sent again; time ends it sooner")
    delivery_timeout_ms: int = setting(120_000, whole(1), "after which a record that is not delivered failed")
    enable_idempotence: bool = setting(True, flag, "whether each record is written once and in order")
    transactional_id: str | None = setting(None, maybe(text), "the name under which it makes transactions")
    transaction_timeout_ms: int = setting(60_000, whole(1), "after which the broker aborts a transaction")
    partitioner: Any = setting(MURMUR2, _partitioner, "which partition a record goes to")
    partitioner_ignore_keys: bool = setting(False, flag, "whether keys do not matter for the partition")
    partitioner_adaptive_partitioning_enable: bool = setting(
        True, flag, "whether partitions that are slow get fewer records without a key (KIP-794)"
    )
    key_serializer: Serializer | None = setting(None, maybe(function), "what makes bytes of keys")
    value_serializer: Serializer | None = setting(None, maybe(function), "what makes bytes of values")
    allow_auto_create_topics: bool = setting(True, flag, "whether sending to a topic may create it")

    @property
    def codec(self) -> Codec:
        """The codec of batches."""
        return _CODECS[self.compression_type]

    def __post_init__(self) -> None:
        """Refuse what contradicts itself, naming both sides."""
        if self.enable_idempotence and (problem := _idempotence_problem(self)):
            raise ConfigError(f"setting enable_idempotence=True contradicts {problem}")
        if self.transactional_id is not None and not self.enable_idempotence:
            name = f"transactional_id={self.transactional_id!r}"
            raise ConfigError(f"setting {name}: transactions need enable_idempotence=True")
        if self.compression_level is not None:
            self._check_level(self.compression_level)
        least = self.linger_ms + self.request_timeout_ms
        if self.delivery_timeout_ms < least:
            raise ConfigError(
                f"setting delivery_timeout_ms={self.delivery_timeout_ms}: expected at least linger_ms + "
                f"request_timeout_ms, {least}"
            )

    def _check_level(self, level: int) -> None:
        bounds = _LEVELS.get(self.codec)
        if bounds is None:
            raise ConfigError(
                f"setting compression_level={level}: compression_type={self.compression_type!r} has no levels"
            )
        if not bounds[0] <= level <= bounds[1]:
            raise wrong("compression_level", level, f"{bounds[0]} to {bounds[1]} for {self.compression_type}")


def producer_settings(bootstrap_servers: Any, options: Mapping[str, Any]) -> ProducerSettings:
    """Make settings of a user's arguments; ConfigError names what is unknown, wrong or contradictory.

    Idempotence that was not asked for gives way to a setting that excludes it, and so does a delivery
    time-out to a longer request time-out, as in Kafka's own producer.
    """
    given = {"bootstrap_servers": bootstrap_servers, **options}
    return read_settings(ProducerSettings, {**given, **_defaults_that_give_way(given)})


def _defaults_that_give_way(given: Mapping[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    if "enable_idempotence" not in given and given.get("transactional_id") is None:
        conflict = (
            given.get("acks", "all") not in ("all", "-1", ACKS_ALL)
            or given.get("retries", NO_END) == 0
            or _exceeds(given.get("max_in_flight_requests_per_connection"), MAX_IN_FLIGHT_IN_ORDER)
        )
        if conflict:
            changed["enable_idempotence"] = False
    if "delivery_timeout_ms" not in given:
        parts = (given.get("linger_ms", 5), given.get("request_timeout_ms", 30_000))
        if all(isinstance(part, int) for part in parts) and sum(parts) > 120_000:
            changed["delivery_timeout_ms"] = min(sum(parts), NO_END)
    return changed


def _exceeds(value: Any, limit: int) -> bool:
    return isinstance(value, int) and value > limit


def _idempotence_problem(settings: ProducerSettings) -> str | None:
    if settings.acks != ACKS_ALL:
        return f"acks={settings.acks}: expected 'all'"
    if settings.retries == 0:
        return "retries=0: expected at least 1"
    if settings.max_in_flight_requests_per_connection > MAX_IN_FLIGHT_IN_ORDER:
        found = settings.max_in_flight_requests_per_connection
        return f"max_in_flight_requests_per_connection={found}: expected at most {MAX_IN_FLIGHT_IN_ORDER}"
    return None

"""The settings of a consumer, under Kafka's names and with Kafka's defaults (C1, C4, C5)."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from everlog.client.core.group.assignors.table import read_assignors
from everlog.client.core.settings import (
    ConnectionOptions,
    ConnectionSettings,
    flag,
    function,
    maybe,
    one_of,
    setting,
    text,
    whole,
    wrong,
)
from everlog.model.errors import ConfigError

EARLIEST, LATEST, NONE, BY_DURATION = "earliest", "latest", "none", "by_duration"
READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"
CLASSIC, CONSUMER = "classic", "consumer"
PARTITION_FETCH_BYTES = 1024 * 1024
"""As Kafka has it, where nothing else is set."""

Deserializer = Callable[[bytes], Any]
"""Makes of the bytes of a key or a value what an application sees. Null stays None, it is not asked about."""


class ConsumerOptions(ConnectionOptions, total=False):
    """Keyword arguments of a consumer, beside its bootstrap servers, topics and group."""

    group_instance_id: str | None
    group_protocol: Literal["classic", "consumer"]
    group_remote_assignor: str | None
    partition_assignment_strategy: Any
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    isolation_level: Literal["read_uncommitted", "read_committed"]
    fetch_min_bytes: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    fetch_max_wait_ms: int
    prefetch_max_bytes: int
    client_rack: str
    check_crcs: bool
    exclude_internal_topics: bool
    allow_auto_create_topics: bool
    default_api_timeout_ms: int
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None


_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?\Z"
)
_UNIT_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def reset_duration_ms(reset: str) -> int | None:
    """How far back `by_duration:PT1H30M` goes (KIP-1106); None for the other ways to reset."""
    kind, _, duration = reset.partition(":")
    if kind != BY_DURATION:
        return None
    parts = _DURATION.match(duration.upper())
    given = {} if parts is None else {name: found for name, found in parts.groupdict().items() if found}
    if not given:
        raise ConfigError(f"duration {duration!r} cannot be read: expected ISO 8601, such as PT1H30M or P7D")
    return int(sum(float(found) * _UNIT_MS[name] for name, found in given.items()))


def _reset(name: str, value: Any) -> str:
    expected = "earliest, latest, none or by_duration:PT… such as by_duration:PT1H"
    if not isinstance(value, str):
        raise wrong(name, value, expected)
    try:
        is_duration = reset_duration_ms(value) is not None
    except ConfigError as error:
        raise ConfigError(f"setting {name}={value!r}: {error}") from None
    if not is_duration and value not in (EARLIEST, LATEST, NONE):
        raise wrong(name, value, expected)
    return value


def _assignors(name: str, value: Any) -> tuple[Any, ...]:
    given = tuple(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else (value,)
    if not given or any(entry is None or entry == "" for entry in given):
        raise wrong(name, given, "the name of an assignor, an assignor, or several of them")
    read_assignors(given)
    return given


def _words(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(name, value, "a string")
    return value


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings(ConnectionSettings):
    """How a consumer reads, and how it behaves as a member of a group."""

    group_id: str | None = setting(
        None, maybe(text), "the group whose member it is and whose offsets it uses"
    )
    group_instance_id: str | None = setting(
        None, maybe(text), "a name that outlives restarts: a static member keeps its partitions meanwhile"
    )
    group_protocol: str = setting(
        CLASSIC, one_of(CLASSIC, CONSUMER), "who shares out partitions: a member, or the broker (KIP-848)"
    )
    group_remote_assignor: str | None = setting(
        None, maybe(text), "the broker's assignor under group_protocol='consumer'; None for its choice"
    )
    partition_assignment_strategy: tuple[Any, ...] = setting(
        ("range", "cooperative-sticky"), _assignors, "assignors under group_protocol='classic', best first"
    )
    session_timeout_ms: int = setting(45_000, whole(1), "after which a silent member is taken for dead")
    heartbeat_interval_ms: int = setting(3_000, whole(1), "how often a member says that it lives")
    max_poll_interval_ms: int = setting(
        300_000, whole(1), "between two polls; one that takes longer gives up its partitions"
    )
    max_poll_records: int = setting(500, whole(1), "most records of one poll")
    enable_auto_commit: bool = setting(True, flag, "whether positions are committed without being asked")
    auto_commit_interval_ms: int = setting(5_000, whole(0), "how often they are")
    auto_offset_reset: str = setting(
        LATEST, _reset, "where to begin without a committed offset, or when it is gone"
    )
    isolation_level: str = setting(
        READ_UNCOMMITTED, one_of(READ_UNCOMMITTED, READ_COMMITTED), "whether open transactions are seen"
    )
    fetch_min_bytes: int = setting(1, whole(0), "a fetch waits until there is so much, or too long")
    fetch_max_bytes: int = setting(50 * 1024 * 1024, whole(0), "most bytes of one fetch, if records fit")
    max_partition_fetch_bytes: int = setting(
        PARTITION_FETCH_BYTES, whole(0), "most bytes of one partition in a fetch; columns ask for more"
    )
    fetch_max_wait_ms: int = setting(500, whole(0), "how long a fetch waits for fetch_min_bytes")
    prefetch_max_bytes: int = setting(
        64 * 1024 * 1024, whole(1), "fetching goes on while less than this waits to be polled"
    )
    client_rack: str = setting("", _words, "where this client is, to read from a replica nearby (KIP-392)")
    check_crcs: bool = setting(True, flag, "whether the checksums of batches are checked")
    exclude_internal_topics: bool = setting(True, flag, "whether a pattern leaves internal topics out")
    allow_auto_create_topics: bool = setting(True, flag, "whether asking for a topic may create it")
    default_api_timeout_ms: int = setting(60_000, whole(1), "how long a call without a time-out may take")
    key_deserializer: Deserializer | None = setting(None, maybe(function), "what is made of keys")
    value_deserializer: Deserializer | None = setting(None, maybe(function), "what is made of values")
    given: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """No setting: the names of those that the user wrote, whatever their values."""

    def __post_init__(self) -> None:
        reason = None
        if self.group_protocol == CLASSIC and self.heartbeat_interval_ms >= self.session_timeout_ms:
            reason = (
                f"setting heartbeat_interval_ms={self.heartbeat_interval_ms}: expected less than "
                f"session_timeout_ms={self.session_timeout_ms}"
            )
        if self.group_instance_id is not None and self.group_id is None:
            reason = f"setting group_instance_id={self.group_instance_id!r}: expected a group_id with it"
        if reason is not None:
            raise ConfigError(reason)

    @property
    def read_committed(self) -> bool:
        """Whether records of open and aborted transactions are left out."""
        return self.isolation_level == READ_COMMITTED

    @property
    def api_timeout(self) -> float:
        """Seconds that a call may take which was given no time-out."""
        return self.default_api_timeout_ms / 1000

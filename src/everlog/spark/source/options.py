"""The options of the source: those of Spark's Kafka connector, under its names, and ours.

What is wrong or contradicts something else is refused by name. An option that nobody knows is left alone, as
the other connector does, unless it looks like one of ours misspelled.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from everlog.client.core.consumer.settings import READ_COMMITTED, READ_UNCOMMITTED, ConsumerSettings
from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition, topic_name_problem
from everlog.spark.option_names import refuse_misspelled
from everlog.spark.source.client_settings import client_options
from everlog.spark.source.offsets import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    AtTimestamps,
    Bound,
    Earliest,
    Latest,
    OfGroup,
    Specific,
    read_assignment,
    read_offsets,
    read_timestamps,
)
from everlog.values import BadSetting, portable

FETCH_BYTES = 8 * 1024 * 1024
"""What a task asks for at a time, unless kafka.max.partition.fetch.bytes says otherwise."""

REFUSED = {
    "auto.offset.reset": "say where to begin with startingOffsets; afterwards the checkpoint knows",
    "key.deserializer": "keys come as binary; convert them in the query",
    "value.deserializer": "values come as binary, or as typed columns with valueFormat",
    "enable.auto.commit": "offsets are in the checkpoint; commitGroup commits them to a group too",
    "interceptor.classes": "there is no Java here to run them",
}

NAMES = (
    "assign", "subscribe", "subscribePattern",
    "startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp",
    "startingOffsetsByTimestampStrategy", "endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp",
    "failOnDataLoss", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "maxBytesPerTrigger", "minPartitions", "maxRecordsPerPartition", "groupIdPrefix", "includeHeaders",
    "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms", "readCommitted", "commitGroup", "lowLatency", "pushFilters",
    "columns",
    "valueFormat", "valueSchema", "valueColumns", "mode",
)  # fmt: skip
"""All options but `kafka.…` and `value.…`."""

VALUE_PREFIX = "value."
"""Options that begin so are settings of the value format."""


_SETS_OF_JAVA = re.compile(r"(?<!\\)(?:\\\\)*\[\^?\]?(?:\\.|[^\]\\\[&]|&(?!&))*(?:\[|&&)")
"""`[` or `&&` within a set: no name of a topic has them, so nobody means the character."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """These partitions."""

    places: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Subscribed:
    """All partitions of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """All partitions of the topics whose whole name matches."""

    pattern: str


Selection = Assigned | Subscribed | Matching


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a trigger reads; None for no limit."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60_000
    max_bytes: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return self.max_offsets is not None or self.min_offsets is not None or self.max_bytes is not None


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """How values become columns."""

    format: str
    schema: str | None
    as_struct: bool
    mode: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All that a read was asked for."""

    client: Mapping[str, Any]
    """Keyword arguments of a client."""
    selection: Selection
    start: Bound
    start_option: str
    """What the user wrote it with, for messages."""
    end: Bound
    end_option: str
    latest_if_no_match: bool
    fail_on_data_loss: bool
    limits: Limits
    min_partitions: int | None
    max_records: int | None
    include_headers: bool
    read_committed: bool
    poll_timeout_s: float
    metadata_ttl_s: float | None
    """For how long the set of partitions is believed; None for not at all."""
    commit_group: str | None
    low_latency: bool
    """Whether the planner of a stream reads what little a trigger has."""
    push_filters: bool
    """Whether filters narrow down what a batch reads. Not by default: Spark 4.3 keeps tasks planned with
    filters for the next query of the same DataFrame, which has others, and rows would be missing."""
    columns: tuple[str, ...] | None
    value: ValueOptions | None


def read_options(given: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
    """Read the options of a batch or a streaming query; ConfigError names what is wrong.

    With None for what is not known yet: what only one of the two refuses is not refused.
    """
    options = _Options(given)
    if "path" in options:
        raise ConfigError(f"load({options.get('path')!r}): topics have no path; expected option subscribe")
    refuse_misspelled(given, NAMES, ("kafka.", VALUE_PREFIX))
    start_option, start = _bound(options, "starting", Latest() if streaming else Earliest())
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if name in options:
                raise ConfigError(f"option {name} is for batch queries only: a stream has no end")
    end_option, end = _bound(options, "ending", Latest())
    if streaming is False:
        _check_batch_bounds(start_option, start, end_option, end)
    client = client_options(given, ConsumerSettings, REFUSED)
    read_committed = _isolation(options, client)
    client.setdefault("max_partition_fetch_bytes", FETCH_BYTES)
    client["enable_auto_commit"] = False
    client["allow_auto_create_topics"] = False
    ttl = options.whole("partition.metadata.cache.ttl.ms", -1)
    _check_unused(options)
    return SourceOptions(
        client=client,
        selection=_selection(options),
        start=start,
        start_option=start_option,
        end=end,
        end_option=end_option,
        latest_if_no_match=options.one_of("startingOffsetsByTimestampStrategy", "error", "latest")
        == "latest",
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        limits=_limits(options) if streaming else Limits(),
        min_partitions=options.whole("minPartitions", 1),
        max_records=options.whole("maxRecordsPerPartition", 1),
        include_headers=options.flag("includeHeaders", default=False),
        read_committed=read_committed,
        poll_timeout_s=(options.whole("kafkaConsumer.pollTimeoutMs", 1) or 120_000) / 1000,
        metadata_ttl_s=None if ttl is None or ttl < 0 else ttl / 1000,
        commit_group=options.text("commitGroup"),
        low_latency=options.flag("lowLatency", default=False),
        push_filters=options.flag("pushFilters", default=False),
        columns=_columns(options),
        value=_value(options),
    )


class _Options:
    """Options by name, whatever the case; values as types, or ConfigError."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def get(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def below(self, prefix: str) -> dict[str, str]:
        """Options that begin with a prefix, without it."""
        return {
            name.removeprefix(prefix): value for name, value in self._given.items() if name.startswith(prefix)
        }

    def text(self, name: str) -> str | None:
        value = self.get(name)
        if value is not None and not value.strip():
            raise ConfigError(f"option {name} is empty: expected a value, or leave it out")
        return value if value is None else value.strip()

    def whole(self, name: str, least: int) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        if not re.fullmatch(r"-?\d+", value.strip()) or int(value) < least:
            raise ConfigError(f"option {name}={value!r}: expected a whole number of {least} or more")
        return int(value)

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.get(name)
        if value is None:
            return default
        if value.strip().lower() not in ("true", "false"):
            raise ConfigError(f"option {name}={value!r}: expected true or false")
        return value.strip().lower() == "true"

    def one_of(self, name: str, *choices: str) -> str:
        """One of these words; the first is the default."""
        value = (self.get(name) or choices[0]).strip().lower()
        if value not in (choice.lower() for choice in choices):
            raise ConfigError(f"option {name}={self.get(name)!r}: expected one of {', '.join(choices)}")
        return value


def _check_unused(options: _Options) -> None:
    """Options that mean nothing here, but whose values may be wrong all the same."""
    options.whole("fetchOffset.numRetries", 0)
    options.whole("fetchOffset.retryIntervalMs", 0)
    options.text("groupIdPrefix")


def _selection(options: _Options) -> Selection:
    names = [name for name in ("assign", "subscribe", "subscribePattern") if name in options]
    if len(names) != 1:
        said = f"got {' and '.join(names)}" if names else "got none of them"
        raise ConfigError(f"which topics? Expected one option of assign, subscribe, subscribePattern: {said}")
    text = options.get(names[0]) or ""
    if not text.strip():
        raise ConfigError(f"option {names[0]} is empty: expected topics")
    if names[0] == "assign":
        return Assigned(read_assignment("assign", text))
    if names[0] == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
        if not topics:
            raise ConfigError(f"option subscribe={text!r} names no topic")
        for topic in topics:
            problem = topic_name_problem(topic)
            if problem is not None:
                raise ConfigError(f"option subscribe={text!r}: {problem}")
        return Subscribed(topics)
    if _SETS_OF_JAVA.search(text):
        # Python takes it for something else, and would match other topics without a word.
        raise ConfigError(
            f"option subscribePattern={text!r} has a set within a set, which only Java knows: expected a "
            "regular expression of Python's"
        )
    # Java's way to name a group is the one thing in common use that Python writes otherwise.
    pattern = re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", text.strip())
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"option subscribePattern={text!r} is not a regular expression: {error}") from None
    return Matching(pattern)


def _bound(options: _Options, side: str, default: Bound) -> tuple[str, Bound]:
    """Where reading starts or ends: one moment for all beats moments, which beat offsets."""
    moment, moments, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    timestamp = options.whole(moment, 0)
    if timestamp is not None:
        return moment, AtTimestamp(timestamp)
    text = options.text(moments)
    if text is not None:
        return moments, AtTimestamps(read_timestamps(moments, text))
    text = options.text(offsets)
    if text is None:
        return offsets, default
    if text.lower() == "earliest":
        return offsets, Earliest()
    if text.lower() == "latest":
        return offsets, Latest()
    if text.startswith("group:"):
        group = text.removeprefix("group:").strip()
        if not group:
            raise ConfigError(f"option {offsets}={text!r}: expected group:NAME")
        return offsets, OfGroup(group)
    if not text.startswith("{"):
        raise ConfigError(
            f"option {offsets}={text!r}: expected earliest, latest, group:NAME or JSON such as "
            '{"orders": {"0": 23}}'
        )
    return offsets, Specific(read_offsets(offsets, text))


def _check_batch_bounds(start_option: str, start: Bound, end_option: str, end: Bound) -> None:
    if isinstance(start, Latest):
        raise ConfigError(f"option {start_option}=latest is for streams: a batch would have nothing to read")
    if isinstance(end, Earliest):
        raise ConfigError(f"option {end_option}=earliest leaves nothing to read: expected latest or offsets")
    for option, bound, odd in ((start_option, start, LATEST), (end_option, end, EARLIEST)):
        if isinstance(bound, Specific):
            for place, offset in bound.offsets.items():
                if offset == odd:
                    raise ConfigError(f"option {option}: {odd} for {place} leaves nothing to read in a batch")


def _isolation(options: _Options, client: dict[str, Any]) -> bool:
    level = client.get("isolation_level")
    committed = options.flag("readCommitted", default=level != READ_UNCOMMITTED)
    if level is not None and committed != (level == READ_COMMITTED):
        raise ConfigError(
            f"options readCommitted={options.get('readCommitted')} and kafka.isolation.level={level} "
            "contradict each other: expected one of them"
        )
    client["isolation_level"] = READ_COMMITTED if committed else READ_UNCOMMITTED
    return committed


def _limits(options: _Options) -> Limits:
    most, least = options.whole("maxOffsetsPerTrigger", 1), options.whole("minOffsetsPerTrigger", 1)
    if most is not None and least is not None and least > most:
        raise ConfigError(
            f"option minOffsetsPerTrigger={least} is higher than maxOffsetsPerTrigger={most}: "
            "expected at most that"
        )
    delay = options.text("maxTriggerDelay")
    return Limits(
        max_offsets=most,
        min_offsets=least,
        max_delay_ms=Limits().max_delay_ms if delay is None else _duration_ms("maxTriggerDelay", delay),
        max_bytes=options.whole("maxBytesPerTrigger", 1),
    )


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration_ms(option: str, text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    unit = "ms" if found is None else found[2] or "ms"
    if found is None or unit not in _UNITS_MS:
        raise ConfigError(f"option {option}={text!r}: expected a time such as 500ms, 30s, 15m or 1h")
    return int(found[1]) * _UNITS_MS[unit]


def _columns(options: _Options) -> tuple[str, ...] | None:
    text = options.text("columns")
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _value(options: _Options) -> ValueOptions | None:
    name = options.text("valueFormat")
    if name is None:
        for odd in ("valueSchema", "valueColumns", "mode"):
            if odd in options:
                raise ConfigError(f"option {odd} goes with valueFormat, which is not given")
        return None
    return ValueOptions(
        format=name.lower(),
        schema=options.text("valueSchema"),
        as_struct=options.one_of("valueColumns", "spread", "struct") == "struct",
        mode=options.one_of("mode", "permissive", "dropmalformed", "failfast"),
        settings=_value_settings(name.lower(), options.below(VALUE_PREFIX)),
    )


def _value_settings(name: str, given: Mapping[str, str]) -> Mapping[str, str]:
    try:
        return portable(name, given)
    except BadSetting as error:
        raise ConfigError(f"option valueFormat={name}: {error}") from None

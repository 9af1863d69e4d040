"""What a topic obeys: its own overrides, else the brokers' settings, else the defaults."""

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import TypeVar, cast

from everlog.model.dataclass import dataclass
from everlog.model.errors import ConfigError
from everlog.model.settings.broker import unknown_setting
from everlog.model.settings.kinds import Setting
from everlog.model.settings.topic_table import (
    MAX_COMPACTION_LAG_MS,
    MIN_COMPACTION_LAG_MS,
    TOPIC_SETTINGS,
    TopicSetting,
)

T = TypeVar("T")


class Source(IntEnum):
    """Where a value comes from, with the number that DescribeConfigs gives it."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class Layers:
    """What brokers were told, nearest first: this broker while running, all while running, its file."""

    dynamic_broker: Mapping[str, str]
    dynamic_default: Mapping[str, str]
    static: Mapping[str, str]

    def sources(self, key: str) -> list[tuple[Source, str]]:
        """Each place that gives `key` a text, nearest first."""
        places = (
            (Source.DYNAMIC_BROKER, self.dynamic_broker),
            (Source.DYNAMIC_DEFAULT_BROKER, self.dynamic_default),
            (Source.STATIC_BROKER, self.static),
        )
        return [(source, place[key]) for source, place in places if key in place]


@dataclass(frozen=True, slots=True)
class Origin:
    """One place that a value may come from: whose key it is and what it says."""

    key: str
    text: str | None
    source: Source


def parse_topic_value(key: str, text: str) -> object:
    """Check one override of a topic; ConfigError if it is unknown, wrong or not served yet."""
    row = TOPIC_SETTINGS.get(key)
    if row is None:
        raise unknown_setting(key, TOPIC_SETTINGS, "topic setting")
    return row.setting.parse(text)


def check_topic_overrides(
    overrides: Mapping[str, str], layers: Layers, touched: Collection[str] | None = None
) -> None:
    """Check the overrides of a topic, alone and together; ConfigError names the first that is wrong.

    Where some are `touched` only those are checked alone, the others having been there before.
    """
    touched = overrides.keys() if touched is None else touched
    for key in touched:
        parse_topic_value(key, overrides[key])
    if MIN_COMPACTION_LAG_MS.key not in touched and MAX_COMPACTION_LAG_MS.key not in touched:
        return
    least = topic_value(MIN_COMPACTION_LAG_MS, overrides, layers)
    most = topic_value(MAX_COMPACTION_LAG_MS, overrides, layers)
    if least > most:
        raise ConfigError(
            f"min.compaction.lag.ms is {least}, expected at most {most}, which is max.compaction.lag.ms"
        )


def topic_value(row: TopicSetting[T], overrides: Mapping[str, str], layers: Layers) -> T:
    """The value that a topic obeys: of its own, of the brokers' twins in their order, or the default.

    A text that this version cannot serve is passed over: it was checked when it was set.
    """
    text = overrides.get(row.key)
    if text is not None:
        value = _parsed(row.setting, text)
        if value is not None:
            return value
    for twin in row.twins:
        for _, text in layers.sources(twin.setting.key):
            value = _parsed(twin.setting, text)
            if value is not None:
                return cast(T, twin.converted(value))
    return row.setting.default


def topic_origins(row: TopicSetting[T], overrides: Mapping[str, str], layers: Layers) -> list[Origin]:
    """Each place that gives the topic's setting a value, the one that counts first, the default last."""
    origins: list[Origin] = []
    if row.key in overrides:
        origins.append(Origin(row.key, overrides[row.key], Source.TOPIC))
    for twin in row.twins:
        origins.extend(
            Origin(twin.setting.key, text, source) for source, text in layers.sources(twin.setting.key)
        )
    for twin in row.twins:
        if twin.setting.default is not None:
            text = twin.setting.text(twin.setting.default)
            origins.append(Origin(twin.setting.key, text, Source.DEFAULT))
    if not row.twins and row.setting.default is not None:
        origins.append(Origin(row.key, row.setting.text(row.setting.default), Source.DEFAULT))
    return origins


def _parsed(setting: Setting[T], text: str) -> T | None:
    try:
        return setting.parse(text)
    except ConfigError:
        return None

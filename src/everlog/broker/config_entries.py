"""Configs as clients see them: each with its value, where it comes from, and what else would apply."""

from collections.abc import Iterable, Mapping

from everlog.metadata.image import ALL_BROKERS, ClusterImage, broker_resource
from everlog.model.dataclass import dataclass
from everlog.model.ids import BrokerId
from everlog.model.settings import (
    BROKER_SETTINGS,
    INTERNAL_KEYS,
    TOPIC_SETTINGS,
    BrokerSettings,
    Kind,
    Layers,
    Origin,
    Setting,
    Source,
    Update,
    topic_origins,
    topic_value,
)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config of one resource. A sensitive one shows no value, here or in its origins."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    kind: Kind
    meaning: str
    origins: tuple[Origin, ...]
    """Every place that gives a value, the one that counts first."""


def broker_layers(static: BrokerSettings, image: ClusterImage, broker: BrokerId) -> Layers:
    """What a broker was told, in its file and while running."""
    return Layers(image.config(broker_resource(broker)), image.config(ALL_BROKERS), static.given)


def topic_entries(overrides: Mapping[str, str], layers: Layers) -> list[ConfigEntry]:
    """All configs of a topic as a broker with these layers obeys them, in the order of the table."""
    entries: list[ConfigEntry] = []
    for row in TOPIC_SETTINGS.values():
        if row.key in INTERNAL_KEYS and row.key not in overrides:
            continue
        setting = row.setting
        origins = tuple(topic_origins(row, overrides, layers))
        source = origins[0].source if origins else Source.DEFAULT
        value = setting.text(topic_value(row, overrides, layers))
        entries.append(_entry(setting, value, source, origins, read_only=False))
    return entries


def broker_entries(layers: Layers) -> list[ConfigEntry]:
    """All settings of a broker with these layers, in the order of the table."""
    return [_broker_entry(setting, layers) for setting in BROKER_SETTINGS.values()]


def default_broker_entries(image: ClusterImage) -> list[ConfigEntry]:
    """What was set for all brokers while running; what was not set is not shown, as in Kafka."""
    entries: list[ConfigEntry] = []
    for name, text in image.config(ALL_BROKERS).items():
        setting = BROKER_SETTINGS.get(name)
        if setting is not None:
            origin = Origin(name, text, Source.DYNAMIC_DEFAULT_BROKER)
            entries.append(_entry(setting, text, origin.source, (origin,), read_only=False))
    return entries


def named(entries: Iterable[ConfigEntry], names: Iterable[str] | None) -> list[ConfigEntry]:
    """The entries with these names, or all of them for None; names that are not there are passed over."""
    if names is None:
        return list(entries)
    wanted = set(names)
    return [entry for entry in entries if entry.name in wanted]


def _broker_entry(setting: Setting[object], layers: Layers) -> ConfigEntry:
    origins = [Origin(setting.key, text, source) for source, text in layers.sources(setting.key)]
    if setting.default is not None:
        origins.append(Origin(setting.key, setting.text(setting.default), Source.DEFAULT))
    value, source = (origins[0].text, origins[0].source) if origins else (None, Source.DEFAULT)
    read_only = setting.update is Update.READ_ONLY
    return _entry(setting, value, source, tuple(origins), read_only=read_only)


def _entry(
    setting: Setting[object],
    value: str | None,
    source: Source,
    origins: tuple[Origin, ...],
    *,
    read_only: bool,
) -> ConfigEntry:
    hidden = setting.sensitive
    return ConfigEntry(
        name=setting.key,
        value=None if hidden else value,
        source=source,
        read_only=read_only,
        sensitive=hidden,
        kind=setting.kind,
        meaning=setting.meaning,
        origins=tuple(Origin(one.key, None, one.source) for one in origins) if hidden else origins,
    )

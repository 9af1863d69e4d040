"""Options `kafka.…` to the settings of our clients: Kafka's dotted names, strings as Spark has them."""

import logging
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from everlog.client.core.kafka_names import named_by_kafka
from everlog.client.core.settings import ConnectionSettings, read_settings
from everlog.model.errors import ConfigError

PREFIX = "kafka."
BOOTSTRAP = "kafka.bootstrap.servers"

WITHOUT_EFFECT: Mapping[str, str] = {
    "client.dns.lookup": "all addresses of a name are tried",
    "metadata.recovery.strategy": "the bootstrap servers are asked again where no known broker answers",
    "metadata.recovery.rebootstrap.trigger.ms": "see metadata.recovery.strategy",
    "metadata.max.idle.ms": "for how long metadata of idle topics is kept cannot be set",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms does not grow",
    "enable.metrics.push": "no metrics are pushed to brokers",
    "metric.reporters": "there is no Java here to run them",
    "metrics.num.samples": "metrics are counted otherwise",
    "metrics.recording.level": "metrics are counted otherwise",
    "metrics.sample.window.ms": "metrics are counted otherwise",
    "auto.include.jmx.reporter": "there is no Java here",
    "ssl.protocol": "TLS is 1.2 or newer, the newest that the broker has",
    "ssl.enabled.protocols": "TLS is 1.2 or newer, the newest that the broker has",
}
"""Settings of Java's clients that jobs may well have and that mean nothing to ours, each with why."""
_PARTITIONERS: Mapping[str, Mapping[str, str]] = {
    "DefaultPartitioner": {},
    "UniformStickyPartitioner": {"partitioner.ignore.keys": "true"},
    "RoundRobinPartitioner": {"partitioner": "round_robin"},
}
_CODECS_WITH_LEVELS = ("gzip", "lz4", "zstd")

_log = logging.getLogger(__name__)


def client_options(
    options: Mapping[str, str], kind: type[ConnectionSettings], refused: Mapping[str, str]
) -> dict[str, Any]:
    """The keyword arguments for a client of these settings; ConfigError names an option that will not do.

    `refused` has Kafka's names of settings that are not the user's to choose, each with the reason.
    """
    given = {
        name.lower().removeprefix(PREFIX): value
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }
    if not given.get("bootstrap.servers", "").strip():
        raise ConfigError(f"option {BOOTSTRAP} is needed: expected host:port[,host:port…]")
    for name, why in refused.items():
        if name in given:
            raise ConfigError(f"option {PREFIX}{name} is not supported: {why}")
    for name in [name for name in given if name in WITHOUT_EFFECT]:
        tell_without_effect(name)
        del given[name]
    known = {entry.name for entry in fields(kind)}
    if "partitioner" in known:
        given.update(_partitioner(given.pop("partitioner.class", "")))
    level = _level(given) if "compression_level" in known else None
    made = named_by_kafka(given, kind, f"option {PREFIX}")
    if level is not None:
        made["compression_level"] = level
        read_settings(kind, made)
    return made


@cache  # Options are read for each part of a query; it is told once.
def tell_without_effect(name: str) -> None:
    """Warn of a setting that does nothing."""
    _log.warning("option %s%s has no effect: %s", PREFIX, name, WITHOUT_EFFECT[name])


def _partitioner(java_class: str) -> Mapping[str, str]:
    """What a partitioner that comes with Java's producer is called here."""
    name = java_class.strip().removeprefix("org.apache.kafka.clients.producer.").removeprefix("internals.")
    if name and name not in _PARTITIONERS:
        raise ConfigError(
            f"option {PREFIX}partitioner.class={java_class!r}: there is no Java here to run it, expected one "
            f"of {', '.join(_PARTITIONERS)}, or a column `partition` that says where each row goes"
        )
    return _PARTITIONERS.get(name, {})


def _level(given: dict[str, str]) -> int | None:
    """The level of the codec that is used, as Kafka has one for each; they are taken out of what is given."""
    levels = {codec: given.pop(f"compression.{codec}.level", None) for codec in _CODECS_WITH_LEVELS}
    name = given.get("compression.type", "none").lower()
    level = levels.get(name)
    if level is None:
        return None
    try:
        return int(level)
    except ValueError:
        raise ConfigError(
            f"option {PREFIX}compression.{name}.level={level!r}: expected a whole number"
        ) from None


def for_settings(options: Mapping[str, Any], kind: type[ConnectionSettings]) -> dict[str, Any]:
    """Those of the keyword arguments that clients of another kind take too."""
    known = {entry.name for entry in fields(kind) if "check" in entry.metadata}
    return {name: value for name, value in options.items() if name in known}

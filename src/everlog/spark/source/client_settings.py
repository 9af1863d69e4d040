"""Options `kafka.…` to the settings of our clients: Kafka's dotted names, strings as Spark has them."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from everlog.client.core.kafka_names import named_by_kafka
from everlog.client.core.settings import ConnectionSettings
from everlog.model.errors import ConfigError

PREFIX = "kafka."
BOOTSTRAP = "kafka.bootstrap.servers"


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
    return named_by_kafka(given, kind, f"option {PREFIX}")


def for_settings(options: Mapping[str, Any], kind: type[ConnectionSettings]) -> dict[str, Any]:
    """Those of the keyword arguments that clients of another kind take too."""
    known = {entry.name for entry in fields(kind) if "check" in entry.metadata}
    return {name: value for name, value in options.items() if name in known}

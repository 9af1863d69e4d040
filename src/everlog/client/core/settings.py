"""Client settings: Kafka's names in snake_case, each with its type, default, bounds and meaning.

A settings class is a frozen dataclass whose fields are made by `setting`; `read_settings` makes one of the
keyword arguments of a user. What is unknown or wrong is refused by name. A class with a field `given` is told
which were given. Where settings must go together,
each class of the hierarchy may say so in its own `check_together(given)`.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from everlog.client.core.addresses import parse_bootstrap
from everlog.client.core.security.security import SecurityOptions, SecuritySettings
from everlog.client.core.setting_checks import (
    Check,
    addresses_of,
    flag,
    function,
    instance_of,
    maybe,
    one_of,
    path,
    secret,
    setting,
    shown_as,
    text,
    text_map,
    whole,
    wrong,
)
from everlog.model.errors import ConfigError

__all__ = [
    "Check",
    "ConnectionOptions",
    "ConnectionSettings",
    "addresses_of",
    "flag",
    "function",
    "instance_of",
    "maybe",
    "one_of",
    "path",
    "read_settings",
    "secret",
    "setting",
    "text",
    "text_map",
    "whole",
    "wrong",
]

Settings = TypeVar("Settings")

_ELSEWHERE = {
    "sasl_plain_username": "sasl_username",
    "sasl_plain_password": "sasl_password",
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_jaas_config": "sasl_username and sasl_password",
    "ssl_password": "ssl_key_password",
    "ssl_truststore_location": "ssl_cafile, a PEM file",
    "ssl_ca_location": "ssl_cafile",
    "ssl_keystore_location": "ssl_certfile and ssl_keyfile, PEM files",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_key_location": "ssl_keyfile",
    "api_version": "nothing: versions are agreed on with each broker",
}
"""What other clients call it, and where it is here."""


def read_settings(cls: type[Settings], options: Mapping[str, Any]) -> Settings:
    """Make settings of keyword arguments; ConfigError names the first that is unknown or wrong."""
    entries = {entry.name: entry for entry in fields(cls)}  # type: ignore[arg-type]
    known = {name: entry for name, entry in entries.items() if "check" in entry.metadata}
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known:
            near = _ELSEWHERE.get(name) or next(iter(difflib.get_close_matches(name, known, n=1)), None)
            hint = f": did you mean {near}?" if near else ""
            # A misspelled secret is a secret too.
            shown = name if near and shown_as(near, value) == near else shown_as(name, value)
            raise ConfigError(f"unknown setting {shown}{hint}")
        given[name] = known[name].metadata["check"](name, value)
    made = cls(**given, **({"given": frozenset(given)} if "given" in entries else {}))
    for kind in cls.__mro__:
        check_together = vars(kind).get("check_together")
        if check_together is not None:
            check_together(made, given)
    return made


class ConnectionOptions(SecurityOptions, total=False):
    """Keyword arguments that every client takes."""

    client_id: str
    request_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    connections_max_idle_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings(SecuritySettings):
    """How a client talks to brokers. The producer's, consumer's and admin's settings extend it."""

    bootstrap_servers: str = setting("127.0.0.1:9092", addresses_of, "where to find a first broker")
    client_id: str = setting("everlog", text, "the name under which brokers log and meter this client")
    request_timeout_ms: int = setting(30_000, whole(1), "how long one request may wait for its answer")
    socket_connection_setup_timeout_ms: int = setting(10_000, whole(1), "how long a connection may take")
    connections_max_idle_ms: int = setting(540_000, whole(1), "after which an unused connection is closed")
    reconnect_backoff_ms: int = setting(50, whole(0), "first wait before a broker is tried again")
    reconnect_backoff_max_ms: int = setting(1_000, whole(0), "longest wait before a broker is tried again")
    retry_backoff_ms: int = setting(100, whole(0), "first wait before a request is tried again")
    retry_backoff_max_ms: int = setting(1_000, whole(0), "longest wait before a request is tried again")
    metadata_max_age_ms: int = setting(300_000, whole(1), "after which metadata is asked for again")
    send_buffer_bytes: int = setting(-1, whole(-1), "size of a socket's send buffer, -1 for the system's")
    receive_buffer_bytes: int = setting(
        -1, whole(-1), "size of a socket's receive buffer, -1 for the system's"
    )

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The bootstrap servers, as host and port."""
        return parse_bootstrap(self.bootstrap_servers)

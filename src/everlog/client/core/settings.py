"""Client settings: Kafka's names in snake_case, each with its type, default, bounds and meaning.

A settings class is a frozen dataclass whose fields are made by `setting`; `read_settings` makes one of the
keyword arguments of a user. What is unknown or wrong is refused by name.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict, TypeVar, cast

from everlog.client.core.addresses import parse_bootstrap
from everlog.model.errors import ConfigError

Settings = TypeVar("Settings")
Check = Callable[[str, Any], Any]
"""Given a setting's name and the value a user gave: the value to use, or ConfigError."""


def setting(default: Any, check: Check, meaning: str) -> Any:
    """A field of a settings class."""
    return field(default=default, metadata={"check": check, "meaning": meaning})


def whole(low: int, high: int = 2**31 - 1) -> Check:
    """A whole number within bounds."""

    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise wrong(name, value, f"a whole number from {low} to {high}")
        return value

    return check


def one_of(*choices: Any) -> Check:
    """One of a few values."""

    def check(name: str, value: Any) -> Any:
        if value not in choices:
            raise wrong(name, value, "one of " + ", ".join(repr(choice) for choice in choices))
        return value

    return check


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise wrong(name, value, "True or False")
    return value


def text(name: str, value: Any) -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        raise wrong(name, value, "a string that is not empty")
    return value


def maybe(check: Check) -> Check:
    """None, or what `check` allows."""
    return lambda name, value: None if value is None else check(name, value)


def function(name: str, value: Any) -> Any:
    """Something to call."""
    if not callable(value):
        raise wrong(name, value, "something to call")
    return value


def wrong(name: str, value: object, expected: str) -> ConfigError:
    """The error for a setting's value: the name, the value, what was expected."""
    return ConfigError(f"setting {name}={value!r}: expected {expected}")


def addresses_of(name: str, value: Any) -> str:
    """Bootstrap servers: `host:port[,host:port…]`, or a sequence of `host:port`."""
    entries = list(cast("list[object]", value)) if isinstance(value, list | tuple) else [value]
    joined = ",".join(str(entry) for entry in entries)
    if not joined or not all(isinstance(entry, str) for entry in entries):
        raise wrong(name, joined, "host:port[,host:port…]")
    try:
        parse_bootstrap(joined)
    except ConfigError as error:
        raise ConfigError(f"setting {name}={joined!r}: {error}") from None
    return joined


def read_settings(cls: type[Settings], options: Mapping[str, Any]) -> Settings:
    """Make settings of keyword arguments; ConfigError names the first that is unknown or wrong."""
    known = {entry.name: entry for entry in fields(cls) if "check" in entry.metadata}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise ConfigError(f"unknown setting {name}={value!r}{hint}")
        given[name] = known[name].metadata["check"](name, value)
    return cls(**given)


class ConnectionOptions(TypedDict, total=False):
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


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
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

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The bootstrap servers, as host and port."""
        return parse_bootstrap(self.bootstrap_servers)

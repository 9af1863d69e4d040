"""What a setting's value may be: each check returns the value to use, or refuses it by the setting's name."""

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, cast

from everlog.client.core.addresses import parse_bootstrap
from everlog.model.errors import ConfigError

Check = Callable[[str, Any], Any]
"""Given a setting's name and the value a user gave: the value to use, or ConfigError."""

_SECRET_WORDS = ("password", "secret", "token", "passphrase", "jaas")


def setting(default: Any, check: Check, meaning: str, *, shown: bool = True) -> Any:
    """A field of a settings class; what is not `shown` stays out of its repr."""
    return field(default=default, repr=shown, metadata={"check": check, "meaning": meaning})


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


def secret(name: str, value: Any) -> str:
    """A string that no message may show."""
    if not isinstance(value, str):
        raise ConfigError(f"setting {name}: expected a string, got {type(value).__name__}")
    return value


def path(name: str, value: Any) -> str:
    """Where a file is."""
    if not isinstance(value, str | os.PathLike) or not str(cast(object, value)):
        raise wrong(name, cast(object, value), "a path")
    return str(cast(object, value))


def text_map(name: str, value: Any) -> Mapping[str, str]:
    """Strings by strings."""
    pairs = cast("Mapping[object, object]", value).items() if isinstance(value, Mapping) else None
    if pairs is None or not all(isinstance(key, str) and isinstance(entry, str) for key, entry in pairs):
        raise ConfigError(f"setting {name}: expected a mapping of strings to strings")
    return dict(cast("Mapping[str, str]", value))


def instance_of(kind: type) -> Check:
    """An object of a type."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise wrong(name, value, f"an instance of {kind.__module__}.{kind.__qualname__}")
        return value

    return check


def maybe(check: Check) -> Check:
    """None, or what `check` allows."""
    return lambda name, value: None if value is None else check(name, value)


def function(name: str, value: Any) -> Any:
    """Something to call."""
    if not callable(value):
        raise wrong(name, value, "something to call")
    return value


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


def wrong(name: str, value: object, expected: str) -> ConfigError:
    """The error for a setting's value: the name, the value, what was expected."""
    return ConfigError(f"setting {shown_as(name, value)}: expected {expected}")


def shown_as(name: str, value: object) -> str:
    """`name=value`, or the name alone where the value may be a secret."""
    return name if any(word in name.lower() for word in _SECRET_WORDS) else f"{name}={value!r}"

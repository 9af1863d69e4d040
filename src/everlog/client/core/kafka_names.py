"""Kafka's dotted names, with values as text, to the settings of our clients.

What was written for Java's clients has Java's way to say some things; what of it can be said to our clients
is translated: JAAS lines of PLAIN and SCRAM, stores that are PEM files.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from everlog.client.core.settings import ConnectionSettings, read_settings
from everlog.model.errors import ConfigError

_JAAS = re.compile(r"\s*(?P<module>[\w.$]+)\s+required\b(?P<rest>.*?);?\s*\Z", re.DOTALL)
_JAAS_PAIR = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S+))""")
_JAAS_MODULES = frozenset({"PlainLoginModule", "ScramLoginModule"})
_STORES = {"ssl.truststore.location": "ssl.cafile", "ssl.keystore.location": "ssl.certfile"}
_STORE_WORDS = ("ssl.truststore.type", "ssl.keystore.type")
_EXCLUSIVE = frozenset(
    {
        "acks",
        "delivery_timeout_ms",
        "enable_idempotence",
        "linger_ms",
        "max_in_flight_requests_per_connection",
        "request_timeout_ms",
        "retries",
    }
)
_NUMBER = re.compile(r"-?\d+\Z")


def named_by_kafka(
    given: Mapping[str, str], kind: type[ConnectionSettings], called: str = "setting "
) -> dict[str, Any]:
    """The keyword arguments for a client of these settings; ConfigError names one that will not do.

    `called` stands before a name in messages.
    """
    given = _translated(given, called)
    kinds = {entry.name: entry for entry in fields(kind) if "check" in entry.metadata}
    made: dict[str, Any] = {}
    for name, value in given.items():
        setting = name.replace(".", "_")
        default = kinds[setting].default if setting in kinds else None
        made[setting] = _as_type_of(default, called + name, value)
        try:
            read_settings(kind, {setting: made[setting]} if _stands_alone(setting) else {})
        except ConfigError as error:
            raise ConfigError(f"{called}{name}: {error}") from None
    read_settings(kind, made)
    return made


def _stands_alone(setting: str) -> bool:
    # Settings of security are checked together only: one without the others is an error in itself. So are
    # those that exclude each other: acks=1 is right beside enable.idempotence=false.
    return setting not in _EXCLUSIVE and not setting.startswith(
        ("sasl_", "ssl_", "security_", "heartbeat_", "session_", "group_", "compression_")
    )


def _as_type_of(default: object, name: str, value: str) -> Any:
    if isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{name}={value!r}: expected true or false")
        return value.lower() == "true"
    if isinstance(default, int):
        if not _NUMBER.match(value):
            raise ConfigError(f"{name}={value!r}: expected a whole number")
        return int(value)
    return value


def _translated(given: Mapping[str, str], called: str) -> dict[str, str]:
    made = dict(given)
    jaas = made.pop("sasl.jaas.config", None)
    if jaas is not None:
        made.update(_read_jaas(jaas, made, called))
    for store, setting in _STORES.items():
        kind = made.get(store.replace("location", "type"), "").upper()
        if store in made and kind == "PEM":
            made[setting] = made.pop(store)
        elif store in made:
            raise ConfigError(
                f"{called}{store}: only PEM files can be read here, with "
                f"{store.replace('location', 'type')}=PEM, or as {setting}"
            )
    for word in _STORE_WORDS:
        made.pop(word, None)
    return made


def _read_jaas(line: str, beside: Collection[str], called: str) -> dict[str, str]:
    """User and password of a JAAS line; no message shows any of it, as it has the password."""
    for name in ("sasl.username", "sasl.password"):
        if name in beside:
            raise ConfigError(f"{called}sasl.jaas.config stands beside {name}: expected one of them")
    found = _JAAS.match(line)
    module = "" if found is None else found["module"].rpartition(".")[2]
    if found is None or module not in _JAAS_MODULES:
        said = f", got the module {module}" if module else ""
        raise ConfigError(
            f"{called}sasl.jaas.config: expected 'org.apache.kafka.common.security.….PlainLoginModule "
            f'required username="…" password="…";\' or the same of ScramLoginModule{said}'
        )
    pairs: dict[str, str] = {}
    for key, double, single, bare in _JAAS_PAIR.findall(found["rest"]):
        pairs[key] = re.sub(r"\\(.)", r"\1", double) or single or bare
    if "username" not in pairs or "password" not in pairs:
        raise ConfigError(f"{called}sasl.jaas.config: expected username=… and password=… in it")
    return {"sasl.username": pairs["username"], "sasl.password": pairs["password"]}

"""The sink's options, read once and checked; no pyspark, so that whatever is wrong is told in one line."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from everlog.client.core.admin.settings import AdminSettings
from everlog.client.core.producer.settings import ProducerSettings
from everlog.model.errors import ConfigError
from everlog.model.topics import topic_name_problem
from everlog.spark.option_names import refuse_misspelled
from everlog.spark.source.client_settings import client_options, for_settings
from everlog.values import FORMATS, SETTINGS, BadSetting, portable

_SERIALIZER = "columns are written as they are; make strings or binary of them with Spark's functions"
_REFUSED = {
    "key.serializer": _SERIALIZER,
    "value.serializer": _SERIALIZER,
    "transactional.id": "the sink makes one for each worker; deliveryGuarantee=exactly_once uses them",
    "interceptor.classes": "there are no interceptors here",
}
NAMES = (
    "topic", "deliveryGuarantee", "valueFormat", "commitGroup", "includeHeaders", "includeTimestamp",
    "writeId", "batchId", "acceptLostBatch", "checkpointLocation",
)  # fmt: skip
"""All options but `kafka.…` and the settings of value formats."""

_VALUE_SETTINGS = frozenset(name.lower() for names in SETTINGS.values() for name in names)
_ALL = ("all", "-1")
_DEFAULT_TRANSACTION_TIMEOUT_MS = 900_000
"""The longest that Kafka's brokers take unless told otherwise."""


class Guarantee(Enum):
    """What becomes of rows that are written again because something failed."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


@dataclass(frozen=True)
class SinkOptions:
    """What a user has asked of the sink."""

    bootstrap_servers: str
    producer: tuple[tuple[str, Any], ...]
    """Keyword arguments for producers, in a form that can be a key of a cache."""
    topic: str | None
    """Where all rows go; None for that of their column."""
    guarantee: Guarantee
    headers: bool
    """Whether a column of headers is written, if there is one."""
    timestamp: bool
    """Whether a column `timestamp` becomes the records' time; else that is when they are written."""
    value_format: str | None
    """How columns become values; None where `value` is string or binary already."""
    value_settings: tuple[tuple[str, str], ...]
    commit_group: str | None
    checkpoint: str | None
    write_id: str | None
    """The name of a batch write, under which it is done once, however often it is run."""
    batch_id: int
    """Which of the writes of that name it is; each is done once, in the order of their numbers."""
    accepted_loss: int | None
    """A batch whose transactions are known to be lost, and which the query is to go on after."""
    transaction_timeout_ms: int
    transaction_timeout_given: bool

    @classmethod
    def read(cls, options: Mapping[str, str]) -> "SinkOptions":
        """Check what Spark hands over; ConfigError names the option that will not do."""
        given = {name.lower(): value for name, value in options.items()}
        settings = (name for names in SETTINGS.values() for name in names)
        refuse_misspelled(options, (*NAMES, *settings), ("kafka.",))
        guarantee = _guarantee(given.get("deliveryguarantee", Guarantee.EXACTLY_ONCE.value))
        if guarantee is Guarantee.EXACTLY_ONCE:
            _check_exactly_once(given)
        elif given.get("kafka.acks", "all").lower() not in _ALL:
            # As in Kafka's producer, idempotence that was not asked for gives way.
            given.setdefault("kafka.enable.idempotence", "false")
        producer = client_options(given, ProducerSettings, _REFUSED)
        timeout = producer.pop("transaction_timeout_ms", None)
        return cls(
            bootstrap_servers=producer.pop("bootstrap_servers"),
            producer=tuple(sorted(producer.items())),
            topic=_topic(given.get("topic")),
            guarantee=guarantee,
            headers=_flag("includeHeaders", given, default=True),
            timestamp=_flag("includeTimestamp", given, default=False),
            value_format=_format(given),
            value_settings=_value_settings(given),
            commit_group=_filled("commitGroup", given.get("commitgroup")),
            checkpoint=given.get("checkpointlocation"),
            write_id=_filled("writeId", given.get("writeid")),
            batch_id=_batch_id(given),
            accepted_loss=_batch("acceptLostBatch", given.get("acceptlostbatch")),
            transaction_timeout_ms=_DEFAULT_TRANSACTION_TIMEOUT_MS if timeout is None else timeout,
            transaction_timeout_given=timeout is not None,
        )

    @property
    def admin(self) -> dict[str, Any]:
        """Keyword arguments for an Admin of the same cluster."""
        return for_settings(dict(self.producer), AdminSettings)


def _guarantee(value: str) -> Guarantee:
    try:
        return Guarantee(value.lower().replace("-", "_"))
    except ValueError:
        expected = " or ".join(one.value for one in Guarantee)
        raise ConfigError(f"option deliveryGuarantee={value!r}: expected {expected}") from None


def _check_exactly_once(given: Mapping[str, str]) -> None:
    for name, allowed in (("kafka.acks", _ALL), ("kafka.enable.idempotence", ("true",))):
        value = given.get(name)
        if value is not None and value.lower() not in allowed:
            raise ConfigError(
                f"option {name}={value!r} contradicts deliveryGuarantee=exactly_once: expected {allowed[0]}, "
                "or deliveryGuarantee=at_least_once"
            )
    if given.get("asyncprogresstrackingenabled", "").lower() == "true":
        # Spark may then run a batch again with other rows than before. It is done once under its number, so
        # what is new in it would never be written.
        raise ConfigError(
            "option asyncProgressTrackingEnabled=true contradicts deliveryGuarantee=exactly_once: Spark may "
            "run a batch again with other rows, expected deliveryGuarantee=at_least_once"
        )


def _format(given: Mapping[str, str]) -> str | None:
    value = given.get("valueformat")
    if value is None:
        for name in _VALUE_SETTINGS & given.keys():
            raise ConfigError(f"option {name} goes with valueFormat, which is not given")
        return None
    if value.lower() not in FORMATS:
        raise ConfigError(f"option valueFormat={value!r}: expected one of {', '.join(FORMATS)}")
    return value.lower()


def _value_settings(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    chosen = {name: given[name] for name in _VALUE_SETTINGS if name in given}
    try:
        return tuple(sorted(portable(given.get("valueformat", "").lower(), chosen).items()))
    except BadSetting as error:
        raise ConfigError(f"option valueFormat={given['valueformat']}: {error}") from None


def _topic(given: str | None) -> str | None:
    name = _filled("topic", given)
    if name is not None and (problem := topic_name_problem(name)) is not None:
        raise ConfigError(f"option topic={name!r}: {problem}")
    return name


def _filled(name: str, value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise ConfigError(f"option {name}={value!r}: expected a name")
    return value


def _flag(name: str, given: Mapping[str, str], *, default: bool) -> bool:
    value = given.get(name.lower())
    if value is None:
        return default
    if value.lower() not in ("true", "false"):
        raise ConfigError(f"option {name}={value!r}: expected true or false")
    return value.lower() == "true"


def _batch_id(given: Mapping[str, str]) -> int:
    number = _batch("batchId", given.get("batchid"))
    if number is not None and "writeid" not in given:
        raise ConfigError(f"option batchId={number} goes with writeId, which is not given")
    return number or 0


def _batch(name: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isdecimal():
        raise ConfigError(f"option {name}={value!r}: expected the number of a batch")
    return int(value)

"""Offsets as Spark keeps them and as users write them: `{"topic": {"0": 123}}`, names, moments, groups."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from everlog.model.errors import ConfigError, EverlogError
from everlog.model.topics import TopicPartition, topic_name_problem

Offsets = dict[TopicPartition, int]
"""An offset for each partition."""

LATEST, EARLIEST = -1, -2
"""What stands for the end and the start of a partition in JSON, as in the protocol."""

_SHAPE = 'expected JSON such as {"orders": {"0": 23, "1": -2}}'


class DataLost(EverlogError):
    """Records that should have been read are not there any more."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Set failOnDataLoss=false to go on with what is there, or start anew from other offsets."
        )
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what,)


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first record that is still there."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end: what comes from now on, or all that is there now."""


@dataclass(frozen=True, slots=True)
class Specific:
    """An offset for each partition; LATEST and EARLIEST stand for the end and the start."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record of this moment (ms) or a later one, in all partitions."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """As AtTimestamp, with a moment for each partition."""

    timestamps_ms: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OfGroup:
    """What a consumer group has committed; the start of a partition for which it has nothing."""

    group: str


Bound = Earliest | Latest | Specific | AtTimestamp | AtTimestamps | OfGroup
"""Where reading begins or ends."""


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets as Spark writes them into a checkpoint: those of Spark's own connector look the same."""
    made: dict[str, dict[str, int]] = {}
    for place in sorted(offsets):
        made.setdefault(place.topic, {})[str(place.partition)] = offsets[place]
    return made


def from_json(told: Mapping[str, Any]) -> Offsets:
    """Offsets as Spark gives them back; ConfigError if they are somebody else's."""
    return _read_places(told, "the offset of the checkpoint", _SHAPE, LATEST)


def read_offsets(option: str, text: str) -> dict[TopicPartition, int]:
    """The JSON of an option with an offset for each partition; -2 and -1 are its start and its end."""
    return _read_places(_load(option, text, _SHAPE), f"option {option}", _SHAPE, EARLIEST)


def read_timestamps(option: str, text: str) -> dict[TopicPartition, int]:
    """The JSON of an option with a moment for each partition."""
    shape = 'expected JSON with milliseconds since 1970, such as {"orders": {"0": 1790000000000}}'
    return _read_places(_load(option, text, shape), f"option {option}", shape, 0)


def read_assignment(option: str, text: str) -> tuple[TopicPartition, ...]:
    """The JSON of the option `assign`: partitions by topic."""
    shape = 'expected JSON such as {"orders": [0, 1]}'
    places: list[TopicPartition] = []
    for topic, indexes in _load(option, text, shape).items():
        _check_topic(option, topic)
        listed = cast("list[object]", indexes) if isinstance(indexes, list) else [None]
        for index in listed:
            if not isinstance(index, int) or isinstance(index, bool) or index < 0:
                raise ConfigError(f"option {option}: topic {topic!r} has {indexes!r}: {shape}")
            places.append(TopicPartition(topic, index))
    if not places:
        raise ConfigError(f"option {option}={text!r} names no partition: {shape}")
    return tuple(sorted(set(places)))


def check_all_named(
    option: str, named: Iterable[TopicPartition], there: Iterable[TopicPartition], hint: str
) -> None:
    """ConfigError unless an option names just the partitions that are read."""
    wanted, found = set(named), set(there)
    if wanted == found:
        return
    missing = ", ".join(map(str, sorted(found - wanted)))
    extra = ", ".join(map(str, sorted(wanted - found)))
    said = "; ".join(
        part for part in (missing and f"not named: {missing}", extra and f"not read: {extra}") if part
    )
    raise ConfigError(f"option {option} must name all partitions that are read and no others{hint} ({said})")


def _load(option: str, text: str, shape: str) -> Mapping[str, Any]:
    try:
        told = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"option {option}={text!r} is not JSON ({error}): {shape}") from None
    if not isinstance(told, dict):
        raise ConfigError(f"option {option}={text!r}: {shape}")
    return cast("Mapping[str, Any]", told)


def _read_places(told: Mapping[str, Any], what: str, shape: str, least: int) -> dict[TopicPartition, int]:
    made: dict[TopicPartition, int] = {}
    for topic, entries in told.items():
        _check_topic(what, topic)
        if not isinstance(entries, dict):
            raise ConfigError(f"{what}: topic {topic!r} has {entries!r}: {shape}")
        for index, value in cast("dict[str, object]", entries).items():
            good = index.isdecimal() and isinstance(value, int) and not isinstance(value, bool)
            if not good or cast("int", value) < least:
                raise ConfigError(f"{what}: partition {index!r} of {topic!r} has {value!r}: {shape}")
            made[TopicPartition(topic, int(index))] = cast("int", value)
    return made


def _check_topic(what: str, topic: str) -> None:
    problem = topic_name_problem(topic)
    if problem is not None:
        named = what if what.startswith(("option ", "the ")) else f"option {what}"
        raise ConfigError(f"{named}: {problem}")

"""Plans as the JSON that Kafka's own tool reads and writes: `{"version": 1, "partitions": [{…}]}`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition

_SHAPE = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
ANY_DIRECTORY = "any"


def read_plan(text: str) -> dict[TopicPartition, list[int]]:
    """The replicas of each partition that a file names; ConfigError says what cannot be read and why."""
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the plan is not JSON: {error}; expected {_SHAPE}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"the plan is {_kind(found)}, expected an object such as {_SHAPE}")
    fields = cast(dict[str, Any], found)
    version = fields.get("version", 1)
    if version != 1:
        raise ConfigError(f"the plan has version {version!r}, expected 1")
    partitions = fields.get("partitions")
    if not isinstance(partitions, list):
        raise ConfigError(f"partitions of the plan is {_kind(partitions)}, expected a list as in {_SHAPE}")
    wanted: dict[TopicPartition, list[int]] = {}
    for entry in cast(list[object], partitions):
        place, replicas = _read_partition(entry)
        if place in wanted:
            raise ConfigError(f"partition {place} stands twice in the plan, expected once")
        wanted[place] = replicas
    return wanted


def plan_shape(replicas: Mapping[TopicPartition, Sequence[int]]) -> dict[str, object]:
    """Replicas in the form that `read_plan` and Kafka's tool read."""
    return {
        "version": 1,
        "partitions": [
            {"topic": place.topic, "partition": place.partition, "replicas": list(replicas[place])}
            for place in sorted(replicas)
        ],
    }


def _read_partition(entry: object) -> tuple[TopicPartition, list[int]]:
    fields = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
    topic, partition, replicas = fields.get("topic"), fields.get("partition"), fields.get("replicas")
    if not isinstance(topic, str) or not _is_id(partition) or not isinstance(replicas, list):
        raise ConfigError(
            f"{json.dumps(entry)[:200]} cannot be read: expected an object with topic, partition and replicas"
        )
    brokers = cast(list[object], replicas)
    if not all(_is_id(broker) for broker in brokers):
        raise ConfigError(
            f"replicas of {topic}-{partition} are {json.dumps(replicas)}, expected ids of brokers"
        )
    log_dirs: Any = fields.get("log_dirs", [])
    if log_dirs != [ANY_DIRECTORY] * len(brokers) and log_dirs != []:
        raise ConfigError(
            f"log_dirs of {topic}-{partition} are {json.dumps(log_dirs)}, expected {ANY_DIRECTORY!r} for "
            "each: brokers choose the directory"
        )
    return TopicPartition(topic, cast(int, partition)), cast(list[int], brokers)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else json.dumps(value)[:80]

"""What a checkpoint of Spark's says of topics: a file of its `offsets`, of which each batch has one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from everlog.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class NotedOffsets:
    """Where a batch ends in each partition. Of two sources that read one partition the one behind counts."""

    ends: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    shared: frozenset[TopicPartition] = frozenset()
    """Partitions that more than one source reads: some records beyond their ends may have been read."""


def read_offset_log(text: str) -> NotedOffsets:
    """The offsets of topics in such a file: a line for each source, after two others.

    Sources of other kinds, and those without an offset (`-`), are passed over. Version 2 of the file, which
    Spark writes for sources with names, has each source's name and a colon before its offset.
    """
    version, *lines = text.splitlines() or [""]
    ends: dict[TopicPartition, int] = {}
    shared: set[TopicPartition] = set()
    for line in lines[1:]:
        source = offsets_of_source(line.partition(":")[2] if version.strip() == "v2" else line)
        shared.update(place for place in source if place in ends)
        for place, offset in source.items():
            ends[place] = min(offset, ends.get(place, offset))
    return NotedOffsets(ends, frozenset(shared))


def offsets_of_source(text: str) -> dict[TopicPartition, int]:
    """A source's offset, `{"topic": {"0": 123}}`; empty if it is that of another kind of source."""
    try:
        read: object = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(read, dict):
        return {}
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in cast(dict[str, object], read).items():
        if not isinstance(partitions, dict):
            return {}
        for partition, offset in cast(dict[str, object], partitions).items():
            if not partition.isdecimal() or not isinstance(offset, int):
                return {}
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets

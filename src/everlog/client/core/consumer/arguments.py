"""What applications pass to a consumer, brought into one form; TypeError or Misused says what is wrong."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from everlog.client.core.errors import Misused
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.model.topics import TopicPartition, topic_name_problem

Place = TopicPartition | tuple[str, int]
OffsetLike = int | OffsetAndMetadata


def as_place(given: Place) -> TopicPartition:
    """A partition: a TopicPartition, or a topic and a number."""
    pair = cast("tuple[Any, ...]", given)
    if (
        not isinstance(cast(object, given), tuple)
        or len(pair) != 2
        or not isinstance(pair[0], str)
        or isinstance(pair[1], bool)
        or not isinstance(pair[1], int)
        or pair[1] < 0
    ):
        raise TypeError(f"expected a partition, such as TopicPartition('orders', 0), found {given!r}")
    return pair if isinstance(pair, TopicPartition) else TopicPartition(pair[0], pair[1])


def as_places(given: Iterable[Place]) -> list[TopicPartition]:
    """Partitions, each once, in the order given."""
    return list(dict.fromkeys(as_place(each) for each in given))


def as_topics(
    given: Sequence[str] | str | None, pattern: str | None, *, matches_here: bool = True
) -> tuple[str, ...]:
    """Names of topics, each once; either names or a pattern must be given.

    What the broker matches (RE2) it has to judge as well: only with `matches_here` must `re` read a pattern.
    """
    names = (given,) if isinstance(given, str) else tuple(dict.fromkeys(given or ()))
    if bool(names) == (pattern is not None):
        raise Misused("subscribe takes topics or a pattern: expected one of the two")
    for name in names:
        problem = topic_name_problem(name)
        if problem is not None:
            raise Misused(problem)
    if pattern is not None and matches_here:
        try:
            re.compile(pattern)
        except re.error as error:
            raise Misused(f"pattern {pattern!r} is not a regular expression: {error}") from None
    return names


def as_offset(given: OffsetLike) -> OffsetAndMetadata:
    """An offset with its metadata."""
    entry = OffsetAndMetadata(given) if isinstance(given, int) else given
    if not isinstance(cast(object, entry), OffsetAndMetadata) or isinstance(entry.offset, bool):
        raise TypeError(f"expected an offset, found {given!r}")
    if entry.offset < 0:
        raise Misused(f"offset {entry.offset}: expected 0 or more")
    return entry


def as_offsets(given: Mapping[Any, OffsetLike]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets by partition."""
    return {as_place(place): as_offset(entry) for place, entry in given.items()}

"""Where a group goes on in the mirror: its committed offsets translated."""

from dataclasses import dataclass

from everlog.client import Admin, EverlogError, OffsetAndMetadata, TopicPartition
from everlog.mirror.mirror import Mirror
from everlog.mirror.notes import offset_maps, open_notes
from everlog.mirror.offset_map import Translated


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """One partition of a group that moves."""

    source: TopicPartition
    committed: int
    target: TopicPartition
    translated: Translated


def translate_group(mirror: Mirror, group: str, topics: set[str] | None = None) -> list[GroupPlace]:
    """Where a group of the source goes on in the target, for the topics named or all that are mirrored.

    EverlogError if the group has committed nothing there, or none of it is mirrored.
    """
    with Admin(mirror.source, **mirror.source_options) as source:
        committed = source.list_group_offsets(group)
    wanted = {place: entry for place, entry in committed.items() if topics is None or place.topic in topics}
    if not wanted:
        there = f"in {', '.join(sorted(topics))}" if topics else f"at {mirror.source}"
        raise EverlogError(f"group {group!r} has committed no offsets {there}: expected at least one")
    with Admin(mirror.target, **mirror.target_options) as target:
        present = set(target.list_topics(internal=True))
    mirrored = {place.topic for place in wanted if mirror.map_name_of(place.topic) in present}
    if not mirrored:
        named = ", ".join(sorted({mirror.map_name_of(place.topic) for place in wanted}))
        raise EverlogError(f"no offset map at {mirror.target} for group {group!r}: expected topic {named}")
    with open_notes(mirror) as consumer:
        maps = {
            place: found
            for topic in mirrored
            for place, found in offset_maps(consumer, mirror, topic).items()
        }
    return [
        GroupPlace(
            place,
            entry.offset,
            TopicPartition(mirror.name_of(place.topic), place.partition),
            maps[place].translate(entry.offset),
        )
        for place, entry in sorted(wanted.items())
        if place in maps
    ]


def move_group(mirror: Mirror, group: str, places: list[GroupPlace]) -> None:
    """Commit translated offsets for the group in the target, where it must have no members."""
    offsets = {
        place.target: OffsetAndMetadata(place.translated.offset, f"mirrored from {place.committed}")
        for place in places
    }
    with Admin(mirror.target, **mirror.target_options) as target:
        target.alter_group_offsets(group, offsets)

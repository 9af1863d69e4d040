"""From what the user wrote to offsets: starts and ends of a read, looked up where they must be."""

from collections.abc import Collection
from typing import assert_never

from everlog.model.errors import ConfigError
from everlog.model.topics import TopicPartition
from everlog.spark.source.cluster import Cluster
from everlog.spark.source.offsets import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    AtTimestamps,
    Bound,
    Earliest,
    Latest,
    Offsets,
    OfGroup,
    Specific,
    check_all_named,
)
from everlog.spark.source.options import SourceOptions


def start_offsets(cluster: Cluster, options: SourceOptions, places: Collection[TopicPartition]) -> Offsets:
    """Where a query begins in each partition."""
    return _resolve(
        cluster,
        options,
        places,
        options.start,
        options.start_option,
        none_is_latest=options.latest_if_no_match,
    )


def end_offsets(cluster: Cluster, options: SourceOptions, places: Collection[TopicPartition]) -> Offsets:
    """Where a batch query ends in each partition; a moment that no record has reached is the end."""
    return _resolve(cluster, options, places, options.end, options.end_option, none_is_latest=True)


def _resolve(
    cluster: Cluster,
    options: SourceOptions,
    places: Collection[TopicPartition],
    bound: Bound,
    option: str,
    *,
    none_is_latest: bool,
) -> Offsets:
    def latest(some: Collection[TopicPartition]) -> Offsets:
        return cluster.latest(some, read_committed=options.read_committed)

    match bound:
        case Earliest():
            return cluster.earliest(places)
        case Latest():
            return latest(places)
        case Specific(offsets):
            check_all_named(option, offsets, places, ", with -2 for the start and -1 for the end of one")
            return {
                **offsets,
                **cluster.earliest([place for place in places if offsets[place] == EARLIEST]),
                **latest([place for place in places if offsets[place] == LATEST]),
            }
        case AtTimestamp(timestamp):
            wanted = dict.fromkeys(places, timestamp)
        case AtTimestamps(timestamps):
            check_all_named(option, timestamps, places, "")
            wanted = dict(timestamps)
        case OfGroup(group):
            return _of_group(cluster, places, group, option)
        case _:
            assert_never(bound)
    found = cluster.moments(wanted, read_committed=options.read_committed)
    young = [place for place in sorted(found) if found[place] is None]
    if young and not none_is_latest:
        raise ConfigError(
            f"option {option}: {young[0]} has no record of {wanted[young[0]]} ms or later; "
            "set startingOffsetsByTimestampStrategy=latest to begin at its end"
        )
    ends = latest(young)
    return {place: ends[place] if entry is None else entry.offset for place, entry in found.items()}


def _of_group(cluster: Cluster, places: Collection[TopicPartition], group: str, option: str) -> Offsets:
    committed = cluster.group_offsets(group, places)
    if not committed:
        raise ConfigError(
            f"option {option}=group:{group}: the group {group!r} has committed nothing for "
            f"{', '.join(sorted({place.topic for place in places}))}"
        )
    without = [place for place in places if place not in committed]
    return {**cluster.earliest(without), **committed}

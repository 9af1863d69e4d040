"""Plans the reset of a group's offsets: which partitions, from where to where."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from everlog.client.core.group_admin import Group, group_refusal
from everlog.client.core.group_offsets import Committed
from everlog.client.core.list_offsets import EARLIEST, LATEST
from everlog.client.core.offset_reset import Found, FromFile, Move, Target, ToTime, plan_move
from everlog.client.sync.cluster import Cluster
from everlog.client.sync.group_admin import GroupAdmin
from everlog.client.sync.offsets import list_offsets
from everlog.model.errors import ConfigError, ErrorCode, Refused
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """What a reset will do; `is_new` if the group does not exist yet and committing will make it."""

    group_id: str
    moves: list[Move]
    is_new: bool


def plan_reset(
    cluster: Cluster,
    admin: GroupAdmin,
    group_id: str,
    target: Target,
    topics: Mapping[str, Collection[int] | None] | None,
) -> ResetPlan:
    """Look up all that a reset needs and decide on each partition; nothing is changed.

    `topics` names partitions, None being all of a topic's; without it all that have a committed offset, or
    those of the file. Refused for a group with members: they would go on from where they are, and commit
    over what was reset.
    """
    group = _group(admin, group_id)
    if group is not None and group.is_active:
        raise group_refusal(ErrorCode.NON_EMPTY_GROUP, None, group_id, f" is {group.state}")
    committed = {} if group is None else admin.offsets(group_id)
    places = _places(cluster, group_id, target, topics, committed)
    starts = list_offsets(cluster, places, EARLIEST)
    ends = list_offsets(cluster, places, LATEST)
    at_time = list_offsets(cluster, places, target.timestamp) if isinstance(target, ToTime) else {}
    moves = [
        plan_move(
            target,
            place,
            Found(
                committed.get(place),
                starts[place] or Offset(0),
                ends[place] or Offset(0),
                at_time.get(place),
            ),
        )
        for place in places
    ]
    return ResetPlan(group_id, moves, group is None)


def _group(admin: GroupAdmin, group_id: str) -> Group | None:
    try:
        return admin.describe(group_id)
    except Refused as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        raise


def _places(
    cluster: Cluster,
    group_id: str,
    target: Target,
    topics: Mapping[str, Collection[int] | None] | None,
    committed: Mapping[TopicPartition, Committed],
) -> list[TopicPartition]:
    if topics is None:
        chosen = set(target.offsets) if isinstance(target, FromFile) else set(committed)
        if not chosen:
            raise ConfigError(f"group {group_id!r} has no committed offsets: name what to reset by --topic")
        wanted: Mapping[str, Collection[int] | None] = {
            topic: [place.partition for place in chosen if place.topic == topic]
            for topic in sorted({place.topic for place in chosen})
        }
    else:
        wanted = topics
    places: list[TopicPartition] = []
    for described in cluster.topics(sorted(wanted)):
        indexes = wanted[described.name]
        unknown = sorted(set(indexes or ()) - set(described.partitions))
        if unknown:
            raise ConfigError(
                f"topic {described.name!r} has no partition {unknown[0]}: "
                f"expected 0 to {len(described.partitions) - 1}"
            )
        all_of_it = described.partitions if indexes is None else indexes
        places.extend(TopicPartition(described.name, index) for index in sorted(all_of_it))
    return places

"""The uniform assignor: everyone gets equally much, and as little as can be moves (`model.even_shares`)."""

from collections.abc import Mapping

from everlog.coordinator.group.assignors import Subscriber
from everlog.coordinator.group.consumer_member import Partitions, TopicIdPartition
from everlog.model.even_shares import Reader, share_evenly
from everlog.model.ids import Uuid


def assign_uniformly(members: Mapping[str, Subscriber], counts: Mapping[Uuid, int]) -> dict[str, Partitions]:
    """Share out evenly, starting from what each member was to have before."""
    readers = {member_id: Reader(member.topics, member.had) for member_id, member in members.items()}
    return {
        member_id: frozenset(TopicIdPartition(*one) for one in share)
        for member_id, share in share_evenly(readers, counts).items()
    }

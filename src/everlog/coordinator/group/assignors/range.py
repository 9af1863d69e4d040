"""The range assignor: each topic's partitions in ranges, one for each subscriber.

Members with the same subscriptions get the same partitions of all topics that have equally many, so that
records with the same key meet in one member. Static members stand in the order of their instance ids, and so
get the same ranges after a restart.
"""

from collections.abc import Mapping

from everlog.coordinator.group.assignors import Subscriber
from everlog.coordinator.group.consumer_member import Partitions, TopicIdPartition
from everlog.model.ids import Uuid


def assign_ranges(members: Mapping[str, Subscriber], counts: Mapping[Uuid, int]) -> dict[str, Partitions]:
    """Cut each topic into ranges whose lengths differ by one at most; the first ones are the longer."""
    order = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    subscribers: dict[Uuid, list[str]] = {}
    for member_id in order:
        for topic_id in members[member_id].topics & counts.keys():
            subscribers.setdefault(topic_id, []).append(member_id)
    shares: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in members}
    for topic_id, readers in subscribers.items():
        length, longer = divmod(counts[topic_id], len(readers))
        start = 0
        for at, member_id in enumerate(readers):
            end = start + length + (at < longer)
            shares[member_id] += [TopicIdPartition(topic_id, index) for index in range(start, end)]
            start = end
    return {member_id: frozenset(share) for member_id, share in shares.items()}


def _place(member_id: str, member: Subscriber) -> tuple[bool, str]:
    return (member.instance_id is None, member.instance_id or member_id)

"""The range assignor: each topic's partitions in runs, the first members getting one more (C3)."""

from collections.abc import Collection, Mapping

from everlog.model.topics import TopicPartition

NAME = "range"


def assign_ranges(
    subscriptions: Mapping[str, Collection[str]], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Share out partitions among members, given by id with the topics they want; each gets an entry.

    `partitions` counts those of each topic; one that is absent does not exist. The order of the members' ids
    decides, so that every client's leader comes to the same result.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in sorted(subscriptions)}
    for topic in sorted({topic for topics in subscriptions.values() for topic in topics}):
        readers = [member for member in assigned if topic in subscriptions[member]]
        each, more = divmod(partitions.get(topic, 0), len(readers))
        first = 0
        for at, member in enumerate(readers):
            count = each + (at < more)
            assigned[member].extend(TopicPartition(topic, first + index) for index in range(count))
            first += count
    return assigned

"""What differs between two images of one cluster, however many records lie between them."""

from everlog.metadata.delta import Changes
from everlog.metadata.image import ClusterImage


def changes_between(before: ClusterImage, after: ClusterImage) -> Changes:
    """The changes as a delta would have told them, had it taken in all records between the two."""
    deleted = [topic for id_, topic in before.topics_by_id.items() if id_ not in after.topics_by_id]
    changed = [
        topic.name for id_, topic in after.topics_by_id.items() if before.topics_by_id.get(id_) != topic
    ]
    configs = [
        resource
        for resource in {**before.configs, **after.configs}
        if before.configs.get(resource) != after.configs.get(resource)
    ]
    brokers = [
        number
        for number in {**before.brokers, **after.brokers}
        if before.brokers.get(number) != after.brokers.get(number)
    ]
    return Changes(
        topics=tuple(changed),
        deleted=tuple(deleted),
        configs=tuple(configs),
        brokers=tuple(brokers),
        features=before.features != after.features,
    )

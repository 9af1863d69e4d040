"""Changes of partitions as records: what differs and nothing else, and what counts for each topic."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import dropwhile

from everlog.controller.decisions import Standing
from everlog.controller.elections import Circumstances
from everlog.metadata.delta import NO_LEADER_CHANGE
from everlog.metadata.image import ClusterImage, PartitionImage, TopicImage, topic_resource
from everlog.model.dataclass import dataclass
from everlog.model.ids import Uuid
from everlog.model.settings.topic import topic_value
from everlog.model.settings.topic_table import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE
from everlog.wire.message import Message
from everlog.wire.messages.partition_change_record import PartitionChangeRecord

CHANGES_PER_DECISION = 2_000
"""How many partitions a command changes at most that nobody waits for as a whole: the rest comes with the
next, so that no decision keeps the others waiting for long. At some 20 microseconds each, that is 40 ms."""

CHANGES_PER_REQUEST = 10_000
"""How many partitions one request of a client changes at most, as in Kafka."""


@dataclass(frozen=True, slots=True)
class PartitionRef:
    """One partition, by its topic's id."""

    topic_id: Uuid
    number: int


def change_record(
    topic_id: Uuid, number: int, before: PartitionImage, after: PartitionImage
) -> PartitionChangeRecord:
    """The record that makes `after` of `before`, naming only what differs.

    `after` is the next after `before`: its partition epoch is one more, its leader epoch the same or one
    more, and it is one more if another leads.
    """
    assert after.partition_epoch == before.partition_epoch + 1, (before, after)
    bumped = after.leader_epoch - before.leader_epoch
    assert bumped == 1 or (bumped == 0 and after.leader == before.leader), (before, after)
    record = PartitionChangeRecord(partition_id=number, topic_id=topic_id)
    if bumped:
        record.leader = after.leader
    else:
        assert record.leader == NO_LEADER_CHANGE, record.leader
    if after.isr != before.isr:
        record.isr = list(after.isr)
    if after.replicas != before.replicas:
        record.replicas = list(after.replicas)
    if after.removing != before.removing:
        record.removing_replicas = list(after.removing)
    if after.adding != before.adding:
        record.adding_replicas = list(after.adding)
    if after.recovering != before.recovering:
        record.leader_recovery_state = int(after.recovering)
    if after.directories != before.directories:
        record.directories = list(after.directories)
    if after.eligible_leaders != before.eligible_leaders:
        record.eligible_leader_replicas = list(after.eligible_leaders)
    if after.last_known_eligible != before.last_known_eligible:
        record.last_known_elr = list(after.last_known_eligible)
    return record


class Rules:
    """The circumstances of each topic, looked up once a topic however many partitions it has."""

    def __init__(self, standing: Standing, active: Collection[int] | None = None) -> None:
        """Count on the brokers that are active, or on those given."""
        self._image = standing.image
        self._layers = standing.layers
        self.active = (
            frozenset(broker.id for broker in standing.image.active_brokers()) if active is None else active
        )
        self._directories = {int(one.id): one.directories for one in standing.image.brokers.values()}
        self._of: dict[str, Circumstances] = {}
        self._plain: Circumstances | None = None

    def of(self, topic: str) -> Circumstances:
        """What counts for the partitions of a topic."""
        overrides = self._image.config(topic_resource(topic))
        if MIN_INSYNC_REPLICAS.key not in overrides and UNCLEAN_LEADER_ELECTION_ENABLE.key not in overrides:
            if self._plain is None:
                self._plain = self._looked_up({})
            return self._plain
        found = self._of.get(topic)
        if found is None:
            found = self._of[topic] = self._looked_up(dict(overrides))
        return found

    def _looked_up(self, overrides: dict[str, str]) -> Circumstances:
        return Circumstances(
            self.active,
            topic_value(MIN_INSYNC_REPLICAS, overrides, self._layers),
            topic_value(UNCLEAN_LEADER_ELECTION_ENABLE, overrides, self._layers),
            self._directories,
        )

    def unclean(self, topic: str) -> Circumstances:
        """What counts where somebody accepts the loss of records."""
        return replace(self.of(topic), unclean_allowed=True)


Change = Callable[[PartitionImage, Circumstances], PartitionImage | None]
"""What becomes of one partition; None if it stays as it is."""


def changed_partitions(
    image: ClusterImage,
    rules: Rules,
    change: Change,
    concerned: Callable[[PartitionImage], bool],
    limit: int | None = None,
    first: str | None = None,
) -> tuple[list[Message], str | None]:
    """The records of `change` for those concerned, and the topic at which `limit` was reached; None if never.

    The walk begins with the topic `first`, or with the first there is.
    """
    records: list[Message] = []
    append = records.append
    for topic in _topics_from(image, first):
        circumstances: Circumstances | None = None
        for number, partition in enumerate(topic.partitions):
            if not concerned(partition):
                continue
            if circumstances is None:
                circumstances = rules.of(topic.name)
            after = change(partition, circumstances)
            if after is None:
                continue
            if len(records) == limit:
                return records, topic.name
            append(change_record(topic.id, number, partition, after))
    return records, None


def concerned_partitions(
    image: ClusterImage, concerned: Callable[[PartitionImage], bool]
) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    """The partitions of which `concerned` is true, in the order of topics."""
    for topic in image.topics.values():
        for number, partition in enumerate(topic.partitions):
            if concerned(partition):
                yield topic, number, partition


def _topics_from(image: ClusterImage, first: str | None) -> Iterable[TopicImage]:
    # One that is gone meanwhile has left no trace of where it was: then the walk is a whole one.
    if first is None or first not in image.topics:
        return image.topics.values()
    return dropwhile(lambda topic: topic.name != first, image.topics.values())

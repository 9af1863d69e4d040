"""How far flows are behind their topics: checkpoints against the topics' ends, without Spark."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from everlog.client.core.admin.offset_listing import OffsetAt
from everlog.client.sync.admin import Admin
from everlog.model.topics import TopicPartition
from everlog.pipelines.checkpoints import Checkpoint


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition that a flow reads."""

    topic: str
    partition: int
    offset: int
    """The next record that it will read."""
    end: int | None
    """The topic's end, to which committed records reach; None if the topic is gone."""

    @property
    def lag(self) -> int | None:
        """Records that it has not read yet."""
        return None if self.end is None else max(0, self.end - self.offset)


@dataclass(frozen=True, slots=True)
class FlowLag:
    """One flow and all partitions that it reads."""

    flow: str
    batch: int | None
    partitions: tuple[PartitionLag, ...]

    @property
    def lag(self) -> int | None:
        """Of all partitions that are known; None if it reads no topic."""
        known = [place.lag for place in self.partitions if place.lag is not None]
        return sum(known) if known else None


def end_offsets(admin: Admin, checkpoints: Iterable[Checkpoint]) -> dict[TopicPartition, int]:
    """The ends of all partitions of the topics that checkpoints name; topics that are gone are left out."""
    names = {place.topic for checkpoint in checkpoints for place in checkpoint.done}
    known = sorted(names.intersection(admin.list_topics(internal=True))) if names else []
    there = admin.describe_topics(known) if known else {}
    places = [
        TopicPartition(name, partition) for name, topic in there.items() for partition in topic.partitions
    ]
    listed = admin.list_offsets(places, OffsetAt.LATEST, isolation_level="read_committed") if places else {}
    return {place: found.offset for place, found in listed.items() if found is not None}


def flow_lags(checkpoints: Iterable[Checkpoint], ends: Mapping[TopicPartition, int]) -> list[FlowLag]:
    """Join both. A partition that was added since the last batch counts from its beginning."""
    return [_flow_lag(checkpoint, ends) for checkpoint in checkpoints]


def _flow_lag(checkpoint: Checkpoint, ends: Mapping[TopicPartition, int]) -> FlowLag:
    topics = {place.topic for place in checkpoint.done}
    places = sorted({*checkpoint.done, *(place for place in ends if place.topic in topics)})
    return FlowLag(
        checkpoint.flow,
        checkpoint.batch,
        tuple(
            PartitionLag(place.topic, place.partition, checkpoint.done.get(place, 0), ends.get(place))
            for place in places
        ),
    )

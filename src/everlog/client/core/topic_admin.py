"""Requests that create, grow, empty and delete topics, and what the answers say about each one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from everlog.client.core.errors import refusal
from everlog.client.core.metadata import ClusterView
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from everlog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from everlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from everlog.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

BROKER_DEFAULT = -1
FIRST_DELETE_VERSION_WITH_STATES = 6


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created; -1 leaves a count to the broker's settings."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """What became of a NewTopic; `error` is None if it exists now, or would if it had only been checked."""

    name: str
    topic_id: Uuid = NO_UUID
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    error: Refused | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one item of a request; `error` is None if it was done."""

    name: str
    error: Refused | None = None


@dataclass(frozen=True, slots=True)
class RecordsDeleted:
    """The first offset that is left in a partition, or why nothing was deleted."""

    place: TopicPartition
    low_watermark: int = -1
    error: Refused | None = None


def create_topics_request(
    topics: Iterable[NewTopic], timeout_ms: int, *, validate_only: bool
) -> CreateTopicsRequest:
    """Ask for topics, or whether they could be created."""
    wanted = [
        CreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
        )
        for topic in topics
    ]
    return CreateTopicsRequest(topics=wanted, timeout_ms=timeout_ms, validate_only=validate_only)


def read_created(response: CreateTopicsResponse) -> list[TopicCreated]:
    """What became of each topic."""
    return [
        TopicCreated(
            topic.name,
            topic.topic_id,
            topic.num_partitions,
            topic.replication_factor,
            _error(topic.error_code, topic.error_message, f"topic {topic.name!r}"),
        )
        for topic in response.topics
    ]


def delete_topics_request(names: Sequence[str], timeout_ms: int, version: int) -> DeleteTopicsRequest:
    """Ask for topics to be deleted; newer versions name them in another field than older ones."""
    if version >= FIRST_DELETE_VERSION_WITH_STATES:
        return DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names], timeout_ms=timeout_ms
        )
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)


def read_deleted(response: DeleteTopicsResponse) -> list[Done]:
    """What became of each topic."""
    return [
        Done(topic.name or "", _error(topic.error_code, topic.error_message, f"topic {topic.name!r}"))
        for topic in response.responses
    ]


def create_partitions_request(
    counts: Mapping[str, int], timeout_ms: int, *, validate_only: bool
) -> CreatePartitionsRequest:
    """Ask for topics to have so many partitions in all."""
    topics = [
        CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()
    ]
    return CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def read_partitions_created(response: CreatePartitionsResponse) -> list[Done]:
    """What became of each topic."""
    return [
        Done(topic.name, _error(topic.error_code, topic.error_message, f"topic {topic.name!r}"))
        for topic in response.results
    ]


def delete_records_requests(
    before: Mapping[TopicPartition, int], view: ClusterView, timeout_ms: int
) -> tuple[dict[int, DeleteRecordsRequest], list[TopicPartition]]:
    """Requests by leader to delete what lies before an offset; also the partitions without a leader."""
    topics: dict[int, dict[str, DeleteRecordsTopic]] = {}
    leaderless: list[TopicPartition] = []
    for place, offset in before.items():
        leader = view.leader_of(place)
        if leader is None:
            leaderless.append(place)
            continue
        named = topics.setdefault(leader.node_id, {})
        if place.topic not in named:
            named[place.topic] = DeleteRecordsTopic(name=place.topic, partitions=[])
        named[place.topic].partitions.append(
            DeleteRecordsPartition(partition_index=place.partition, offset=offset)
        )
    requests = {
        node: DeleteRecordsRequest(topics=list(named.values()), timeout_ms=timeout_ms)
        for node, named in topics.items()
    }
    return requests, leaderless


def read_records_deleted(response: DeleteRecordsResponse) -> list[RecordsDeleted]:
    """What became of each partition."""
    return [
        RecordsDeleted(
            TopicPartition(topic.name, partition.partition_index),
            partition.low_watermark,
            _error(partition.error_code, None, f"records of {topic.name}-{partition.partition_index}"),
        )
        for topic in response.topics
        for partition in topic.partitions
    ]


def _error(code: int, message: str | None, what: str) -> Refused | None:
    return None if code == ErrorCode.NONE else refusal(code, message, what)

"""Requests that create, describe, grow, empty and delete topics, and what the answers say about each one."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from everlog.client.core.admin.authorized import AclOperation, authorized_operations
from everlog.client.core.admin.outcomes import outcome
from everlog.client.core.errors import refusal
from everlog.client.core.metadata import Partition
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID, Uuid, uuid_text
from everlog.model.topics import TopicPartition
from everlog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from everlog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
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
from everlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from everlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
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
    assignments: Mapping[int, Sequence[int]] | None = None
    """The brokers of each partition, the preferred leader first; instead of the two counts."""


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """What became of a NewTopic, or would; counts are -1 where the broker is too old to tell."""

    name: str
    topic_id: Uuid = NO_UUID
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """How many partitions a topic shall have in all, and perhaps the brokers of each that is added."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and its partitions by index."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: Mapping[int, Partition]
    authorized_operations: frozenset[AclOperation] | None = None
    """What the caller may do with it; None unless that was asked for."""


def create_topics_request(
    topics: Iterable[NewTopic], timeout_ms: int, *, validate_only: bool
) -> CreateTopicsRequest:
    """Ask for topics, or whether they could be created."""
    wanted = [
        CreatableTopic(
            name=topic.name,
            num_partitions=BROKER_DEFAULT if topic.assignments else topic.partitions,
            replication_factor=BROKER_DEFAULT if topic.assignments else topic.replication_factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
                for index, brokers in (topic.assignments or {}).items()
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
        )
        for topic in topics
    ]
    return CreateTopicsRequest(topics=wanted, timeout_ms=timeout_ms, validate_only=validate_only)


def read_created(response: CreateTopicsResponse) -> dict[str, TopicCreated | Refused]:
    """What became of each topic."""
    return {
        topic.name: outcome(
            TopicCreated(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor),
            topic.error_code,
            topic.error_message,
            f"topic {topic.name!r}",
        )
        for topic in response.topics
    }


def delete_topics_request(topics: Iterable[str | Uuid], timeout_ms: int, version: int) -> DeleteTopicsRequest:
    """Ask for topics to be deleted; newer versions name them in another field than older ones."""
    if version >= FIRST_DELETE_VERSION_WITH_STATES:
        states = [
            DeleteTopicState(name=topic) if isinstance(topic, str) else DeleteTopicState(topic_id=topic)
            for topic in topics
        ]
        return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
    names = [topic for topic in topics if isinstance(topic, str)]
    return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)


def read_deleted(
    response: DeleteTopicsResponse, asked: Iterable[str | Uuid]
) -> dict[str | Uuid, Refused | None]:
    """What became of each topic, by what it was asked for as."""
    by_id = {topic for topic in asked if not isinstance(topic, str)}
    read: dict[str | Uuid, Refused | None] = {}
    for topic in response.responses:
        # Asked for by id, a topic is answered with its name as well.
        key: str | Uuid = topic.topic_id if topic.topic_id in by_id else topic.name or ""
        what = f"topic {key!r}" if isinstance(key, str) else f"topic with id {uuid_text(key)}"
        read[key] = outcome(None, topic.error_code, topic.error_message, what)
    return read


def create_partitions_request(
    wanted: Mapping[str, NewPartitions], timeout_ms: int, *, validate_only: bool
) -> CreatePartitionsRequest:
    """Ask for topics to have so many partitions in all."""
    topics = [
        CreatePartitionsTopic(
            name=name,
            count=new.total,
            assignments=None
            if new.assignments is None
            else [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in new.assignments],
        )
        for name, new in wanted.items()
    ]
    return CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def read_partitions_created(response: CreatePartitionsResponse) -> dict[str, Refused | None]:
    """What became of each topic."""
    return {
        topic.name: outcome(None, topic.error_code, topic.error_message, f"topic {topic.name!r}")
        for topic in response.results
    }


def describe_topics_request(names: Iterable[str] | None, *, authorized_operations: bool) -> MetadataRequest:
    """Ask for topics, or with None for all; none is created by asking."""
    return MetadataRequest(
        topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=authorized_operations,
    )


def read_described(response: MetadataResponse) -> dict[str, TopicDescription | Refused]:
    """Each topic by name."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, None, "metadata")
    return {topic.name: _described(topic.name, topic) for topic in response.topics if topic.name is not None}


def usable(
    found: Mapping[str, TopicDescription | Refused], names: Iterable[str], alive: Collection[int]
) -> dict[str, TopicDescription]:
    """The topics, if all can be used: they exist, and brokers that are alive lead all of their partitions.

    Refused with LEADER_NOT_AVAILABLE otherwise, even for a topic that is not known: a broker may not have
    heard of its creation yet.
    """
    ready: dict[str, TopicDescription] = {}
    for name in names:
        topic = found.get(name)
        if topic is None or (
            isinstance(topic, Refused) and topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ):
            raise refusal(ErrorCode.LEADER_NOT_AVAILABLE, "no such topic yet", f"topic {name!r}")
        if isinstance(topic, Refused):
            raise topic
        leaderless = [index for index, entry in topic.partitions.items() if entry.leader not in alive]
        if leaderless:
            said = f"partitions {leaderless} have no leader"
            raise refusal(ErrorCode.LEADER_NOT_AVAILABLE, said, f"topic {name!r}")
        ready[name] = topic
    return ready


def delete_records_request(before: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    """Ask a leader to delete what lies before an offset of each partition."""
    topics: dict[str, DeleteRecordsTopic] = {}
    for place, offset in before.items():
        named = topics.setdefault(place.topic, DeleteRecordsTopic(name=place.topic, partitions=[]))
        named.partitions.append(DeleteRecordsPartition(partition_index=place.partition, offset=offset))
    return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms)


def read_records_deleted(response: DeleteRecordsResponse) -> dict[TopicPartition, int | Refused]:
    """The first offset that is left in each partition."""
    return {
        TopicPartition(topic.name, entry.partition_index): outcome(
            entry.low_watermark, entry.error_code, None, f"records of {topic.name}-{entry.partition_index}"
        )
        for topic in response.topics
        for entry in topic.partitions
    }


def _described(name: str, topic: MetadataResponseTopic) -> TopicDescription | Refused:
    if topic.error_code != ErrorCode.NONE:
        said = "no such topic" if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None
        return refusal(topic.error_code, said, f"topic {name!r}")
    partitions = {
        entry.partition_index: Partition(
            entry.partition_index,
            entry.leader_id,
            entry.leader_epoch,
            tuple(entry.replica_nodes),
            tuple(entry.isr_nodes),
            tuple(entry.offline_replicas),
        )
        for entry in sorted(topic.partitions, key=lambda entry: entry.partition_index)
    }
    allowed = authorized_operations(topic.topic_authorized_operations)
    return TopicDescription(name, topic.topic_id, topic.is_internal, partitions, allowed)

"""Requests that move partitions among brokers and give them their preferred leaders back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from everlog.client.core.admin.choices import Election
from everlog.client.core.admin.outcomes import outcome
from everlog.client.core.errors import refusal
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from everlog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from everlog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition that is moving: its replicas now, and those that are being added and removed."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


def reassign_request(
    wanted: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> AlterPartitionReassignmentsRequest:
    """Ask for partitions to have other replicas, or with None for a move to be called off (KIP-455)."""
    topics: dict[str, ReassignableTopic] = {}
    for place, replicas in wanted.items():
        named = topics.setdefault(place.topic, ReassignableTopic(name=place.topic, partitions=[]))
        named.partitions.append(
            ReassignablePartition(
                partition_index=place.partition, replicas=None if replicas is None else list(replicas)
            )
        )
    return AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=list(topics.values()))


def read_reassigned(
    response: AlterPartitionReassignmentsResponse,
) -> dict[TopicPartition, Refused | None]:
    """What became of each partition's move; Refused if the request as a whole was."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, response.error_message, "reassignment of partitions")
    return {
        TopicPartition(topic.name, entry.partition_index): outcome(
            None, entry.error_code, entry.error_message, f"partition {topic.name}-{entry.partition_index}"
        )
        for topic in response.responses
        for entry in topic.partitions
    }


def list_reassignments_request(
    places: Iterable[TopicPartition] | None, timeout_ms: int
) -> ListPartitionReassignmentsRequest:
    """Ask which of some partitions, or with None of all, are moving."""
    if places is None:
        return ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=None)
    topics = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
        for name, indexes in _by_topic(places).items()
    ]
    return ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)


def read_reassignments(response: ListPartitionReassignmentsResponse) -> dict[TopicPartition, Reassignment]:
    """The partitions that are moving."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, response.error_message, "list of reassignments")
    return {
        TopicPartition(topic.name, entry.partition_index): Reassignment(
            tuple(entry.replicas), tuple(entry.adding_replicas), tuple(entry.removing_replicas)
        )
        for topic in response.topics
        for entry in topic.partitions
    }


def elect_leaders_request(
    election: Election, places: Iterable[TopicPartition] | None, timeout_ms: int
) -> ElectLeadersRequest:
    """Ask for leaders of some partitions, or with None of all, to be chosen anew."""
    topics = None
    if places is not None:
        topics = [
            TopicPartitions(topic=name, partitions=indexes) for name, indexes in _by_topic(places).items()
        ]
    return ElectLeadersRequest(election_type=election, topic_partitions=topics, timeout_ms=timeout_ms)


def read_elections(response: ElectLeadersResponse) -> dict[TopicPartition, bool | Refused]:
    """True for each partition that got a leader, False where the one it had is the one asked for."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, None, "election of leaders")
    read: dict[TopicPartition, bool | Refused] = {}
    for topic in response.replica_election_results:
        for entry in topic.partition_result:
            place = TopicPartition(topic.topic, entry.partition_id)
            needless = entry.error_code == ErrorCode.ELECTION_NOT_NEEDED
            code = ErrorCode.NONE if needless else entry.error_code
            read[place] = outcome(not needless, code, entry.error_message, f"leader of {place}")
    return read


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for place in sorted(places):
        topics.setdefault(place.topic, []).append(place.partition)
    return topics

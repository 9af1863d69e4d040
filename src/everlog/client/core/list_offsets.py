"""Asking leaders for offsets: the first, the last, and those of moments (L7, C7)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from everlog.client.core.errors import error_code, refusal
from everlog.client.core.metadata import ClusterView
from everlog.client.core.retry import Verdict, verdict
from everlog.model.errors import EverlogError
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition
from everlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""What may stand in the place of a timestamp: the end, the start, the record with the largest timestamp."""

NOT_A_REPLICA = -1


@dataclass(frozen=True, slots=True)
class OffsetAnswers:
    """Offsets by partition, None where no record is that young; and the partitions to ask again."""

    offsets: Mapping[TopicPartition, Offset | None]
    again: list[TopicPartition]
    last_error: EverlogError | None


def list_offsets_requests(
    places: Iterable[TopicPartition],
    timestamp: int,
    view: ClusterView,
    *,
    read_committed: bool,
    timeout_ms: int,
) -> tuple[dict[int, ListOffsetsRequest], list[TopicPartition]]:
    """Requests by leader for one offset of each partition; also the partitions without a known leader.

    Under `read_committed` the latest offset is the last stable one, else the high watermark.
    """
    topics: dict[int, dict[str, ListOffsetsTopic]] = {}
    leaderless: list[TopicPartition] = []
    for place in places:
        leader = view.leader_of(place)
        partition = view.partition(place)
        if leader is None or partition is None:
            leaderless.append(place)
            continue
        named = topics.setdefault(leader.node_id, {})
        if place.topic not in named:
            named[place.topic] = ListOffsetsTopic(name=place.topic, partitions=[])
        named[place.topic].partitions.append(
            ListOffsetsPartition(
                partition_index=place.partition,
                current_leader_epoch=partition.leader_epoch,
                timestamp=timestamp,
            )
        )
    requests = {
        node: ListOffsetsRequest(
            replica_id=NOT_A_REPLICA,
            isolation_level=1 if read_committed else 0,
            topics=list(named.values()),
            timeout_ms=timeout_ms,
        )
        for node, named in topics.items()
    }
    return requests, leaderless


def read_offsets(response: ListOffsetsResponse) -> OffsetAnswers:
    """Read one leader's answer; Refused for an error that trying again will not mend."""
    offsets: dict[TopicPartition, Offset | None] = {}
    again: list[TopicPartition] = []
    last_error: EverlogError | None = None
    for topic in response.topics:
        for partition in topic.partitions:
            place = TopicPartition(topic.name, partition.partition_index)
            match verdict(error_code(partition.error_code)):
                case Verdict.DONE:
                    offsets[place] = Offset(partition.offset) if partition.offset >= 0 else None
                case Verdict.FAIL:
                    raise refusal(partition.error_code, None, f"offsets of {place}")
                case Verdict.RETRY | Verdict.REFRESH:
                    again.append(place)
                    last_error = refusal(partition.error_code, None, f"offsets of {place}")
    return OffsetAnswers(offsets, again, last_error)

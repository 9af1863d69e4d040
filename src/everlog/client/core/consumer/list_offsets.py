"""Asking leaders for offsets: the first, the last, and those of moments (L7, C7)."""

from collections.abc import Mapping
from dataclasses import dataclass

from everlog.client.core.errors import error_code, refusal
from everlog.client.core.metadata import ClusterView
from everlog.client.core.retry import Verdict, verdict
from everlog.model.errors import EverlogError
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
class TimedOffset:
    """An offset that was asked for, with the timestamp and the leader epoch of its record; -1 for none."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class TimedAnswers:
    """What one leader said: offsets, None where no record is that young; what it cannot tell, and why."""

    offsets: Mapping[TopicPartition, TimedOffset | None]
    again: list[TopicPartition]
    """To be asked again, once metadata is fresh."""
    refused: Mapping[TopicPartition, EverlogError]
    last_error: EverlogError | None


def timed_offsets_requests(
    wanted: Mapping[TopicPartition, int], view: ClusterView, *, read_committed: bool, timeout_ms: int
) -> tuple[dict[int, ListOffsetsRequest], list[TopicPartition]]:
    """Requests by leader for the offset of a moment in each partition; also those without a known leader.

    Under `read_committed` the latest offset is the last stable one, else the high watermark.
    """
    topics: dict[int, dict[str, ListOffsetsTopic]] = {}
    leaderless: list[TopicPartition] = []
    for place, timestamp in wanted.items():
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


def read_timed_offsets(response: ListOffsetsResponse) -> TimedAnswers:
    """Read one leader's answer, with what came beside the offsets."""
    offsets: dict[TopicPartition, TimedOffset | None] = {}
    again: list[TopicPartition] = []
    refused: dict[TopicPartition, EverlogError] = {}
    last_error: EverlogError | None = None
    for topic in response.topics:
        for entry in topic.partitions:
            place = TopicPartition(topic.name, entry.partition_index)
            judged = verdict(error_code(entry.error_code))
            if judged is Verdict.DONE:
                found = TimedOffset(entry.offset, entry.timestamp, entry.leader_epoch)
                offsets[place] = found if entry.offset >= 0 else None
                continue
            last_error = refusal(entry.error_code, None, f"offsets of {place}")
            if judged is Verdict.FAIL:
                refused[place] = last_error
            else:
                again.append(place)
    return TimedAnswers(offsets, again, refused, last_error)

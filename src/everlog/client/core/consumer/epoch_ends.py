"""Asking leaders where their logs leave an epoch: it tells whether what was read is still there (KIP-320)."""

from collections.abc import Mapping
from dataclasses import dataclass

from everlog.client.core.errors import error_code, refusal
from everlog.client.core.metadata import ClusterView
from everlog.client.core.retry import Verdict, verdict
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

NOT_A_REPLICA = -1


@dataclass(frozen=True, slots=True)
class EpochAnswers:
    """Where logs leave epochs, None where the leader never had the epoch; and what it did not tell."""

    ends: Mapping[TopicPartition, int | None]
    again: list[TopicPartition]
    refused: Mapping[TopicPartition, EverlogError]
    last_error: EverlogError | None


def epoch_end_requests(
    epochs: Mapping[TopicPartition, int], view: ClusterView
) -> tuple[dict[int, OffsetForLeaderEpochRequest], list[TopicPartition]]:
    """Requests by leader for the end of an epoch in each partition; also those without a known leader."""
    topics: dict[int, dict[str, OffsetForLeaderTopic]] = {}
    leaderless: list[TopicPartition] = []
    for place, epoch in epochs.items():
        leader = view.leader_of(place)
        partition = view.partition(place)
        if leader is None or partition is None:
            leaderless.append(place)
            continue
        named = topics.setdefault(leader.node_id, {})
        if place.topic not in named:
            named[place.topic] = OffsetForLeaderTopic(topic=place.topic, partitions=[])
        named[place.topic].partitions.append(
            OffsetForLeaderPartition(
                partition=place.partition,
                current_leader_epoch=partition.leader_epoch,
                leader_epoch=epoch,
            )
        )
    requests = {
        node: OffsetForLeaderEpochRequest(replica_id=NOT_A_REPLICA, topics=list(named.values()))
        for node, named in topics.items()
    }
    return requests, leaderless


def read_epoch_ends(response: OffsetForLeaderEpochResponse) -> EpochAnswers:
    """Read one leader's answer."""
    ends: dict[TopicPartition, int | None] = {}
    again: list[TopicPartition] = []
    refused: dict[TopicPartition, EverlogError] = {}
    last_error: EverlogError | None = None
    for topic in response.topics:
        for entry in topic.partitions:
            place = TopicPartition(topic.topic, entry.partition)
            judged = verdict(error_code(entry.error_code))
            if judged is Verdict.DONE:
                known = entry.leader_epoch >= 0 and entry.end_offset >= 0
                ends[place] = entry.end_offset if known else None
                continue
            last_error = refusal(entry.error_code, None, f"epochs of {place}")
            if judged is Verdict.FAIL:
                refused[place] = last_error
            else:
                again.append(place)
    return EpochAnswers(ends, again, refused, last_error)

"""Asking leaders for offsets, with all that they tell: the first, the last, those of moments (L7, C7)."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from everlog.client.core.admin.outcomes import outcome
from everlog.client.core.metadata import ClusterView
from everlog.model.errors import Refused
from everlog.model.topics import TopicPartition
from everlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

NOT_A_REPLICA = -1


class OffsetAt(IntEnum):
    """What may stand in the place of a timestamp."""

    LATEST = -1
    """The end: the offset that the next record gets, or that of the first undecided one (read_committed)."""
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """The record with the largest timestamp (KIP-734)."""
    EARLIEST_LOCAL = -4
    """The first that is on the broker's own disk (KIP-405)."""
    LATEST_TIERED = -5
    """The last that is in tiered storage (KIP-1005)."""
    EARLIEST_PENDING_UPLOAD = -6
    """The first that is not in tiered storage yet (KIP-1023)."""


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset, the timestamp of its record (None where the broker tells none), and its leader epoch."""

    offset: int
    timestamp: int | None = None
    leader_epoch: int = -1


def listing_request(
    places: Iterable[TopicPartition], at: int, view: ClusterView, *, read_committed: bool, timeout_ms: int
) -> ListOffsetsRequest:
    """Ask a leader for one offset of each partition."""
    topics: dict[str, ListOffsetsTopic] = {}
    for place in sorted(places):
        known = view.partition(place)
        named = topics.setdefault(place.topic, ListOffsetsTopic(name=place.topic, partitions=[]))
        named.partitions.append(
            ListOffsetsPartition(
                partition_index=place.partition,
                current_leader_epoch=-1 if known is None else known.leader_epoch,
                timestamp=at,
            )
        )
    return ListOffsetsRequest(
        replica_id=NOT_A_REPLICA,
        isolation_level=1 if read_committed else 0,
        topics=list(topics.values()),
        timeout_ms=timeout_ms,
    )


def read_listing(response: ListOffsetsResponse) -> dict[TopicPartition, ListedOffset | Refused | None]:
    """The offset of each partition; None where there is no such record."""
    read: dict[TopicPartition, ListedOffset | Refused | None] = {}
    for topic in response.topics:
        for entry in topic.partitions:
            place = TopicPartition(topic.name, entry.partition_index)
            listed = None
            if entry.offset >= 0:
                timestamp = entry.timestamp if entry.timestamp >= 0 else None
                listed = ListedOffset(entry.offset, timestamp, entry.leader_epoch)
            read[place] = outcome(listed, entry.error_code, None, f"offset of {place}")
    return read

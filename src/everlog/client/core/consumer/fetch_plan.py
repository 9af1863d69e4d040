"""Reading ranges of partitions without sessions, for one who asks for a record here and there (C8).

The plan holds a position for each partition, which moves when an answer arrives. A consumer has `fetching`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from everlog.client.core.consumer.chunks import Chunk, read_chunk
from everlog.client.core.consumer.offset_spec import OffsetRange
from everlog.client.core.errors import error_code, refusal
from everlog.client.core.metadata import ClusterView
from everlog.client.core.retry import Verdict, verdict
from everlog.model.errors import ErrorCode
from everlog.model.ids import NO_UUID
from everlog.model.topics import TopicPartition
from everlog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

__all__ = ["FIRST_VERSION_BY_ID", "Chunk", "FetchLimits", "FetchPlan", "Fetched", "PlannedFetch"]

FIRST_VERSION_BY_ID = 13
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much a fetch may bring and how long it may wait, with Kafka's defaults."""

    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    max_wait_ms: int = 500


@dataclass(slots=True)
class Fetched:
    """What one answer brought, besides moved positions."""

    chunks: list[Chunk] = field(default_factory=list[Chunk])
    stale: bool = False
    """Whether a partition has another leader now: metadata is to be refreshed before the next request."""


@dataclass(frozen=True, slots=True)
class PlannedFetch:
    """One fetch request, and which partitions and positions it asked for."""

    node_id: int
    request: FetchRequest
    asked: Mapping[TopicPartition, int]
    has_topic_ids: bool


class FetchPlan:
    """Positions in a set of partitions, from which the requests are made.

    The partitions are served in turn: one that brought records goes to the end of the line, so a
    full answer does not starve the others.
    """

    def __init__(
        self, ranges: Mapping[TopicPartition, OffsetRange], limits: FetchLimits, *, read_committed: bool
    ) -> None:
        self._ranges = dict(ranges)
        self._limits = limits
        self._read_committed = read_committed
        self._order = [
            place for place, wanted in ranges.items() if wanted.end is None or wanted.start < wanted.end
        ]
        self.positions: dict[TopicPartition, int] = {place: wanted.start for place, wanted in ranges.items()}
        """The offset that the next request asks for; never beyond what has been seen, and never back."""

    @property
    def finished(self) -> bool:
        """Whether every partition has been read up to the end of its range."""
        return not self._order

    def requests(self, view: ClusterView) -> tuple[list[PlannedFetch], bool]:
        """The requests to send next, one a leader; also whether a partition has no known leader."""
        by_leader: dict[int, list[TopicPartition]] = {}
        leaderless = False
        for place in self._order:
            leader = view.leader_of(place)
            if leader is None:
                leaderless = True
            else:
                by_leader.setdefault(leader.node_id, []).append(place)
        return [self._request(node, places, view) for node, places in by_leader.items()], leaderless

    def take(self, planned: PlannedFetch, response: FetchResponse, view: ClusterView) -> Fetched:
        """Take in an answer; Refused for an error that trying again will not mend."""
        if response.error_code != ErrorCode.NONE:
            raise refusal(response.error_code, None, "fetch")
        fetched = Fetched()
        for topic in response.responses:
            name = topic.topic or view.name_of(topic.topic_id) or ""
            for partition in topic.partitions:
                place = TopicPartition(name, partition.partition_index)
                if place in planned.asked and planned.asked[place] == self.positions[place]:
                    self._take_partition(place, partition, fetched)
        return fetched

    def _request(self, node_id: int, places: list[TopicPartition], view: ClusterView) -> PlannedFetch:
        topics: dict[str, FetchTopic] = {}
        for place in places:
            topic = topics.get(place.topic)
            if topic is None:
                topic = topics[place.topic] = FetchTopic(
                    topic=place.topic, topic_id=view.topic_id(place.topic), partitions=[]
                )
            known = view.partition(place)
            topic.partitions.append(
                FetchPartition(
                    partition=place.partition,
                    current_leader_epoch=-1 if known is None else known.leader_epoch,
                    fetch_offset=self.positions[place],
                    partition_max_bytes=self._limits.partition_max_bytes,
                )
            )
        request = FetchRequest(
            max_wait_ms=self._limits.max_wait_ms,
            min_bytes=self._limits.min_bytes,
            max_bytes=self._limits.max_bytes,
            isolation_level=READ_COMMITTED if self._read_committed else READ_UNCOMMITTED,
            topics=list(topics.values()),
        )
        has_ids = all(topic.topic_id != NO_UUID for topic in topics.values())
        return PlannedFetch(node_id, request, {place: self.positions[place] for place in places}, has_ids)

    def _take_partition(self, place: TopicPartition, partition: PartitionData, fetched: Fetched) -> None:
        code = error_code(partition.error_code)
        match verdict(code):
            case Verdict.DONE:
                pass
            case Verdict.REFRESH:
                fetched.stale = True
                return
            case Verdict.RETRY:
                return
            case Verdict.FAIL:
                raise refusal(
                    partition.error_code, None, f"fetch of {place} at offset {self.positions[place]}"
                )
        start, end = self.positions[place], self._ranges[place].end
        chunk = read_chunk(place, partition, start, end=end, read_committed=self._read_committed)
        if chunk is None:
            return
        self.positions[place] = chunk.next_offset
        self._order.remove(place)
        if end is None or chunk.next_offset < end:
            self._order.append(place)
        if chunk.batches:
            fetched.chunks.append(chunk)

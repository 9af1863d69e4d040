"""Which partitions to fetch from where, and what an answer moves (C1, C7).

The plan holds a position for each partition. A position moves when an answer arrives, before anybody has
looked at the records, so the next request can be on its way while they are being read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from everlog.client.core.errors import error_code, refusal
from everlog.client.core.metadata import ClusterView
from everlog.client.core.offset_spec import OffsetRange
from everlog.client.core.retry import Verdict, verdict
from everlog.model.errors import CorruptDataError, ErrorCode
from everlog.model.ids import NO_UUID
from everlog.model.topics import TopicPartition
from everlog.records.batch import BatchView, whole_batches
from everlog.records.control import ControlType, control_type
from everlog.records.reader import Record, read_records
from everlog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

FIRST_VERSION_BY_ID = 13
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much a fetch may bring and how long it may wait, with Kafka's defaults."""

    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    max_wait_ms: int = 500


@dataclass(frozen=True, slots=True)
class Chunk:
    """Batches of one partition in order. They point into the answer's buffer and keep it alive."""

    place: TopicPartition
    batches: list[BatchView]
    start: int
    end: int | None
    high_watermark: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the batches as they came."""
        return sum(batch.size for batch in self.batches)

    def records(self) -> Iterator[Record]:
        """The records from `start` up to `end`; batches hold others before and behind."""
        for batch in self.batches:
            records = read_records(batch)
            if batch.base_offset >= self.start and (self.end is None or batch.last_offset < self.end):
                yield from records
                continue
            for record in records:
                if record.offset >= self.start and (self.end is None or record.offset < self.end):
                    yield record


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
        batches = self._visible(place, partition, start, end)
        if self.positions[place] == start:
            return
        self._order.remove(place)
        if end is None or self.positions[place] < end:
            self._order.append(place)
        if batches:
            fetched.chunks.append(Chunk(place, batches, start, end, partition.high_watermark))

    def _visible(
        self, place: TopicPartition, partition: PartitionData, start: int, end: int | None
    ) -> list[BatchView]:
        """The batches an application may see; moves the position behind the last one, seen or not."""
        visible: list[BatchView] = []
        aborted = _Aborted(partition) if self._read_committed else None
        for batch in whole_batches(partition.records or b""):
            if batch.next_offset <= start:
                continue
            if not batch.checksum_holds():
                raise CorruptDataError(
                    f"the batch of {place} at offset {batch.base_offset} has a checksum that does not hold"
                )
            self.positions[place] = batch.next_offset
            hidden = aborted is not None and aborted.hides(batch)
            if end is not None and batch.base_offset >= end:
                break
            if not hidden and not batch.is_control:
                visible.append(batch)
        return visible


class _Aborted:
    """The aborted transactions that overlap one partition's answer (KIP-98): which batches are theirs."""

    def __init__(self, partition: PartitionData) -> None:
        entries = sorted(partition.aborted_transactions or (), key=lambda entry: entry.first_offset)
        self._upcoming = [(entry.first_offset, entry.producer_id) for entry in entries]
        self._running: set[int] = set()

    def hides(self, batch: BatchView) -> bool:
        """Whether a batch belongs to an aborted transaction; batches come in order of offset."""
        while self._upcoming and self._upcoming[0][0] <= batch.last_offset:
            self._running.add(self._upcoming.pop(0)[1])
        if not batch.is_transactional:
            return False
        if not batch.is_control:
            return batch.producer_id in self._running
        records = read_records(batch)
        if records and control_type(records[0].key) is ControlType.ABORT:
            self._running.discard(batch.producer_id)
        return False

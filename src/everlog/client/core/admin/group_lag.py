"""How far a group is behind, in records and in time (C8).

A count of records says little about a topic whose rate is not known. So besides it there is the age of the
first record that the group has not consumed: how long ago the world it knows ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from everlog.client.core.admin.groups import GroupMember
from everlog.client.core.consumer.fetch_plan import FetchLimits, FetchPlan, PlannedFetch
from everlog.client.core.consumer.offset_spec import OffsetRange
from everlog.client.core.errors import error_code
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.client.core.metadata import ClusterView
from everlog.client.core.retry import Verdict, verdict
from everlog.model.ids import NO_TIMESTAMP, Offset, Timestamp
from everlog.model.topics import TopicPartition
from everlog.wire.messages.fetch import FetchResponse

ONE_RECORD = FetchLimits(
    min_bytes=1, max_bytes=8 * 1024 * 1024, partition_max_bytes=16 * 1024, max_wait_ms=100
)
"""Little is asked of each. A larger batch comes when its partition stands first in a request."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Where a group is in one partition; None where that is not known or does not apply."""

    place: TopicPartition
    committed: OffsetAndMetadata | None
    start: Offset | None
    end: Offset | None
    lag_ms: int | None
    """The age of the first record not yet consumed; 0 if there is none."""
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """Offsets between the committed one and the end; markers and gaps of compaction count too."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed.offset)


def owners(members: Iterable[GroupMember]) -> dict[TopicPartition, GroupMember]:
    """Which member reads which partition."""
    return {place: member for member in members for place in member.assignment}


def unread_ranges(
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
    starts: Mapping[TopicPartition, Offset | None],
    ends: Mapping[TopicPartition, Offset | None],
) -> dict[TopicPartition, OffsetRange]:
    """What each partition holds that the group has not consumed; what retention took is gone."""
    ranges: dict[TopicPartition, OffsetRange] = {}
    for place, entry in committed.items():
        start, end = starts.get(place), ends.get(place)
        if entry is not None and start is not None and end is not None:
            ranges[place] = OffsetRange(Offset(max(entry.offset, start)), end)
    return ranges


def age_ms(first: Timestamp | None, now: Timestamp) -> int | None:
    """The lag in time by the timestamp of the first unread record; None if that has none.

    No record at all is no lag. A producer's clock may be ahead of ours; nobody lags in the future.
    """
    if first is None:
        return 0
    return None if first == NO_TIMESTAMP else max(0, now - first)


class FirstTimestamps:
    """Finds the timestamp of the first record in a range of each partition, with as little read as can be."""

    def __init__(self, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        self.found: dict[TopicPartition, Timestamp | None] = {
            place: None
            for place, wanted in ranges.items()
            if wanted.end is not None and wanted.start >= wanted.end
        }
        """By partition; None where the range holds no record, only markers or nothing."""
        self._left = {place: wanted for place, wanted in ranges.items() if place not in self.found}
        self._plan = FetchPlan({}, ONE_RECORD, read_committed=False)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to ask."""
        return not self._left

    @property
    def topics(self) -> Sequence[str]:
        """The topics that are still asked about."""
        return sorted({place.topic for place in self._left})

    def requests(self, view: ClusterView) -> list[PlannedFetch]:
        """The next round of requests; none if no partition that is left has a leader."""
        self._plan = FetchPlan(self._left, ONE_RECORD, read_committed=False)
        return self._plan.requests(view)[0]

    def take(self, planned: PlannedFetch, response: FetchResponse, view: ClusterView) -> bool:
        """Take in an answer; True if a partition has another leader now. A failed one is given up alone."""
        for topic in response.responses:
            name = topic.topic or view.name_of(topic.topic_id) or ""
            for partition in topic.partitions:
                if verdict(error_code(partition.error_code)) is Verdict.FAIL:
                    self._left.pop(TopicPartition(name, partition.partition_index), None)
            topic.partitions = [
                partition
                for partition in topic.partitions
                if verdict(error_code(partition.error_code)) is not Verdict.FAIL
            ]
        fetched = self._plan.take(planned, response, view)
        for chunk in fetched.chunks:
            for record in chunk.records():
                self.found[chunk.place] = Timestamp(record.timestamp)
                break
        for place in planned.asked:
            self._settle(place)
        return fetched.stale

    def _settle(self, place: TopicPartition) -> None:
        wanted = self._left.get(place)
        if wanted is None:
            return
        position = Offset(self._plan.positions[place])
        if place in self.found:
            del self._left[place]
        elif wanted.end is not None and position >= wanted.end:
            self.found[place] = None
            del self._left[place]
        else:
            self._left[place] = OffsetRange(position, wanted.end)

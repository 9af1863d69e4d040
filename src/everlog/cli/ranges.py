"""Reading a topic from one point to another: what `-o SPEC` means, and the records between."""

import time
from collections.abc import Collection, Mapping
from typing import Any, Unpack

from everlog.cli.connect import client_settings, limit_ms_of
from everlog.client.core.admin.offset_listing import OffsetAt
from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.offset_spec import BeforeEnd, OffsetRange, OffsetSpec, resolve
from everlog.client.core.consumer.settings import ConsumerOptions
from everlog.client.sync.admin import Admin
from everlog.client.sync.consumer import Consumer
from everlog.model.errors import ConfigError
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition
from everlog.records.rows import ConsumerRecord

POLL_S = 0.5


def open_reader(
    bootstrap: str, timeout: float, *, read_committed: bool = False, **options: Unpack[ConsumerOptions]
) -> Consumer:
    """A Consumer without a group, whose calls give up after `timeout` seconds."""
    settings: dict[str, Any] = {
        "default_api_timeout_ms": limit_ms_of(timeout),
        "isolation_level": "read_committed" if read_committed else "read_uncommitted",
        "auto_offset_reset": "earliest",
        **client_settings(timeout),
        **options,
    }
    return Consumer(bootstrap, **settings)


def places_of(admin: Admin, topic: str, wanted: Collection[int] | None) -> list[TopicPartition]:
    """The partitions of a topic, all or some; ConfigError for one that it does not have."""
    described = admin.describe_topics([topic])[topic]
    missing = sorted(set(wanted or ()) - set(described.partitions))
    if missing:
        raise ConfigError(
            f"topic {topic!r} has no partition {missing[0]}: expected 0 to {len(described.partitions) - 1}"
        )
    return [TopicPartition(topic, index) for index in sorted(wanted or described.partitions)]


def resolve_ranges(
    admin: Admin,
    places: Collection[TopicPartition],
    spec: OffsetSpec,
    *,
    read_committed: bool,
    stop_at_end: bool,
) -> dict[TopicPartition, OffsetRange]:
    """Turn a spec into a range of each partition; with `stop_at_end` none goes beyond what is there now."""
    isolation = "read_committed" if read_committed else "read_uncommitted"

    def offsets(at: int) -> dict[TopicPartition, Offset | None]:
        listed = admin.list_offsets(places, at, isolation_level=isolation)
        return {place: None if entry is None else Offset(entry.offset) for place, entry in listed.items()}

    earliest, latest = offsets(OffsetAt.EARLIEST), offsets(OffsetAt.LATEST)
    by_time = {timestamp: offsets(timestamp) for timestamp in spec.timestamps}
    bounded = stop_at_end or isinstance(spec.end, BeforeEnd)
    ranges: dict[TopicPartition, OffsetRange] = {}
    for place in places:
        first, last = earliest[place] or Offset(0), latest[place] or Offset(0)
        found = resolve(spec, first, last, {at: at_time[place] for at, at_time in by_time.items()})
        if bounded:
            end = last if found.end is None else Offset(min(found.end, last))
            found = OffsetRange(found.start, end)
        ranges[place] = found
    return ranges


class RangeReader:
    """Reads ranges of partitions with a consumer that does nothing else; `finished` once all have ended."""

    def __init__(self, consumer: Consumer, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        self._consumer = consumer
        self._heard_at = time.monotonic()
        self._ends = {
            place: wanted.end
            for place, wanted in ranges.items()
            if wanted.end is None or wanted.start < wanted.end
        }
        if self._ends:
            consumer.assign(list(self._ends))
            for place in self._ends:
                consumer.seek(place, ranges[place].start)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to read."""
        return not self._ends

    def poll(self, timeout: float = POLL_S) -> list[ConsumerRecord]:
        """The next records; none if none came in time, or only such as lie behind an end."""
        records = self._consumer.poll(timeout)
        self._notice(bool(records))
        ends = self._ends
        within = [
            record
            for record in records
            if (end := ends.get(TopicPartition(record.topic, record.partition), 0)) is None
            or record.offset < end
        ]
        self._end_ranges()
        return within

    def take_chunks(self, timeout: float = POLL_S) -> list[Chunk]:
        """The next records as whole batches, of which the last may go on behind an end."""
        chunks = self._consumer.take_chunks(timeout)
        self._notice(bool(chunks))
        self._end_ranges()
        return chunks

    def _notice(self, came: bool) -> None:
        """See whether a silence is one of the log or of brokers that are gone, which a command tells."""
        limit = self._consumer.settings.api_timeout
        if not came and time.monotonic() - self._heard_at < limit:
            return
        if not came:
            self._consumer.end_offsets(timeout=limit)
        self._heard_at = time.monotonic()

    def _end_ranges(self) -> None:
        # What lies before an end need not be a record: markers of transactions and gaps end a range too.
        ended = [
            place
            for place, end in self._ends.items()
            if end is not None and self._consumer.position(place) >= end
        ]
        for place in ended:
            del self._ends[place]
        if ended:
            self._consumer.pause(*ended)

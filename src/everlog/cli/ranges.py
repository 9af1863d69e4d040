"""Reading a topic from one point to another: what `-o SPEC` means, and the records between."""

from collections.abc import Collection, Iterator, Mapping

from everlog.client.core.offset_listing import OffsetAt
from everlog.client.core.offset_spec import BeforeEnd, OffsetRange, OffsetSpec, resolve
from everlog.client.sync.admin import Admin
from everlog.client.sync.consumer import Consumer
from everlog.model.errors import ConfigError
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition
from everlog.records.rows import ConsumerRecord

POLL_S = 0.5


def open_reader(bootstrap: str, timeout: float, *, read_committed: bool) -> Consumer:
    """A Consumer without a group, whose calls give up after `timeout` seconds."""
    limit_ms = max(1, int(timeout * 1000))
    return Consumer(
        bootstrap,
        client_id="everlog-cli",
        default_api_timeout_ms=limit_ms,
        request_timeout_ms=limit_ms,
        socket_connection_setup_timeout_ms=limit_ms,
        isolation_level="read_committed" if read_committed else "read_uncommitted",
        auto_offset_reset="earliest",
    )


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


def read_ranges(
    consumer: Consumer, ranges: Mapping[TopicPartition, OffsetRange]
) -> Iterator[list[ConsumerRecord]]:
    """The records of ranges, as they come; ends when all ranges that have an end are read."""
    ends = {
        place: wanted.end
        for place, wanted in ranges.items()
        if wanted.end is None or wanted.start < wanted.end
    }
    if not ends:
        return
    consumer.assign(list(ends))
    for place in ends:
        consumer.seek(place, ranges[place].start)
    while ends:
        records = [
            record
            for record in consumer.poll(POLL_S)
            if (place := TopicPartition(record.topic, record.partition)) in ends
            and ((end := ends[place]) is None or record.offset < end)
        ]
        if records:
            yield records
        # What lies before an end need not be a record: markers of transactions and gaps end a range too.
        done = [place for place, end in ends.items() if end is not None and consumer.position(place) >= end]
        for place in done:
            del ends[place]
        if done:
            consumer.pause(*done)

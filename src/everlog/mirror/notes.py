"""Reading the notes of an offset map from the cluster that has the mirror."""

from collections.abc import Iterator

from everlog.client import Consumer, ConsumerRecord, TimedOut, TopicPartition
from everlog.mirror.mirror import Mirror
from everlog.mirror.offset_map import OffsetMap, Slice, read_note

POLL_S = 1.0
SILENT_POLLS = 60
TAIL = 64


def open_notes(mirror: Mirror) -> Consumer:
    """A consumer for `last_slice` and `offset_maps`: it sees what is committed."""
    return Consumer(
        mirror.target, isolation_level="read_committed", auto_offset_reset="earliest", **mirror.target_options
    )


def last_slice(consumer: Consumer, mirror: Mirror, place: TopicPartition) -> Slice | None:
    """The newest slice of a partition of the source, or None if nothing of it is mirrored yet.

    It reads the end of the notes, and more of them only where aborted transactions are in the way.
    """
    notes = TopicPartition(mirror.map_name_of(place.topic), place.partition)
    start, end = consumer.beginning_offsets(notes)[notes], consumer.end_offsets(notes)[notes]
    window = TAIL
    while start < end:
        first = max(start, end - window)
        found = [read_note(record.value) for record in _read(consumer, notes, first, end) if record.value]
        if found or first == start:
            return max(found, key=lambda one: one.number, default=None)
        window *= 8
    return None


def offset_maps(consumer: Consumer, mirror: Mirror, topic: str) -> dict[TopicPartition, OffsetMap]:
    """All that is noted of a topic of the source, by its partitions."""
    name = mirror.map_name_of(topic)
    places = [TopicPartition(name, partition.index) for partition in consumer.partitions_for(name)]
    starts, ends = consumer.beginning_offsets(*places), consumer.end_offsets(*places)
    return {
        TopicPartition(topic, place.partition): OffsetMap(
            read_note(record.value)
            for record in _read(consumer, place, starts[place], ends[place])
            if record.value
        )
        for place in places
    }


def _read(consumer: Consumer, place: TopicPartition, start: int, end: int) -> Iterator[ConsumerRecord]:
    """The records between two offsets; TimedOut if they do not come."""
    if start >= end:
        return
    consumer.assign([place])
    consumer.seek(place, start)
    silent = 0
    while consumer.position(place) < end:
        records = consumer.poll(POLL_S)
        silent = 0 if records else silent + 1
        if silent == SILENT_POLLS:
            raise TimedOut(f"{place} gave nothing for {SILENT_POLLS * POLL_S:g} s: expected offsets to {end}")
        yield from (record for record in records if record.offset < end)

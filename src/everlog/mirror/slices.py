"""Writing a slice of a partition to its mirror: records and note in one transaction."""

from collections.abc import Iterable
from typing import Any

from everlog.client import BulkDelivery, Producer, TopicPartition
from everlog.client.core.columns.columns import ArrowBatch, arrow_compute
from everlog.mirror.mirror import Mirror
from everlog.mirror.notes import last_slice, open_notes
from everlog.mirror.offset_map import Slice, Span, note_of, pair, slice_of, slots_of

COLUMNS = ("key", "value", "headers", "timestamp", "partition")
TRANSACTION_MS = 15 * 60_000
"""The longest that brokers allow unless they are told otherwise."""


def write_slice(mirror: Mirror, place: TopicPartition, batches: Iterable[ArrowBatch]) -> Slice | None:
    """Mirror the records of one partition, in order of their offsets; returns where they went.

    Batches have the columns of a topic: key, value, headers, timestamp, partition, offset. What is mirrored
    already is left out, so a slice may be written again after any failure; None if nothing was left.
    Who comes later takes over: of two that write to one partition the first one fails with Fenced.
    """
    transactional_id = f"everlog-mirror.{mirror.name_of(place.topic)}-{place.partition}"
    with Producer(
        mirror.target,
        transactional_id=transactional_id,
        transaction_timeout_ms=TRANSACTION_MS,
        **mirror.target_options,
    ) as producer:
        # In this order: only who holds the id may trust what is noted to be the last of it.
        producer.init_transactions()
        with open_notes(mirror) as consumer:
            last = last_slice(consumer, mirror, place)
        return _write_after(producer, mirror, place, last, batches)


def _write_after(
    producer: Producer,
    mirror: Mirror,
    place: TopicPartition,
    last: Slice | None,
    batches: Iterable[ArrowBatch],
) -> Slice | None:
    spans: list[Span] = []
    deliveries: list[BulkDelivery] = []
    done = last.source_end if last is not None else 0
    # Left by an error, it is aborted by the producer's closing, or by who takes over the id.
    producer.begin_transaction()
    for batch in batches:
        left = _from_offset(batch, done)
        if left.num_rows == 0:
            continue
        spans += spans_of(left.column("offset"))
        done = spans[-1][0] + spans[-1][1]
        deliveries.append(producer.send_arrow(mirror.name_of(place.topic), left.select(_present(left))))
    if not deliveries:
        producer.abort_transaction()
        return None
    producer.flush()
    targets = [(part.base_offset, part.record_count) for delivery in deliveries for part in delivery.result()]
    noted = slice_of(0 if last is None else last.number + 1, pair(spans, targets))
    for key in slots_of(noted.number):
        producer.send(
            mirror.map_name_of(place.topic), note_of(noted), key.encode(), partition=place.partition
        )
    producer.commit_transaction()
    return noted


def _present(batch: ArrowBatch) -> list[str]:
    return [name for name in COLUMNS if name in batch.schema.names]


def _from_offset(batch: ArrowBatch, offset: int) -> ArrowBatch:
    return batch.filter(arrow_compute().greater_equal(batch.column("offset"), offset))


def spans_of(offsets: Any) -> list[Span]:
    """Where offsets, which must rise, follow each other without a gap.

    AssertionError if they do not rise: then records would be mirrored in another order.
    """
    compute = arrow_compute()
    if len(offsets) == 0:
        return []
    steps = compute.pairwise_diff(offsets)[1:]
    assert compute.min(steps).as_py() is None or compute.min(steps).as_py() > 0, "offsets do not rise"
    breaks = compute.indices_nonzero(compute.not_equal(steps, 1)).to_pylist()
    firsts = [0, *(position + 1 for position in breaks)]
    lengths = [after - first for first, after in zip(firsts, [*firsts[1:], len(offsets)], strict=True)]
    return [(int(offsets[first].as_py()), length) for first, length in zip(firsts, lengths, strict=True)]

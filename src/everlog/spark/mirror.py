"""Mirroring on Spark: batches of a query to another cluster, for `foreachBatch` (R11)."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from everlog.client import TopicPartition
from everlog.client.core.columns.columns import ArrowBatch, load_arrow
from everlog.mirror.mirror import Mirror
from everlog.mirror.slices import write_slice

_MIRRORED = "topic string, partition int, slice long, source_end long, target_end long, records long"


def mirror_batches(source: str, target: str, **names_and_options: Any) -> Callable[[Any, int], None]:
    """A function for `foreachBatch` that mirrors records with all of the columns of the format `everlog`.

    `source` and `target` are bootstrap servers; the rest is as in `everlog.mirror.mirror.Mirror`. The query
    must read with `includeHeaders`, or headers would be lost.

    >>> records.writeStream.foreachBatch(mirror_batches("127.0.0.1:9092", "127.0.0.1:9192"))
    """
    mirror = Mirror(source, target, **names_and_options)

    def mirror_batch(batch: Any, _batch_id: int) -> None:
        # One task has all of a partition, in order, however the source has split it: two that write to one
        # partition would fence each other.
        ordered = batch.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
        ordered.mapInArrow(_writer(mirror), _MIRRORED).collect()

    return mirror_batch


_prepared: dict[tuple[str, str, str], int] = {}
"""How many partitions there are on the target, by clusters and topic, as far as this process knows."""


def _prepare(mirror: Mirror, place: TopicPartition) -> None:
    """Make the mirror of a topic, and of a partition that was added to it, when its first record comes."""
    cluster_and_topic = (mirror.source, mirror.target, mirror.name_of(place.topic))
    if place.partition >= _prepared.get(cluster_and_topic, 0):
        _prepared[cluster_and_topic] = mirror.prepare({place.topic})[place.topic]


def _writer(mirror: Mirror) -> Callable[[Iterator[ArrowBatch]], Iterator[ArrowBatch]]:
    def write(batches: Iterator[ArrowBatch]) -> Iterator[ArrowBatch]:
        arrow = load_arrow()
        for place, parts in groupby(_by_place(batches), key=lambda part: part[0]):
            _prepare(mirror, place)
            counted = _Counted(part for _, part in parts)
            written = write_slice(mirror, place, counted)
            if written is not None:
                row = (*place, written.number, written.source_end, written.target_end, counted.rows)
                names = ("topic", "partition", "slice", "source_end", "target_end", "records")
                types = (arrow.string(), arrow.int32(), *[arrow.int64()] * 4)
                yield arrow.record_batch(
                    [arrow.array([value], kind) for value, kind in zip(row, types, strict=True)], names
                )

    return write


class _Counted:
    """Batches as they come, and how many rows they had."""

    def __init__(self, batches: Iterator[ArrowBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[ArrowBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def _by_place(batches: Iterator[ArrowBatch]) -> Iterator[tuple[TopicPartition, ArrowBatch]]:
    """Batches cut where a partition ends; rows of one follow each other."""
    for batch in batches:
        first = 0
        while first < batch.num_rows:
            place = TopicPartition(
                batch.column("topic")[first].as_py(), batch.column("partition")[first].as_py()
            )
            length = _length_of(batch, place, first)
            yield place, batch.slice(first, length)
            first += length


def _length_of(batch: ArrowBatch, place: TopicPartition, first: int) -> int:
    from everlog.client.core.columns.columns import arrow_compute

    compute = arrow_compute()
    rest = batch.slice(first)
    same = compute.and_(
        compute.equal(rest.column("topic"), place.topic),
        compute.equal(rest.column("partition"), place.partition),
    )
    other = compute.index(same, False).as_py()
    return rest.num_rows if other < 0 else int(other)

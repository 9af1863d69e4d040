"""What a task does: read one range of offsets as Arrow batches.

Connections are kept in the worker's process: Spark runs task after task in it.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from everlog.client.core.columns.columns import Unpacked, unpack
from everlog.client.core.consumer.chunks import Chunk
from everlog.spark.source.cluster import Cluster
from everlog.spark.source.columns import ArrowBatch, ColumnOptions, RecordColumns
from everlog.spark.source.options import SourceOptions
from everlog.spark.source.plan import ReadRange
from everlog.spark.source.range_fetch import RangeFetch

BATCH_BYTES = 2 * 1024 * 1024
"""About how much of records, uncompressed, an Arrow batch has: some 20 000 rows of 100 bytes.

Spark works on one while the next is made, so a task should have several; what each costs by itself counts
below a quarter of this.
"""
KEPT_CLUSTERS = 4
"""Whose connections a process keeps: queries of several clusters may share a worker."""


@dataclass(slots=True)
class _Kept:
    clusters: dict[tuple[tuple[str, Any], ...], Cluster]

    def get(self, options: SourceOptions) -> Cluster:
        """The cluster of these options, with its connections if it was used before."""
        key = tuple(sorted(options.client.items()))
        cluster = self.clusters.pop(key, None) or Cluster(options.client)
        self.clusters[key] = cluster
        while len(self.clusters) > KEPT_CLUSTERS:
            self.clusters.pop(next(iter(self.clusters))).close()
        return cluster


_kept = _Kept({})


def read_range(options: SourceOptions, wanted: ReadRange, columns: ColumnOptions) -> Generator[ArrowBatch]:
    """The records of a range, in order, or an error: never fewer without a word.

    Offsets that have no record, because it was compacted away, aborted, or is a transaction's marker, are
    passed over. Records that were deleted are DataLost, or are passed over too if the user asked for that.
    """
    made = RecordColumns(wanted.place, columns)
    chunks = RangeFetch(
        _kept.get(options),
        wanted,
        fail_on_data_loss=options.fail_on_data_loss,
        poll_timeout_s=options.poll_timeout_s,
    )
    pending: list[Unpacked] = []
    size = 0
    for chunk in chunks:
        rest: Chunk | None = chunk
        while rest is not None:
            piece, rest = unpack(rest, BATCH_BYTES - size)
            pending.append(piece)
            size += piece.size_bytes
            if size >= BATCH_BYTES:
                yield made.batch(pending)
                pending, size = [], 0
    if pending:
        yield made.batch(pending)

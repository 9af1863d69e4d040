"""Tables to batches for the accumulator: rows by partition, in batches as large as a request may be (P1, P2).

Batches come one at a time, so that a table of any size takes little memory beside itself: the caller waits
for room between them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from everlog.client.core import surroundings
from everlog.client.core.columns.tables import RowColumns, TableReader, pieces, record_batches
from everlog.client.core.errors import unsendable
from everlog.client.core.memory import keep_memory
from everlog.client.core.metadata import ClusterView
from everlog.client.core.producer.accumulator import TopicQueues
from everlog.client.core.producer.settings import MURMUR2, ROUND_ROBIN, ProducerSettings
from everlog.model.errors import ConfigError, ErrorCode, Refused
from everlog.records.batch import HEADER_BYTES
from everlog.records.column_batch import ColumnBatch
from everlog.records.column_buffers import Keyless
from everlog.records.columns import encode_rows, route_rows
from everlog.records.rows import BatchBuffer

_PIECE_BATCHES = 8
"""How many batches for each partition are made of one piece: the last of them is not quite full."""
_MAX_PIECE_BYTES = 64 * 1024 * 1024
_REQUESTS_AHEAD = 8
"""How many full requests to a broker may be under way or wait: more than five, which may be under way. With
all of `buffer_memory` in use a batch had left the processor's caches when it was sent: a fifth more CPU."""


class ColumnIntake:
    """Takes tables for known topics. Any thread may call it."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self._can_choose = settings.partitioner in (MURMUR2, ROUND_ROBIN)
        self._goes_by_key = settings.partitioner == MURMUR2 and not settings.partitioner_ignore_keys
        self._rows_without_key: dict[str, int] = {}

    def batches(
        self, topic: TopicQueues, table: Any, columns: Mapping[str, str] | None, now: int
    ) -> Iterator[tuple[int, BatchBuffer]]:
        """Check a table and return its batches, each with its partition; `now` is for rows without a time.

        Unsendable, at once, if a column is missing or of the wrong type, and on the way for a row that no
        record can hold or whose partition does not exist.
        """
        keep_memory()
        schema, given = record_batches(table)
        reader = TableReader(schema, columns)
        if not self._can_choose and not reader.has_partitions:
            raise _no_partitioner()
        piece_bytes = min(_MAX_PIECE_BYTES, topic.batch_limit * len(topic.queues) * _PIECE_BATCHES)
        return (
            batch
            for piece in pieces(given, piece_bytes)
            for batch in self._batches_of(topic, reader.read(piece, now))
        )

    def most_ahead(self, view: ClusterView) -> int:
        """How many bytes of batches may be under way or wait when another is to be made."""
        return _REQUESTS_AHEAD * self._settings.max_request_size * max(1, len(view.brokers))

    def _batches_of(self, topic: TopicQueues, rows: RowColumns) -> Iterator[tuple[int, BatchBuffer]]:
        row_bytes = max(1, rows.size_bytes // rows.source.rows)
        keyless = Keyless(
            tuple(topic.led),
            max(1, self._section_bytes(topic) // row_bytes),
            self._rows_without_key.get(topic.name) or surroundings.chance.randrange(1 << 30),
        )
        if rows.partition is None and (rows.source.key is None or not self._goes_by_key):
            self._rows_without_key[topic.name] = keyless.run_at + rows.source.rows
            for partition, start, end in keyless.runs(rows.source.rows):
                line = _Line(partition, start, end, end - start)
                while line.start < line.end:
                    yield self._batch(topic, rows, None, line)
            return
        order, lines = self._routed(topic, rows, keyless, row_bytes)
        # In turn, so that all partitions are served while the first batches are on their way.
        while lines:
            for line in lines:
                yield self._batch(topic, rows, order, line)
            lines = [line for line in lines if line.start < line.end]

    def _routed(
        self, topic: TopicQueues, rows: RowColumns, keyless: Keyless, row_bytes: int
    ) -> tuple[bytearray, list["_Line"]]:
        if not self._can_choose and (rows.partition is None or rows.partition.validity is not None):
            raise _no_partitioner()
        key = rows.source.key if self._goes_by_key else None
        try:
            order, ends, run_at = route_rows(
                rows.source.rows, key, rows.partition, len(topic.queues), keyless
            )
        except ValueError as error:
            raise unsendable(error, topic.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None
        self._rows_without_key[topic.name] = run_at
        limit = self._section_bytes(topic)
        lines = [
            _Line(partition, start, end, _even_share(end - start, row_bytes, limit))
            for partition, (start, end) in enumerate(zip((0, *ends[:-1]), ends, strict=True))
            if end > start
        ]
        return order, lines

    def _section_bytes(self, topic: TopicQueues) -> int:
        """What the records of a batch may take, if it is more than one."""
        return max(1, min(topic.batch_limit, self._settings.buffer_memory) - HEADER_BYTES)

    def _batch(
        self, topic: TopicQueues, rows: RowColumns, order: bytearray | None, line: "_Line"
    ) -> tuple[int, BatchBuffer]:
        """Make one batch of the next rows of a line."""
        limit = self._section_bytes(topic)
        stop = min(line.end, line.start + line.share)
        try:
            encoded = encode_rows(rows.source, order, line.start, stop, limit, HEADER_BYTES)
        except ValueError as error:
            raise unsendable(error, topic.name) from None
        batch = ColumnBatch(encoded, encoded.next - line.start)
        # Not the topic's limit: that is where batches are to end, and a row alone may be larger.
        if batch.size_bytes > (most := self._settings.max_request_size):
            raise _too_large(topic, line.partition, batch.size_bytes, most)
        batch.pack(self._settings.codec, self._settings.compression_level)
        line.start = encoded.next
        # It does all that is asked of a batch which is closed.
        return line.partition, cast(BatchBuffer, batch)


@dataclass(slots=True)
class _Line:
    """Rows of one partition that wait to be made into batches: places in the order, or rows as they come."""

    partition: int
    start: int
    end: int
    share: int
    """How many rows each batch gets, if they fit."""


def _even_share(rows: int, row_bytes: int, limit: int) -> int:
    """How many rows go into each batch if the batches are to be few and of one size."""
    batches = -(-rows * row_bytes // limit)
    return -(-rows // batches)


def _no_partitioner() -> ConfigError:
    return ConfigError(
        "setting partitioner: a function chooses for one record at a time; columns need a column 'partition' "
        "without nulls, or the partitioner 'murmur2' or 'round_robin'"
    )


def _too_large(topic: TopicQueues, partition: int, size: int, most: int) -> Refused:
    return Refused(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a row for {topic.name}-{partition} takes {size} bytes: expected at most max_request_size, {most}",
    )

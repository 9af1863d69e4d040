"""Records as Arrow columns: what `poll_arrow` returns (C1).

The buffers that `records.columns` fills become Arrow's without a copy. pyarrow is imported when columns are
first asked for; it comes with `pip install everlog[arrow]`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.errors import DamagedBatch
from everlog.client.core.errors import Unsupported
from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer
from everlog.records.batch import HEADER_BYTES, BatchView
from everlog.records.column_buffers import LARGEST_INT64, Binary, Columns, Span, Views
from everlog.records.columns import decode_columns, decode_with_views
from everlog.records.compression import DEFAULT_MAX_BYTES, Codec, decompress
from everlog.records.runs import PlainRun

ArrowBatch = Any
"""A pyarrow.RecordBatch, which has no types to check against."""


@cache
def load_arrow() -> Any:
    """The module pyarrow; Unsupported says how to install it."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise Unsupported(f"columns need pyarrow: pip install everlog[arrow] ({error})") from error


@cache
def arrow_compute() -> Any:
    """The module pyarrow.compute."""
    load_arrow()
    return import_module("pyarrow.compute")


@cache
def record_schema(views: bool = False) -> Any:
    """The schema of what `poll_arrow` returns: the fields of ConsumerRecord, under the same names.

    With `views`, values are of type binary_view.
    """
    pa = load_arrow()
    header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    return pa.schema(
        [
            pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
            pa.field("timestamp_type", pa.int8(), nullable=False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary_view() if views else pa.binary()),
            pa.field("headers", pa.list_(pa.field("item", header, nullable=False)), nullable=False),
            pa.field("leader_epoch", pa.int32(), nullable=False),
        ]
    )


class Unpacked(NamedTuple):
    """A chunk whose batches are uncompressed, ready to be read at once."""

    chunk: Chunk
    sections: Sequence[Buffer | None]
    """The records of each batch, None where they lie in it as they are; none at all for a run."""
    size_bytes: int
    """What its records take uncompressed."""

    def spans(self, topic: int) -> list[Span]:
        """What of it is to be read, under the number of its topic."""
        chunk, partition = self.chunk, self.chunk.place.partition
        stop = LARGEST_INT64 if chunk.end is None else chunk.end
        if isinstance(chunk.batches, PlainRun):
            return [Span(chunk.batches.raw, None, chunk.start, stop, topic, partition)]
        return [
            Span(batch.raw, section, chunk.start, stop, topic, partition)
            for batch, section in zip(chunk.batches, self.sections, strict=True)
        ]

    def batch_by_batch(self) -> "Unpacked":
        """The same, with a span for each batch."""
        if not isinstance(self.chunk.batches, PlainRun):
            return self
        batches = self.chunk.batches.views
        return Unpacked(replace(self.chunk, batches=batches), [None] * len(batches), self.size_bytes)


def unpack(chunk: Chunk, max_bytes: int) -> tuple[Unpacked, Chunk | None]:
    """Uncompress the first batches of a chunk, about `max_bytes` and one at least; also return the rest.

    DamagedBatch, which names partition and offset, only if it is the first that is damaged.
    """
    if isinstance(chunk.batches, PlainRun):
        piece, rest = chunk.cut(max_bytes)
        return Unpacked(piece, (), piece.size_bytes), rest
    sections: list[Buffer | None] = []
    size = 0
    for batch in chunk.batches:
        if sections and size >= max_bytes:
            break
        try:
            section = _section_of(batch)
        except CorruptDataError as error:
            if sections:
                break
            raise damaged(chunk, batch, error) from None
        sections.append(section)
        size += batch.size - HEADER_BYTES if section is None else len(section)
    if len(sections) == len(chunk.batches):
        return Unpacked(chunk, sections, size), None
    following = chunk.batches[len(sections)]
    return Unpacked(chunk.part(0, len(sections)), sections, size), chunk.rest(following.base_offset)


def _section_of(batch: BatchView) -> Buffer | None:
    if batch.codec == Codec.NONE:
        return None
    return decompress(batch.codec, batch.records, DEFAULT_MAX_BYTES)


def damaged(chunk: Chunk, batch: BatchView, error: CorruptDataError) -> DamagedBatch:
    """The error for a batch that cannot be read: where it lies, and why."""
    return DamagedBatch(error, chunk.place, max(batch.base_offset, chunk.start), retriable=False)


def chunks_to_arrow(chunks: Iterable[Chunk], *, views: bool = False) -> ArrowBatch:
    """Return the records of chunks as one pyarrow.RecordBatch of `record_schema`."""
    return unpacked_to_arrow([unpack(chunk, LARGEST_INT64)[0] for chunk in chunks], views=views)


def unpacked_to_arrow(chunks: Sequence[Unpacked], *, views: bool = False) -> ArrowBatch:
    """As `chunks_to_arrow`, of chunks that are uncompressed already."""
    topics: dict[str, int] = {}
    spans: list[Span] = []
    for unpacked in chunks:
        spans += unpacked.spans(topics.setdefault(unpacked.chunk.place.topic, len(topics)))
    if views:
        return _to_arrow(*decode_with_views(spans), list(topics))
    return _to_arrow(decode_columns(spans), None, list(topics))


@cache
def _types() -> dict[str, Any]:
    """The types of the schema by name; asking the schema for one takes as long as a thousand records."""
    return {field.name: field.type for field in record_schema()}


def _to_arrow(columns: Columns, values: Views | None, topics: list[str]) -> ArrowBatch:
    pa = load_arrow()
    types = _types()
    rows, count = columns.rows, columns.header_count
    made, buffer = pa.Array.from_buffers, pa.py_buffer

    def numbers(name: str, given: Buffer, validity: Buffer | None = None, nulls: int = 0) -> Any:
        bitmap = None if validity is None else buffer(validity)
        return made(types[name], rows, [bitmap, buffer(given)], nulls)

    def binary(kind: Any, column: Binary, length: int) -> Any:
        bitmap = None if column.validity is None else buffer(column.validity)
        return made(kind, length, [bitmap, buffer(column.offsets), buffer(column.data)], column.null_count)

    if values is None:
        value = binary(types["value"], columns.value, rows)
    else:
        bitmap = None if values.validity is None else buffer(values.validity)
        parts = [bitmap, buffer(values.views), *map(buffer, values.buffers)]
        value = made(pa.binary_view(), rows, parts, values.null_count)
    pairs = made(
        types["headers"].value_type,
        count,
        [None],
        0,
        children=[
            binary(pa.string(), columns.header_name, count),
            binary(types["value"], columns.header_value, count),
        ],
    )
    codes = made(pa.int32(), rows, [None, buffer(columns.topic)], 0)
    return pa.RecordBatch.from_arrays(
        [
            pa.DictionaryArray.from_arrays(codes, pa.array(topics, pa.string()), safe=False),
            numbers("partition", columns.partition),
            numbers("offset", columns.offset),
            numbers("timestamp", columns.timestamp, columns.timestamp_validity, columns.timestamp_nulls),
            numbers("timestamp_type", columns.timestamp_type),
            binary(types["key"], columns.key, rows),
            value,
            made(types["headers"], rows, [None, buffer(columns.header_lists)], 0, children=[pairs]),
            numbers("leader_epoch", columns.leader_epoch),
        ],
        schema=record_schema(values is not None),
    )

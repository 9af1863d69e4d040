"""Records that say who they are, so that a reader can tell a changed one from a true one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

from everlog.records.batch import BatchView, whole_batches
from everlog.records.builder import Header, NewRecord, build_batch
from everlog.records.compression import Codec
from everlog.records.control import ControlType, control_type
from everlog.records.reader import Record, read_records
from everlog.sim.history import Polled, Sent
from everlog.wire.messages.fetch import AbortedTransaction

_ID = "id"
_SOURCE = "source"


@dataclass(frozen=True, slots=True)
class ProducerState:
    """Who writes: id, epoch, and the sequence number of the first record."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1


def a_record(sent: Sent) -> NewRecord:
    """The record for a value; its bytes follow from the value alone."""
    headers = [(_ID, sent.value.encode())]
    if sent.source is not None:
        headers.append((_SOURCE, sent.source.encode()))
    text = None if sent.tombstone else sent.value.encode() + b"." * (crc32(sent.value.encode()) % 60)
    key = None if sent.key is None else sent.key.encode()
    return NewRecord(key, text, tuple(headers), sent.timestamp or 0)


def digest(key: bytes | None, value: bytes | None, headers: Iterable[Header]) -> str:
    """A few characters that change with any byte of a record."""
    found = crc32(b"-" if key is None else key)
    found = crc32(b"-" if value is None else value, found)
    for name, content in headers:
        found = crc32(content or b"-", crc32(name.encode(), found))
    return f"{found:08x}"


def with_digest(partition: str, value: str, timestamp: int, key: str | None = None, **parts: object) -> Sent:
    """A record to send, with the digest of what will be sent."""
    source, tombstone = parts.get("source"), bool(parts.get("tombstone"))
    assert source is None or isinstance(source, str)
    sent = Sent(partition, value, None, key, tombstone, timestamp, None, source)
    made = a_record(sent)
    found = digest(made.key, made.value, made.headers)
    return Sent(partition, value, None, key, tombstone, timestamp, found, source)


def a_batch(
    sends: Sequence[Sent],
    producer: ProducerState,
    *,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> bytes:
    """The batch of some records of one partition."""
    return bytes(
        build_batch(
            [a_record(sent) for sent in sends],
            codec=codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            transactional=transactional,
        )
    )


def polled(partition: str, record: Record) -> Polled:
    """A record that was read, as histories have it."""
    headers = dict(record.headers)
    name = headers.get(_ID)
    source = headers.get(_SOURCE)
    return Polled(
        partition,
        record.offset,
        "no id" if name is None else bytes(name).decode(errors="replace"),
        None if record.key is None else record.key.decode(errors="replace"),
        record.value is None,
        record.timestamp,
        digest(record.key, record.value, record.headers),
        None if source is None else bytes(source).decode(errors="replace"),
    )


def read_batches(
    partition: str,
    data: bytes | bytearray | memoryview | None,
    position: int,
    aborted: Sequence[AbortedTransaction] | None,
) -> tuple[list[Polled], int]:
    """What a fetched range holds from `position` on, without aborted records, and where to read on."""
    found: list[Polled] = []
    coming = sorted(aborted or (), key=lambda each: each.first_offset)
    open_aborted: set[int] = set()
    for batch in whole_batches(data or b""):
        assert batch.checksum_holds(), f"{partition} has a damaged batch at {batch.base_offset}"
        while coming and coming[0].first_offset <= batch.last_offset:
            open_aborted.add(coming.pop(0).producer_id)
        if batch.last_offset < position:
            continue
        if batch.is_control:
            if _is_abort(batch):
                open_aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in open_aborted):
            found += [polled(partition, each) for each in read_records(batch) if each.offset >= position]
        position = batch.next_offset
    return found, position


def _is_abort(batch: BatchView) -> bool:
    return any(control_type(record.key) is ControlType.ABORT for record in read_records(batch))

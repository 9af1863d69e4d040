"""Producer state as a file, in Kafka's `.snapshot` format, named by the offset it stands for.

Kafka's entry has room for one batch only, and its reader keeps the last entry of a producer. So a
producer has up to five entries here, oldest batch first: Kafka reads what it would have written, and we
read the whole window back, which is what makes a retry after a restart no duplicate.
"""

from struct import Struct

from everlog.log.producers import WINDOW, Producers, ProducerState, Sent
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset
from everlog.ports.files import Buffer
from everlog.records.batch import MAX_SEQUENCE
from everlog.records.crc import crc32c

_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_CRC_FROM = 6
_NONE = -1


def snapshot_bytes(producers: Producers) -> bytes:
    """Return the file's bytes for the producers as they are now."""
    entries: list[bytes] = []
    for state in producers:
        txn_first = _NONE if state.txn_first_offset is None else state.txn_first_offset
        window = state.window or [Sent(_NONE, _NONE, _NONE, _NONE, state.last_timestamp)]
        for sent in window:
            newest = sent is window[-1]
            entries.append(
                _ENTRY.pack(
                    state.producer_id,
                    state.epoch,
                    sent.last_sequence,
                    sent.last_offset,
                    max(0, sent.last_offset - sent.first_offset),
                    state.last_timestamp if newest else sent.timestamp,
                    state.coordinator_epoch,
                    txn_first if newest else _NONE,
                )
            )
    body = b"".join(entries)
    head = _HEAD.pack(_VERSION, 0, len(entries))
    crc = crc32c(body, crc32c(head[_CRC_FROM:]))
    return _HEAD.pack(_VERSION, crc, len(entries)) + body


def read_snapshot(raw: Buffer) -> Producers:
    """Read the producers back; CorruptDataError if a byte of the file is not as it was written."""
    if len(raw) < _HEAD.size:
        raise CorruptDataError(f"a producer snapshot has {len(raw)} bytes, expected at least {_HEAD.size}")
    version, crc, count = _HEAD.unpack_from(raw)
    if version != _VERSION or crc != crc32c(memoryview(raw)[_CRC_FROM:]):
        raise CorruptDataError(f"a producer snapshot has version {version} and a checksum that does not hold")
    if count < 0 or len(raw) != _HEAD.size + count * _ENTRY.size:
        raise CorruptDataError(f"a producer snapshot counts {count} entries in {len(raw)} bytes")
    states: dict[int, ProducerState] = {}
    for (
        producer_id,
        epoch,
        last_sequence,
        last_offset,
        delta,
        timestamp,
        coordinator_epoch,
        txn_first,
    ) in _ENTRY.iter_unpack(memoryview(raw)[_HEAD.size :]):
        state = states.get(producer_id)
        if state is None or state.epoch != epoch:
            state = states[producer_id] = ProducerState(producer_id, epoch)
        if last_sequence >= 0:
            first_sequence = (last_sequence - delta) & MAX_SEQUENCE
            state.window.append(
                Sent(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp)
            )
            del state.window[:-WINDOW]
        state.last_timestamp = timestamp
        state.coordinator_epoch = coordinator_epoch
        state.txn_first_offset = None if txn_first < 0 else Offset(txn_first)
    producers = Producers()
    for state in states.values():
        producers.put(state)
    return producers

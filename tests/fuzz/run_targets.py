"""Plain produce requests: what the compiled code takes in, the general readers take in just the same."""

from collections.abc import Sequence
from typing import cast

from everlog.broker.handlers.produce_run import lanes_are_built
from everlog.broker.replicas import Replica
from everlog.log.lane import LaneLimits
from everlog.log.settings import FOREVER, LogSettings
from everlog.log.validate import validated
from everlog.model.ids import Timestamp
from everlog.ports.files import Buffer, File
from everlog.records.batch import batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.wire.codec import encode_request
from everlog.wire.hot.produce import read_produce
from everlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.fuzz.target import Target, found

_NOON = 1_700_000_000_000
_SETTINGS = LogSettings()
_EPOCH = 3
_PARTITION = 2


class _File:
    """Keeps what is appended."""

    def __init__(self) -> None:
        self.data = bytearray()

    def append(self, buffers: Sequence[Buffer]) -> int:
        at = len(self.data)
        self.data += b"".join(buffers)
        return at


class _Log:
    """What the compiled code asks of a log whose end is 100, and of the replica that has it."""

    leads, internal, leading, min_insync, watchers = True, False, None, 1, ()
    leader_epoch, failure, start_offset = _EPOCH, None, 0

    def __init__(self) -> None:
        from everlog.broker import _lanes

        self.log = self
        self.file = _File()
        self.lane = _lanes.Lane()
        limits = LaneLimits(
            FOREVER,
            FOREVER,
            _SETTINGS.max_message_bytes,
            _SETTINGS.timestamp_after_max_ms,
            FOREVER,
            FOREVER,
            False,
        )
        # To append is all that is asked of it.
        self.lane.enter(cast(File, self.file), None, 0, 100, _EPOCH, 64, limits)
        self.lane.admit(7, 0, 4)


def _run(data: bytes) -> None:
    """A socket's bytes: whatever is taken is what the general readers make of each request."""
    if not lanes_are_built():
        return
    from everlog.broker import _lanes

    buffer = memoryview(bytearray(data))
    log = _Log()
    held = {_PARTITION: cast(Replica, log)}  # What `_Log` has is all that is asked of it.
    after, answers, noted, _ = _lanes.take({"orders": held}, {bytes(16): held}, buffer, 0, len(buffer), _NOON)
    found(noted is None, "nobody waits")
    at, offset, kept = 0, 100, b""
    while at < after:
        size = int.from_bytes(data[at : at + 4], "big")
        frame = memoryview(bytearray(data[at + 4 : at + 4 + size]))
        # Nobody asks for the client's name on this way, so it may be anything; one byte of tags follows it.
        client_id_bytes = int.from_bytes(frame[8:10], "big", signed=True)
        version = int.from_bytes(frame[2:4], "big")
        request = read_produce(frame, 10 + max(client_id_bytes, 0) + 1, version)
        found(request.acks in (1, -1) and request.transactional_id is None, "not a plain request")
        [(topic, [(partition, records)])] = request.topics
        found(topic == (bytes(16) if version > 12 else "orders") and partition == _PARTITION, "another place")
        assert records is not None
        batch = batch_at(records)
        found(batch.size == len(records), "more than one batch")
        found(validated(batch, _SETTINGS, Timestamp(_NOON)) is batch, "the batch was changed")
        batch.stamp(offset, _EPOCH)
        kept += batch.raw
        answer_bytes = int.from_bytes(answers[:4], "big") + 4
        found(answers[4:8] == bytes(frame[4:8]), "another correlation id")
        found(offset.to_bytes(8, "big") in answers[:answer_bytes], "another offset")
        answers = answers[answer_bytes:]
        offset += batch.last_offset_delta + 1
        at += 4 + size
    found((at, answers) == (after, b""), "another end")
    found(bytes(log.file.data) == kept, "other bytes in the file")
    found(log.lane.end_offset == offset and log.lane.position == len(kept), "other numbers in the lane")


def _seeds() -> list[bytes]:
    batches = [
        build_batch([NewRecord(b"k", b"v" * size, (), _NOON + size) for size in range(count)])
        for count in (1, 3)
    ]
    batches.append(
        build_batch([NewRecord(None, b"v", (), _NOON)], producer_id=7, producer_epoch=0, base_sequence=4)
    )
    batches.append(
        build_batch([NewRecord(b"k", b"w", (), _NOON)], producer_id=7, producer_epoch=0, base_sequence=5)
    )
    return [
        b"".join(
            encode_request(
                ProduceRequest(
                    acks=-1,
                    timeout_ms=1000,
                    topic_data=[
                        TopicProduceData(
                            name="" if version > 12 else "orders",
                            partition_data=[PartitionProduceData(index=2, records=memoryview(batch))],
                        )
                    ],
                ),
                version,
                number,
                "loader",
            )
            for number, batch in enumerate(chosen)
        )
        for version in (9, 12, 13)
        for chosen in (batches, batches[:1], batches[2:])
    ]


RUN_TARGETS = (Target("produce_run", _run, _seeds, weight=2),)

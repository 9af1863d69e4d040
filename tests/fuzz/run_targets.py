"""Runs of produce requests: what the compiled readers take in, the general ones take in just the same."""

from everlog.log.settings import LogSettings
from everlog.log.validate import validated
from everlog.model.errors import Refused
from everlog.model.ids import Timestamp
from everlog.records.batch import batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.run import checked_run
from everlog.wire.codec import encode_request
from everlog.wire.hot.produce import read_produce
from everlog.wire.hot.produce_run import read_run
from everlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.fuzz.target import Target, found

_NOON = 1_700_000_000_000
_SETTINGS = LogSettings()


def _run(data: bytes) -> None:
    """A socket's bytes: whatever is taken as a run is what the general readers make of each request."""
    buffer = memoryview(bytearray(data))
    run = read_run(buffer, 0, len(buffer))
    if run is None:
        return
    after, version, acks, topic, partition, correlation_ids, spans = run
    at = 0
    for correlation_id, (start, end) in zip(correlation_ids, spans, strict=True):
        size = int.from_bytes(buffer[at : at + 4], "big")
        frame = buffer[at + 4 : at + 4 + size]
        # Nobody asks for the client's name on this way, so it may be anything; one byte of tags follows it.
        client_id_bytes = int.from_bytes(frame[8:10], "big", signed=True)
        request = read_produce(frame, 10 + max(client_id_bytes, 0) + 1, version)
        found(int.from_bytes(frame[4:8], "big", signed=True) == correlation_id, "another correlation id")
        found((request.acks, request.transactional_id) == (acks, None), "another request")
        found(request.topics == [(topic, [(partition, buffer[start:end])])], "another batch")
        at += 4 + size
    found(at == after, "another end")
    if checked_run(buffer, spans) is None:
        return
    for start, end in spans:
        batch = batch_at(buffer[start:end])
        try:
            kept = validated(batch, _SETTINGS, Timestamp(_NOON))
        except Refused as refusal:
            # The one thing that a run's check leaves to the log is how far off a timestamp is.
            found("timestamp" in str(refusal), str(refusal))
        else:
            found(kept is batch, "the batch was changed")


def _seeds() -> list[bytes]:
    batches = [
        build_batch([NewRecord(b"k", b"v" * size, (), _NOON + size) for size in range(count)])
        for count in (1, 3)
    ]
    batches.append(
        build_batch([NewRecord(None, b"v", (), _NOON)], producer_id=7, producer_epoch=0, base_sequence=4)
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
        for chosen in (batches, batches[:1], batches[2:] * 2)
    ]


RUN_TARGETS = (Target("produce_run", _run, _seeds, weight=2),)

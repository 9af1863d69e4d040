"""What must hold of records that were written and read back; the same for every client."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tests.conformance import raw
from tests.conformance.clients.face import Client
from tests.conformance.scenarios import How, Read, Record


def ends_of(records: Iterable[Record]) -> dict[int, int]:
    """The end offset of each partition of a new topic once the records are in it."""
    return dict(Counter(record.partition for record in records))


def write_checked(bootstrap: str, client: Client, topic: str, records: Sequence[Record], how: How) -> None:
    """Write to a new topic; the offsets that the client was told must count from 0 in each partition."""
    told = client.produce(topic, records, how)
    raw.wait_for_ends(bootstrap, topic, ends_of(records))
    if how.acks == 0 or not client.traits.offsets_of_writes:
        return
    due: defaultdict[int, int] = defaultdict(int)
    for record, offset in zip(records, told, strict=True):
        assert offset == due[record.partition], (record.partition, offset, due[record.partition])
        due[record.partition] += 1


def check_read(written: Sequence[Record], read: Sequence[Read], began_ms: int) -> None:
    """Each partition's records came once, in the order written, at consecutive offsets, with all they had."""
    for partition, end in ends_of(written).items():
        expected = [record for record in written if record.partition == partition]
        got = [record for record in read if record.partition == partition]
        assert [record.offset for record in got] == list(range(end)), f"offsets of partition {partition}"
        for want, have in zip(expected, got, strict=True):
            where = (partition, have.offset)
            assert have.key == want.key, where
            assert have.value == want.value, where
            assert have.headers == want.headers, where
            if want.timestamp:
                assert have.timestamp == want.timestamp, where
            else:
                assert began_ms <= have.timestamp <= now_ms(), where


def check_batches(bootstrap: str, topic: str, written: Sequence[Record], how: How) -> None:
    """The batches in the log have the codec and producer id asked for, and hold the records and no more."""
    for partition, end in ends_of(written).items():
        seen = raw.batches(bootstrap, topic, partition)
        assert sum(batch.count for batch in seen) == end, f"partition {partition} holds {seen}"
        assert all(batch.timestamp_type == 0 for batch in seen), seen
        assert all((batch.producer_id >= 0) == how.idempotent for batch in seen), seen
        if how.idempotent:
            _check_sequences(seen)
        # A producer sends a batch that its codec would only make larger as it is.
        compressed = {batch.codec for batch in seen if batch.count > 1}
        assert compressed <= {how.codec, "none"}, compressed
        if partition == 0 and how.codec != "none":
            assert how.codec in compressed, seen


def _check_sequences(batches: Sequence[raw.BatchSeen]) -> None:
    """Each producer counts from 0 in a partition, without a gap; kcat is a new one each time it runs."""
    due: defaultdict[int, int] = defaultdict(int)
    for batch in batches:
        assert batch.base_sequence == due[batch.producer_id], batches
        due[batch.producer_id] += batch.count


def create_served(
    bootstrap: str, client: Client, topic: str, partitions: int, configs: Mapping[str, str] | None = None
) -> None:
    """Create a topic and wait until it is served, which in Apache Kafka is a moment after the answer."""
    client.create_topic(topic, partitions, configs or {})
    raw.wait_for_ends(bootstrap, topic, dict.fromkeys(range(partitions), 0))


def now_ms() -> int:
    """Wall time in milliseconds."""
    return time.time_ns() // 1_000_000

"""What a producer counts about itself."""

from dataclasses import dataclass
from typing import TypedDict

from everlog.client.core.producer.pending_batch import PendingBatch


class ProducerMetrics(TypedDict):
    """What `Producer.metrics()` returns. Times are averages in milliseconds since the producer was made."""

    records_sent: int
    """Records in requests, retries included."""
    records_delivered: int
    records_failed: int
    batches_sent: int
    batches_split: int
    """Because a broker found them too large."""
    requests_sent: int
    bytes_sent: int
    """Bytes of batches in requests, as compressed."""
    retries: int
    """Batches that were sent again."""
    epoch_bumps: int
    """Holes in sequence numbers that were closed with a new epoch (KIP-360)."""
    batch_size_avg: float
    """Bytes of a batch before compression."""
    records_per_batch_avg: float
    compression_ratio: float
    """Bytes after compression by bytes before it."""
    queue_time_avg_ms: float
    """From the first record of a batch until it is first sent."""
    request_latency_avg_ms: float
    request_latency_max_ms: float
    requests_in_flight: int
    buffer_used_bytes: int
    batches_waiting: int


@dataclass(slots=True)
class SendCounts:
    """The sums that metrics are made of; only the network thread changes them."""

    records_sent: int = 0
    records_delivered: int = 0
    records_failed: int = 0
    batches_sent: int = 0
    batches_split: int = 0
    first_sends: int = 0
    requests_sent: int = 0
    requests_answered: int = 0
    raw_bytes: int = 0
    bytes_sent: int = 0
    retries: int = 0
    epoch_bumps: int = 0
    queue_s: float = 0.0
    latency_s: float = 0.0
    latency_max_s: float = 0.0

    def batch_sent(self, batch: PendingBatch, encoded_bytes: int) -> None:
        """Count a batch that leaves."""
        self.batches_sent += 1
        self.records_sent += batch.count
        self.raw_bytes += batch.charged_bytes
        self.bytes_sent += encoded_bytes
        if batch.attempts == 1:
            self.first_sends += 1
            self.queue_s += batch.sent_at - batch.opened_at
        else:
            self.retries += 1

    def answered(self, seconds: float) -> None:
        """Count an answer."""
        self.requests_answered += 1
        self.latency_s += seconds
        self.latency_max_s = max(self.latency_max_s, seconds)

    def read(self, *, in_flight: int, used_bytes: int, waiting: int) -> ProducerMetrics:
        """Make the user's view of it."""
        return ProducerMetrics(
            records_sent=self.records_sent,
            records_delivered=self.records_delivered,
            records_failed=self.records_failed,
            batches_sent=self.batches_sent,
            batches_split=self.batches_split,
            requests_sent=self.requests_sent,
            bytes_sent=self.bytes_sent,
            retries=self.retries,
            epoch_bumps=self.epoch_bumps,
            batch_size_avg=_ratio(self.raw_bytes, self.batches_sent),
            records_per_batch_avg=_ratio(self.records_sent, self.batches_sent),
            compression_ratio=_ratio(self.bytes_sent, self.raw_bytes),
            queue_time_avg_ms=1000 * _ratio(self.queue_s, self.first_sends),
            request_latency_avg_ms=1000 * _ratio(self.latency_s, self.requests_answered),
            request_latency_max_ms=1000 * self.latency_max_s,
            requests_in_flight=in_flight,
            buffer_used_bytes=used_bytes,
            batches_waiting=waiting,
        )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0

"""What a consumer counts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """Counts since the consumer was made, and how things stand now."""

    fetches: int
    """Requests for records."""
    fetch_failures: int
    """Of these, those that were not answered, or with an error as a whole."""
    bytes_fetched: int
    """Of batches, as they came."""
    records_polled: int
    """Records that poll has returned; those of poll_arrow are not counted."""
    commits: int
    commit_failures: int
    bytes_buffered: int
    """Of batches that were fetched ahead."""
    partitions: int
    """How many are assigned."""
    lag: int
    """Records that are behind the positions in all partitions, as far as fetches have told."""

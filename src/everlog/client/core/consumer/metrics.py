"""What a consumer counts about itself."""

from typing import TypedDict

from everlog.client.core.consumer.positions import Positions


class ConsumerMetrics(TypedDict):
    """What `Consumer.metrics()` returns: counts since the consumer was made, and how things stand now."""

    fetches: int
    """Requests for records."""
    fetch_failures: int
    """Of these, those that were not answered, or with an error as a whole."""
    bytes_fetched: int
    """Of batches, as they came."""
    records_polled: int
    """Records that poll has returned."""
    commits: int
    commit_failures: int
    bytes_buffered: int
    """Of batches that were fetched ahead."""
    partitions: int
    """How many are assigned."""
    lag: int
    """Records that are behind the positions in all partitions, as far as fetches have told."""


def known_lag(positions: Positions, *, read_committed: bool) -> int:
    """How many offsets lie between positions and what fetches have told of the ends, over all partitions."""
    total = 0
    for state in positions:
        end = state.last_stable_offset if read_committed else state.high_watermark
        if state.position >= 0:
            total += max(0, end - state.position)
    return total

"""Which partition a record goes to: murmur2 of its key as Kafka's clients do it, else a sticky one (P1)."""

from collections.abc import Callable, Sequence

from everlog.records.murmur2 import murmur2, partition_of_key

__all__ = ["StickyPartitioner", "murmur2", "partition_of_key"]


class StickyPartitioner:
    """Sends records without a key to one partition until it has had `batch_bytes`, then to another.

    Batches fill sooner than with a turn for each record (KIP-480, KIP-794). `below(n)` draws a number
    from 0 to n - 1. `partitions` are those that have a leader, or all where none has.
    """

    def __init__(self, batch_bytes: int, below: Callable[[int], int]) -> None:
        self._batch_bytes = batch_bytes
        self._below = below
        self._current: dict[str, int] = {}
        self._sent_bytes: dict[str, int] = {}

    def pick(self, topic: str, partitions: Sequence[int], record_bytes: int) -> int:
        """Return the partition for the next record without a key."""
        current = self._current.get(topic)
        if current is None or current not in partitions or self._sent_bytes[topic] >= self._batch_bytes:
            current = self._draw(partitions, current)
            self._current[topic] = current
            self._sent_bytes[topic] = 0
        self._sent_bytes[topic] += record_bytes
        return current

    def _draw(self, partitions: Sequence[int], current: int | None) -> int:
        others = [partition for partition in partitions if partition != current] or list(partitions)
        return others[self._below(len(others))]

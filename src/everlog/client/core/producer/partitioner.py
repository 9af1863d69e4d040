"""Which partition a record goes to: murmur2 of its key as Kafka's clients do it, else a sticky one (P1)."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

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

    def is_spent(self, topic: str) -> bool:
        """Whether the next record goes to another partition."""
        return self._sent_bytes[topic] >= self._batch_bytes

    def _draw(self, partitions: Sequence[int], current: int | None) -> int:
        others = [partition for partition in partitions if partition != current] or list(partitions)
        return others[self._below(len(others))]


class LoadedPartitioner:
    """As StickyPartitioner, but partitions with much waiting for them are drawn less often (KIP-794).

    A broker that is slow has longer lines. A partition's chance is in proportion to how much shorter its line
    is than the longest one, so the lines grow to the same length.
    """

    def __init__(self, batch_bytes: int, below: Callable[[int], int]) -> None:
        self._batch_bytes = batch_bytes
        self._below = below
        self._current: dict[str, tuple[int, int]] = {}
        """By topic: the partition, and what may still go there."""

    def pick(
        self, topic: str, partitions: Sequence[int], loads: Callable[[int], int], record_bytes: int
    ) -> int:
        """Return the partition for the next record without a key; `loads` tells the bytes that wait."""
        current, left = self._current.get(topic, (-1, 0))
        if left <= 0 or current not in partitions:
            current, left = self._draw(partitions, loads), self._batch_bytes
        self._current[topic] = current, left - record_bytes
        return current

    def is_spent(self, topic: str) -> bool:
        """Whether a partition is drawn for the next record."""
        return self._current[topic][1] <= 0

    def _draw(self, partitions: Sequence[int], loads: Callable[[int], int]) -> int:
        waiting = [loads(partition) // max(1, self._batch_bytes) for partition in partitions]
        most = max(waiting) + 1
        limits = list(accumulate(most - load for load in waiting))
        return partitions[bisect_right(limits, self._below(limits[-1]))]


class RoundRobinPartitioner:
    """Gives each partition of a topic its turn, whatever the keys."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def pick(self, topic: str, partitions: Sequence[int]) -> int:
        """Return the partition whose turn it is."""
        turn = self._next.get(topic, 0)
        self._next[topic] = turn + 1
        return partitions[turn % len(partitions)]

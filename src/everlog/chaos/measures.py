"""Figures from what was noted: how long nothing could be written, or read, and how long answers took."""

from collections.abc import Iterable, Mapping, Sequence

from everlog.chaos.notes import Acked, Handed


def percentile(values: Iterable[float], share: float) -> float | None:
    """The value that so large a share of all does not exceed; None of none."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def unavailable_ms(acked: Iterable[Acked], since_ms: float, partitions: Iterable[int]) -> dict[int, float]:
    """By partition, how long it took from a moment until a record was acknowledged that was sent after it.

    A partition that took none since then is left out. Answers to records that were sent before may have been
    on their way already, and prove nothing.
    """
    first: dict[int, float] = {}
    wanted = set(partitions)
    for each in acked:
        if each.partition in wanted and each.sent_ms >= since_ms:
            first[each.partition] = min(each.acked_ms, first.get(each.partition, each.acked_ms))
    return {partition: at - since_ms for partition, at in first.items()}


def longest_silence_ms(handed: Sequence[Handed], begin_ms: float, end_ms: float) -> Mapping[int, float]:
    """By partition, the longest time between two moments in which no member got a record of it."""
    last: dict[int, float] = {}
    longest: dict[int, float] = {}
    for each in sorted(handed, key=lambda one: one.at_ms):
        if each.at_ms > end_ms:
            break
        before = last.get(each.partition)
        last[each.partition] = each.at_ms
        if each.at_ms >= begin_ms and before is not None:
            gap = each.at_ms - max(before, begin_ms)
            longest[each.partition] = max(gap, longest.get(each.partition, 0.0))
    for partition, at in last.items():
        gap = end_ms - max(at, begin_ms)
        longest[partition] = max(gap, longest.get(partition, 0.0))
    return longest


def rate_by_interval(times_ms: Iterable[float], interval_ms: float, end_ms: float) -> list[float]:
    """How many things happened a second, interval by interval from 0 to the end."""
    counts = [0] * (int(end_ms / interval_ms) + 1)
    for at in times_ms:
        slot = int(at / interval_ms)
        if 0 <= slot < len(counts):
            counts[slot] += 1
    return [count * 1000 / interval_ms for count in counts]

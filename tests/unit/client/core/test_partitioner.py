"""Keys go where every other client sends them, and records without one where lines are short (P1)."""

from collections import Counter
from collections.abc import Callable

import pytest

from everlog.client.core.producer.partitioner import (
    LoadedPartitioner,
    StickyPartitioner,
    murmur2,
    partition_of_key,
)


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("abc", 479470107),
        ("", 275646681),
    ],
)
def test_murmur2_gives_the_values_that_kafka_gives(text: str, hashed: int) -> None:
    assert murmur2(text.encode()) == hashed & 0xFFFFFFFF


def test_a_hash_with_its_sign_bit_set_is_masked_and_not_negated() -> None:
    assert partition_of_key(b"21", 10) == (-973932308 & 0x7FFFFFFF) % 10


def test_records_without_a_key_stay_with_a_partition_until_a_batch_is_full() -> None:
    sticky = StickyPartitioner(100, lambda bound: bound - 1)

    assert [sticky.pick("t", [0, 1, 2], 40) for _ in range(6)] == [2, 2, 2, 1, 1, 1]


def test_a_partition_that_lost_its_leader_is_left_at_once() -> None:
    sticky = StickyPartitioner(100, lambda _bound: 0)
    assert sticky.pick("t", [0, 1], 1) == 0

    assert sticky.pick("t", [1], 1) == 1


def test_a_topic_with_one_partition_keeps_using_it() -> None:
    sticky = StickyPartitioner(10, lambda _bound: 0)

    assert [sticky.pick("t", [0], 50) for _ in range(3)] == [0, 0, 0]


def drawn(loads: list[int], batch_bytes: int = 100) -> Counter[int]:
    """How often each partition is chosen, over every number that chance may give once."""
    bounds: list[int] = []

    def first(bound: int) -> int:
        bounds.append(bound)
        return 0

    partitions = range(len(loads))
    LoadedPartitioner(batch_bytes, first).pick("t", partitions, loads.__getitem__, 1)
    found: Counter[int] = Counter()
    for number in range(bounds[0]):
        partitioner = LoadedPartitioner(batch_bytes, _always(number))
        found[partitioner.pick("t", partitions, loads.__getitem__, 1)] += 1
    return found


def _always(number: int) -> Callable[[int], int]:
    return lambda _bound: number


@pytest.mark.parametrize(
    ("loads", "chances"),
    [
        ([0, 0, 0], {0: 1, 1: 1, 2: 1}),
        ([700, 700, 700], {0: 1, 1: 1, 2: 1}),
        ([0, 300, 0], {0: 4, 1: 1, 2: 4}),
        ([0, 100, 200], {0: 3, 1: 2, 2: 1}),
        ([99, 0, 10], {0: 1, 1: 1, 2: 1}),
    ],
    ids=["nothing waits", "equal lines", "one long line", "a staircase", "less than a batch"],
)
def test_chances_are_in_proportion_to_how_much_shorter_lines_are_than_the_longest(
    loads: list[int], chances: dict[int, int]
) -> None:
    assert drawn(loads) == chances


def test_a_partition_is_drawn_anew_once_it_has_had_a_batch_and_loads_are_looked_at_only_then() -> None:
    asked: list[int] = []

    def loads(partition: int) -> int:
        asked.append(partition)
        return 0

    partitioner = LoadedPartitioner(100, lambda bound: len(asked) // 3 % bound)

    chosen: list[int] = []
    spent: list[bool] = []
    for _ in range(6):
        chosen.append(partitioner.pick("t", [0, 1, 2], loads, 40))
        spent.append(partitioner.is_spent("t"))

    assert chosen == [1, 1, 1, 2, 2, 2]
    assert spent == [False, False, True] * 2
    assert asked == [0, 1, 2] * 2


def test_a_loaded_partition_that_lost_its_leader_is_left_at_once() -> None:
    partitioner = LoadedPartitioner(100, lambda _bound: 0)
    assert partitioner.pick("t", [0, 1], lambda _partition: 0, 1) == 0

    assert partitioner.pick("t", [1], lambda _partition: 0, 1) == 1

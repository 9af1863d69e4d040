"""Keys go where every other client sends them (P1)."""

import pytest

from everlog.client.core.producer.partitioner import StickyPartitioner, murmur2, partition_of_key


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

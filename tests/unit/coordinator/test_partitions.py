"""Which partition a name falls into, as every client and broker computes it (C2)."""

import pytest

from everlog.coordinator.partitions import partition_for


@pytest.mark.parametrize(
    ("name", "java_hash"),
    [("", 0), ("abc", 96354), ("test", 3556498), ("hello world", 1794106052), ("Aa", 2112), ("BB", 2112)],
)
def test_a_name_goes_where_java_puts_it(name: str, java_hash: int) -> None:
    assert partition_for(name, 50) == java_hash % 50


def test_a_negative_hash_counts_by_its_absolute_value() -> None:
    assert _java_hash("consumer") == -567770122
    assert partition_for("consumer", 50) == 567770122 % 50


def test_the_smallest_hash_has_no_absolute_value_and_goes_to_partition_0() -> None:
    assert _java_hash("polygenelubricants") == -(1 << 31)
    assert partition_for("polygenelubricants", 50) == 0


def test_characters_outside_the_basic_plane_count_as_two() -> None:
    assert partition_for("\U0001f600", 1 << 30) == (0xD83D * 31 + 0xDE00) % (1 << 30)


def _java_hash(text: str) -> int:
    """The definition, without a limit on the size of a number."""
    total = 0
    for letter in text:
        total = 31 * total + ord(letter)
    return (total + (1 << 31)) % (1 << 32) - (1 << 31)

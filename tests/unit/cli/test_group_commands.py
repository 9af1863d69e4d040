"""How groups are shown: every field that programs rely on, and spans of time as people read them (C8)."""

from typing import cast

import pytest

from everlog.cli.group_view import group_shape, lag_table, members_table
from everlog.cli.shapes import span_text
from everlog.client.core.admin.group_lag import PartitionLag
from everlog.client.core.admin.groups import Group, GroupMember
from everlog.client.core.group.types import OffsetAndMetadata
from everlog.client.core.metadata import Broker
from everlog.model.ids import Offset
from everlog.model.topics import TopicPartition
from tests.unit.cli.test_docs import TEXT

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
MEMBER = GroupMember("m-1", "shop", "/10.0.0.1", topics=("orders",), assignment=(ZERO, ONE))
GROUP = Group("billing", "classic", "Stable", "consumer", "range", Broker(1, "h", 9092), (MEMBER,))
LAGS = [
    PartitionLag(ZERO, OffsetAndMetadata(3, "note", 2), Offset(0), Offset(10), 61_500, MEMBER),
    PartitionLag(ONE, None, Offset(0), Offset(4), None, None),
]


def test_the_group_s_lag_is_the_sum_and_the_longest_of_what_is_known() -> None:
    shape = group_shape(GROUP, LAGS)

    assert (shape["lag"], shape["lag_seconds"]) == (7, 61.5)
    nothing = group_shape(GROUP, LAGS[1:])
    assert (nothing["lag"], nothing["lag_seconds"]) == (None, None)


def test_every_field_of_a_described_group_is_in_the_docs() -> None:
    def names(shape: object) -> set[str]:
        if isinstance(shape, dict):
            fields = cast(dict[str, object], shape)
            return set(fields).union(*map(names, fields.values()))
        if isinstance(shape, list):
            entries = cast(list[object], shape)
            return set[str]().union(*map(names, entries))
        return set()

    section = TEXT.partition("## everlog group\n")[2].partition("\n## ")[0]
    found = names(group_shape(GROUP, LAGS))

    assert {"committed_offset", "lag_seconds", "assignment"} < found
    assert [
        name for name in sorted(found) if f"`{name}`" not in section and f"`{name}[]`" not in section
    ] == []


def test_partitions_are_shown_with_lag_and_reader_and_dashes_for_what_is_not_known() -> None:
    assert lag_table(LAGS, verbose=False).lines() == [
        "TOPIC   PARTITION  COMMITTED  END  LAG  BEHIND  CLIENT  HOST",
        "orders          0          3   10    7  1m01s   shop    10.0.0.1",
        "orders          1          -    4    -  -       -       -",
    ]
    assert lag_table(LAGS, verbose=True).lines()[1].split()[-3:] == ["m-1", "2", "note"]


def test_members_are_shown_with_what_they_read_when_all_is_asked_for() -> None:
    assert members_table([MEMBER], verbose=False).lines()[1].split() == ["shop", "10.0.0.1", "-", "2"]
    assert "orders:0,1" in members_table([MEMBER], verbose=True).lines()[1]


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0s"),
        (1, "0.1s"),
        (400, "0.4s"),
        (9_940, "9.9s"),
        (10_000, "10s"),
        (59_999, "59s"),
        (60_000, "1m00s"),
        (185_000, "3m05s"),
        (3_600_000, "1h00m"),
        (86_399_000, "23h59m"),
        (363_600_000, "4d05h"),
    ],
)
def test_a_span_is_shown_in_its_two_largest_units(milliseconds: int, text: str) -> None:
    assert span_text(milliseconds) == text

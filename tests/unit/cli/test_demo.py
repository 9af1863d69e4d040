"""How the demo counts, checks and draws; that it runs is a test of its own."""

from collections import Counter
from dataclasses import replace
from typing import Any, cast

import pytest

from everlog.cli.demo_orders import Minute, Orders, make_orders
from everlog.cli.demo_readback import maker_of_orders
from everlog.cli.demo_results import Checks, TableFound, VolumeReader, check
from everlog.cli.demo_view import bar, copies_text, minute_line, money, serving_line, total_line


@pytest.mark.parametrize(
    ("share", "shown"), [(0.0, ""), (1.0, "████"), (0.5, "██"), (0.001, "▏"), (0.53, "██▏"), (7.0, "████")]
)
def test_a_bar_has_eighths_of_cells(share: float, shown: str) -> None:
    assert bar(share, width=4) == shown


def test_a_minute_is_one_line() -> None:
    line = minute_line("2026-01-15T11:42:00Z", Minute(1500, 123_456), 3000)

    assert line.split() == ["11:42", "█" * 20, "1,500", "orders", "1,234.56"]


def test_the_total_stands_below_the_minutes() -> None:
    minutes = [Minute(1, 150), Minute(2, 250)]
    above, total = minute_line("2026-01-15T11:42:00Z", minutes[1], 2), total_line(minutes, 3)

    assert total.split() == ["in", "all", "3", "orders", "4.00"]
    assert above.index(" orders") == total.index(" orders")
    assert total_line(minutes, 5).endswith("4.00   (2 more in the minute that is not over)")


def test_brokers_are_named_and_the_copies_they_keep() -> None:
    assert serving_line(["a:1"], 0.5) == "A broker serves at a:1, 0.50 s after its start."
    assert serving_line(["a:1", "b:2"], 2) == "2 brokers serve at a:1, b:2, 2.00 s after their start."
    assert copies_text(1, 1) == "1"
    assert copies_text(3, 3) == "3, all in sync"
    assert copies_text(3, 2) == "3, 2 in sync"


def test_money_has_its_cents() -> None:
    assert money(100_000_05) == "100,000.05"


def test_orders_are_the_same_every_time_and_the_last_closes_all_minutes() -> None:
    orders = make_orders(maker_of_orders(), 500)

    assert orders == make_orders(maker_of_orders(), 500)
    assert len(orders.records) == len(set(orders.records)) == 500
    assert sum(minute.orders for minute in orders.minutes.values()) == 500
    assert sum(minute.volume_cents for minute in orders.minutes.values()) == orders.total_cents
    assert sum(minute.orders for minute in orders.closed.values()) == 499


class Volume:
    """What was read of a topic of volumes."""

    def __init__(self, minutes: dict[str, Minute]) -> None:
        self.minutes = minutes
        self.repeated: Counter[str] = Counter()


ORDERS = Orders(
    [(b"", b"%d" % number) for number in range(6)],
    {"a": Minute(2, 20), "b": Minute(3, 30), "c": Minute(1, 1)},
    51,
)
TABLE = TableFound("lake", "parquet", 6, 6, 51, 1, 1, 100)


def checked(minutes: dict[str, Minute], table: TableFound = TABLE, lag: int | None = 0) -> Checks:
    return check(ORDERS, cast(VolumeReader, Volume(minutes)), table, lag)


def test_what_is_as_it_should_be_is_found_so() -> None:
    assert checked(ORDERS.closed).broken == []


@pytest.mark.parametrize(
    "minutes",
    [{"a": Minute(2, 20)}, {"a": Minute(2, 20), "b": Minute(4, 30)}, {**ORDERS.closed, "d": Minute(1, 1)}],
    ids=["one is missing", "an order came twice", "one too many"],
)
def test_minutes_that_are_wrong_are_told(minutes: dict[str, Minute]) -> None:
    assert len(checked(minutes).broken) == 1


def test_a_minute_that_came_twice_is_told() -> None:
    volume = Volume(ORDERS.closed)
    volume.repeated["a"] = 1

    assert check(ORDERS, cast(VolumeReader, volume), TABLE, 0).broken == ["1 minutes came twice"]


@pytest.mark.parametrize("change", [{"rows": 7}, {"orders": 5}, {"total_cents": 50}])
def test_a_table_that_is_wrong_is_told(change: dict[str, Any]) -> None:
    assert len(checked(ORDERS.closed, replace(TABLE, **change)).broken) == 1


@pytest.mark.parametrize("lag", [None, 3])
def test_a_group_that_is_behind_is_told(lag: int | None) -> None:
    assert checked(ORDERS.closed, lag=lag).broken == [f"group lag is {lag}"]

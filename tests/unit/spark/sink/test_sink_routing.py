"""D2: rows parted by topic, in their order, and producers that are lent again."""

import json
from importlib import import_module
from typing import Any

import pytest

from everlog.model.errors import ConfigError
from everlog.spark.sink import producers
from everlog.spark.sink.errors import SinkFailed
from everlog.spark.sink.options import SinkOptions
from everlog.spark.sink.producers import BatchPlace, ProducerPool
from everlog.spark.sink.routing import parted_by_topic, with_values

pa: Any = import_module("pyarrow")


def parted(topics: list[str | None], topic: str | None = None) -> list[tuple[str, list[str]]]:
    rows = [str(number) for number in range(len(topics))]
    batch = pa.record_batch({"topic": pa.array(topics, pa.string()), "value": rows, "other": rows})
    return [
        (name, piece.column(0).to_pylist())
        for name, piece in parted_by_topic(batch, topic, ["value"])
        if piece.schema.names == ["value"]
    ]


def test_the_option_wins_over_the_column() -> None:
    assert parted(["a", None], "t") == [("t", ["0", "1"])]


def test_rows_of_a_topic_stay_in_their_order() -> None:
    assert parted(["a", "a"]) == [("a", ["0", "1"])]
    assert sorted(parted(["b", "a", "b", "c", "a", "b"])) == [
        ("a", ["1", "4"]),
        ("b", ["0", "2", "5"]),
        ("c", ["3"]),
    ]
    many = [f"t{number % 50:02}" for number in range(5000)]
    for name, rows in parted([*many]):
        assert rows == [str(number) for number in range(5000) if many[number] == name]


def test_a_row_without_a_topic_is_named() -> None:
    with pytest.raises(SinkFailed, match="2 of 3 rows have no topic, the first of them is number 1"):
        parted(["a", None, None])


def options_with(**options: str) -> SinkOptions:
    return SinkOptions.read({"kafka.bootstrap.servers": "127.0.0.1:1", **options})


def test_columns_are_made_into_values() -> None:
    rows = {"key": ["k", None], "id": [1, 2], "name": ["a", None]}
    made = with_values(pa.record_batch(rows), options_with(valueFormat="json"))
    assert made.schema.names == ["key", "value"]
    assert [json.loads(one) for one in made.column("value").to_pylist()] == [
        {"id": 1, "name": "a"},
        {"id": 2},
    ]
    nested = pa.record_batch({"value": [{"id": 1}, None]})
    assert with_values(nested, options_with(valueFormat="json")).column("value").to_pylist() == [
        b'{"id":1}',
        None,
    ]
    number = pa.record_batch({"value": pa.array([258], pa.int32())})
    assert with_values(number, options_with(valueFormat="int")).column("value").to_pylist() == [b"\0\0\1\2"]
    with pytest.raises(ConfigError, match="option valueFormat=int: "):
        with_values(pa.record_batch(rows), options_with(valueFormat="int"))


class FakeProducer:
    """Counts what the pool does with it."""

    def __init__(self) -> None:
        self.inits = 0
        self.closed = False

    def init_transactions(self) -> None:
        self.inits += 1

    def close(self, _timeout: float) -> None:
        self.closed = True


def test_a_producer_is_lent_again_only_for_a_later_batch_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[FakeProducer] = []

    def opened(_options: SinkOptions, _place: BatchPlace) -> Any:
        made.append(FakeProducer())
        return made[-1]

    monkeypatch.setattr(producers, "_opened", opened)
    options = SinkOptions.read({"kafka.bootstrap.servers": "127.0.0.1:1"})
    pool: Any = ProducerPool()

    def use(query: str, run: str, batch: int) -> FakeProducer:
        place = BatchPlace(query, run, batch)
        lent: FakeProducer = pool.lend(options, place)
        pool.give_back(lent, options, place)
        return lent

    first = use("q", "r1", 0)
    assert use("q", "r1", 0) is not first  # Its transaction of this batch waits for the driver.
    assert use("q", "r1", 1) is first
    assert first.inits == 1
    assert use("other", "r1", 2) is not first
    assert not first.closed
    # Another run: what the last one left may be about to be decided, so nothing of it is taken over.
    again = use("q", "r2", 1)
    assert again is not first
    assert first.closed
    assert len(made) == 4

"""Records of a real broker as Arrow columns (C1, C4, C5, C6).

pyarrow, pandas, Polars and DuckDB have no types, or too many: they are `Any` here.
"""

import asyncio
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, get_args

import pytest

import everlog.aio
from everlog import Consumer, Producer, TopicPartition, Woken
from tests.client.conftest import NewTopic
from tests.client.log_reading import committed_offset, read_log
from tests.client.log_writing import Transactions, write

pa: Any = import_module("pyarrow")
import_module("pyarrow.compute")
polars: Any = import_module("polars")
duckdb: Any = import_module("duckdb")

PATIENCE_S = 60.0
NOON = 1_700_000_000_000
Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: tuple[Codec, ...] = get_args(Codec)


def reading(bootstrap: str, **options: Any) -> Consumer:
    return Consumer(bootstrap, auto_offset_reset="earliest", **options)


def polled(consumer: Consumer, rows: int, *, views: bool = False) -> Any:
    """The next rows as one table, at least so many."""
    batches: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while sum(batch.num_rows for batch in batches) < rows:
        assert time.monotonic() < deadline, f"fewer than {rows} rows came in {PATIENCE_S} s"
        batches.append(consumer.poll_arrow(0.5, views=views))
    return pa.Table.from_batches(batches)


def values(table: Any) -> list[bytes]:
    found: list[bytes] = table.column("value").to_pylist()
    return found


def test_c1_columns_hold_all_that_is_in_the_log(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2, retention_ms="-1")
    with Producer(bootstrap) as producer:
        producer.send(topic, b"one", b"a", partition=1, headers=[("x", b"1"), ("ä", None)], timestamp=NOON)
        producer.send(topic, None, None, partition=1, timestamp=NOON + 5)
        producer.send(topic, b"", b"", partition=0, timestamp=NOON - 5)
    with reading(bootstrap) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        table = polled(consumer, 3).sort_by([("partition", "ascending"), ("offset", "ascending")])

    assert [
        (
            row["partition"],
            row["offset"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
            int(row["timestamp"].timestamp() * 1000),
            row["timestamp_type"],
        )
        for row in table.to_pylist()
    ] == read_log(bootstrap, topic)
    assert table.column("topic").to_pylist() == [topic] * 3
    assert all(epoch >= 0 for epoch in table.column("leader_epoch").to_pylist())
    assert table.schema.field("timestamp").type == pa.timestamp("ms", tz="UTC")
    table.validate(full=True)


@pytest.mark.parametrize("codec", CODECS)
def test_c1_batches_of_every_codec_are_read(bootstrap: str, new_topic: NewTopic, codec: Codec) -> None:
    topic = new_topic()
    expected = [b"%05d" % i + b"abc" * (i % 9) for i in range(5_000)]
    write(bootstrap, topic, expected, compression_type=codec)
    with reading(bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        table = polled(consumer, 5_000)

    assert values(table) == expected
    assert table.column("offset").to_pylist() == list(range(5_000))


def test_c1_a_poll_without_records_has_the_schema_and_no_rows(bootstrap: str, new_topic: NewTopic) -> None:
    with reading(bootstrap) as consumer:
        consumer.assign([(new_topic(), 0)])
        batch = consumer.poll_arrow(0.2)

    assert batch.num_rows == 0
    assert batch.schema.names[:4] == ["topic", "partition", "offset", "timestamp"]


def test_c1_what_was_polled_can_be_sent_on(bootstrap: str, new_topic: NewTopic) -> None:
    source, target = new_topic(2, retention_ms="-1"), new_topic(2, retention_ms="-1")
    with Producer(bootstrap) as producer:
        for i in range(100):
            producer.send(source, b"v%d" % i, b"k%d" % i, headers=[("n", b"%d" % i)], timestamp=NOON + i)
        producer.flush()
        with reading(bootstrap) as consumer:
            consumer.assign([(source, 0), (source, 1)])
            producer.send_arrow(target, polled(consumer, 100)).result(PATIENCE_S)

    assert read_log(bootstrap, target) == read_log(bootstrap, source)


@pytest.mark.parametrize("views", [False, True])
def test_c1_columns_are_pandas_polars_and_duckdb_frames(
    bootstrap: str, new_topic: NewTopic, views: bool
) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        frame = polars.DataFrame({"key": ["a", "b", "a"], "value": ["1", "2", "3"]})
        producer.send_arrow(topic, frame).result(PATIENCE_S)
    with reading(bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        table = polled(consumer, 3, views=views)

    assert table.to_pandas()["value"].to_list() == [b"1", b"2", b"3"]
    assert polars.from_arrow(table)["value"].to_list() == [b"1", b"2", b"3"]
    assert table.to_pandas().groupby("key").size().to_dict() == {b"a": 2, b"b": 1}
    counted = polars.from_arrow(table).group_by("key").len().sort("key")
    assert counted.rows() == [(b"a", 2), (b"b", 1)]
    relation = duckdb.from_arrow(table)
    assert relation.aggregate("key, count(*)").order("key").fetchall() == [(b"a", 2), (b"b", 1)]
    assert relation.select("value").fetchall() == [(b"1",), (b"2",), (b"3",)]


def test_c1_views_stay_as_they_were_while_more_is_fetched(bootstrap: str, new_topic: NewTopic) -> None:
    topic, rows = new_topic(), 400
    sent = [b"%05d" % i * 4_000 for i in range(rows)]
    with Producer(bootstrap) as producer:
        producer.send_arrow(topic, pa.table({"value": pa.array(sent, pa.binary())})).result(PATIENCE_S)
    with reading(bootstrap, max_partition_fetch_bytes=2_200_000) as consumer:
        consumer.assign([(topic, 0)])
        found: list[bytes] = []
        kept = consumer.poll_arrow(PATIENCE_S, views=True)
        first = values(kept)
        # Several times as much as is read ahead, into memory that is used again.
        while len(first) + len(found) < rows:
            batch = consumer.poll_arrow(PATIENCE_S, views=True)
            assert batch.num_rows, "no more rows came"
            found += values(batch)

        assert consumer.position((topic, 0)) == rows
    assert first + found == sent
    assert values(kept) == first


def test_c5_poll_and_poll_arrow_take_turns_at_the_same_position(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    write(bootstrap, topic, [b"%d" % i for i in range(20)])
    place = TopicPartition(topic, 0)
    with reading(bootstrap) as consumer:
        consumer.assign([place])
        first: list[Any] = []
        while len(first) < 7:
            first += consumer.poll(0.5, max_records=7 - len(first))
        assert consumer.position(place) == 7
        assert values(polled(consumer, 13)) == [b"%d" % i for i in range(7, 20)]
        assert consumer.position(place) == 20

        consumer.seek(place, 5)
        assert values(polled(consumer, 15)) == [b"%d" % i for i in range(5, 20)]
        consumer.seek(place, 18)
        assert [record.value for record in consumer.poll(PATIENCE_S)] == [b"18", b"19"]
        assert consumer.metrics()["records_polled"] == 7 + 13 + 15 + 2


def test_c5_a_paused_partition_brings_no_rows(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    for partition in range(2):
        write(bootstrap, topic, [b"%d" % partition] * 10, partition=partition)
    with reading(bootstrap) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        consumer.pause((topic, 0))
        assert set(values(polled(consumer, 10))) == {b"1"}
        assert consumer.poll_arrow(0.3).num_rows == 0
        consumer.resume((topic, 0))
        assert values(polled(consumer, 10)) == [b"0"] * 10


def test_c7_seeks_pauses_and_new_assignments_hold_while_columns_are_fetched_ahead(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic, rows = new_topic(2), 1000
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    sent = pa.array([b"%05d" % i * 2_000 for i in range(rows)], pa.binary())
    with Producer(bootstrap) as producer:
        for place in places:
            to = pa.array([place.partition] * rows, pa.int32())
            producer.send_arrow(topic, pa.table({"value": sent, "partition": to})).result(PATIENCE_S)
    with reading(bootstrap) as consumer:
        consumer.assign(places)
        polled(consumer, 1)
        for target in (700, 3, 990, 250):
            consumer.seek(places[0], target)
            at = consumer.position(places[1])
            table = polled(consumer, 1)
            for place, start in zip(places, (target, at), strict=True):
                found = table.filter(pa.compute.field("partition") == place.partition)
                count = found.num_rows
                assert found.column("offset").to_pylist() == list(range(start, start + count))
                assert values(found) == sent[start : start + count].to_pylist()
            assert consumer.metrics()["bytes_buffered"] <= 64 * 1024 * 1024
        consumer.seek(places[0], 400)
        consumer.pause(places[0])
        consumer.seek(places[1], 10)
        assert polled(consumer, rows - 10).column("offset").to_pylist() == list(range(10, rows))
        consumer.resume(places[0])
        assert polled(consumer, rows - 400).column("offset").to_pylist() == list(range(400, rows))

        consumer.seek(places[0], 0)
        consumer.seek(places[1], 600)
        consumer.assign(places[1:])
        assert polled(consumer, rows - 600).column("offset").to_pylist() == list(range(600, rows))


def test_c4_commits_are_behind_what_was_polled(
    bootstrap: str, new_topic: NewTopic, fresh_topic: Callable[[], str]
) -> None:
    topic, group = new_topic(), fresh_topic()
    write(bootstrap, topic, [b"%d" % i for i in range(50)])
    with reading(bootstrap, group_id=group, topics=[topic], enable_auto_commit=False) as consumer:
        polled(consumer, 50)
        consumer.commit()
        assert committed_offset(bootstrap, group, topic, 0) == 50
    write(bootstrap, topic, [b"more"])
    with reading(bootstrap, group_id=group, topics=[topic]) as consumer:
        assert values(polled(consumer, 1)) == [b"more"]
    assert committed_offset(bootstrap, group, topic, 0) == 51, "a consumer that is closed commits"


def test_c6_read_committed_leaves_out_what_was_aborted(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    writer = Transactions(bootstrap, f"tx-{topic}")
    for number in range(6):
        writer.begin(topic, [b"%d" % number] * 2)
        if number % 2:
            writer.abort()
        else:
            writer.commit()
    place = TopicPartition(topic, 0)
    with reading(bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([place])
        table = polled(consumer, 6)
        assert values(table) == [b"0", b"0", b"2", b"2", b"4", b"4"]
        assert table.column("offset").to_pylist() == [0, 1, 6, 7, 12, 13]
        end = consumer.end_offsets(place)[place]
        deadline = time.monotonic() + PATIENCE_S
        while consumer.position(place) < end:
            assert time.monotonic() < deadline
            assert consumer.poll_arrow(0.2).num_rows == 0
    with reading(bootstrap) as consumer:
        consumer.assign([place])
        assert len(values(polled(consumer, 12))) == 12


def test_c1_one_poll_is_bounded_and_the_rest_comes_next(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    # As zeros they are small on the wire and large behind it: 60 MB in all.
    with Producer(bootstrap, compression_type="zstd", buffer_memory=1 << 28) as producer:
        zeros = pa.table({"value": pa.array([bytes(10_000)] * 6_000, pa.binary())})
        producer.send_arrow(topic, zeros).result(PATIENCE_S)
    with reading(bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        sizes: list[int] = []
        rows = 0
        deadline = time.monotonic() + PATIENCE_S
        while rows < 6_000:
            assert time.monotonic() < deadline
            batch = consumer.poll_arrow(1.0)
            assert batch.column("offset").to_pylist() == list(range(rows, rows + batch.num_rows))
            rows += batch.num_rows
            sizes.append(batch.nbytes)
            assert consumer.position((topic, 0)) == rows
    assert max(sizes) < 20 * 1024 * 1024


def test_c1_a_poll_of_columns_can_be_woken(bootstrap: str, new_topic: NewTopic) -> None:
    with reading(bootstrap) as consumer:
        consumer.assign([(new_topic(), 0)])
        consumer.wakeup()
        with pytest.raises(Woken):
            consumer.poll_arrow(PATIENCE_S)


def test_c1_the_asyncio_face_polls_columns_too(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    write(bootstrap, topic, [b"%d" % i for i in range(100)])

    async def run() -> None:
        async with everlog.aio.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([(topic, 0)])
            found: list[bytes] = []
            async with asyncio.timeout(PATIENCE_S):
                while len(found) < 100:
                    found += values(await consumer.poll_arrow(views=len(found) > 0))
                assert found == [b"%d" % i for i in range(100)]
                assert await consumer.position((topic, 0)) == 100
                assert (await consumer.poll_arrow(0.1)).num_rows == 0

    asyncio.run(run())

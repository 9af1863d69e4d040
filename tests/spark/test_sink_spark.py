"""D2: DataFrames and streams of a real Spark written to topics, and what its users read when that fails."""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from everlog import Admin, Consumer, ConsumerRecord, Producer, TopicPartition
from everlog.spark.errors import explain
from everlog.spark.session import LOW_LATENCY, session
from tests.spark.conftest import NewTopic
from tests.spark.told import in_one_line, without_stack

PATIENCE_S = 120.0


def records(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(topic, one.index) for one in consumer.partitions_for(topic)]
        ends = consumer.end_offsets(*places)
        consumer.assign(places)
        found: list[ConsumerRecord] = []
        while any(consumer.position(place) < ends[place] for place in places):
            found += consumer.poll(PATIENCE_S)
        return found


def contents(bootstrap: str, topic: str) -> list[str]:
    return sorted((record.value or b"").decode() for record in records(bootstrap, topic))


def written(frame: Any, bootstrap: str, **options: str) -> Any:
    made = frame.write.format("everlog").mode("append").option("kafka.bootstrap.servers", bootstrap)
    return made.options(**options)


def run_now(frame: Any, bootstrap: str, checkpoint: Path, **options: str) -> None:
    query = (
        frame.writeStream.format("everlog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("checkpointLocation", str(checkpoint))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_frame_is_written_with_all_its_columns(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, guarantee: str
) -> None:
    one, two = new_topic(3), new_topic(1)
    headers = [("colour", b"red")]
    frame = spark.createDataFrame(
        [(b"k1", "a", one, 2, headers), (None, "b", two, None, None), (b"k1", None, one, 2, [])],
        "key binary, value string, topic string, partition int, "
        "headers array<struct<key:string,value:binary>>",
    ).coalesce(1)

    written(frame, everlog_bootstrap, deliveryGuarantee=guarantee).save()

    found = [(record.partition, record.key, record.value) for record in records(everlog_bootstrap, one)]
    assert found == [(2, b"k1", b"a"), (2, b"k1", None)]
    assert list(records(everlog_bootstrap, one)[0].headers) == headers
    assert contents(everlog_bootstrap, two) == ["b"]


def test_a_write_with_a_name_is_done_once_and_one_without_each_time(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    frame = spark.range(100).selectExpr("cast(id AS string) AS value")
    for _ in range(2):
        written(frame, everlog_bootstrap, topic=topic, writeId=f"w-{topic}").save()
    assert len(contents(everlog_bootstrap, topic)) == 100
    nameless = written(frame, everlog_bootstrap, topic=topic)
    for _ in range(2):
        nameless.save()
    assert len(contents(everlog_bootstrap, topic)) == 300


def test_a_write_that_says_no_mode_is_told_which_one(
    spark: Any, everlog_bootstrap: str, tmp_path: Path
) -> None:
    frame = spark.range(1).selectExpr("cast(id AS string) AS value")
    topic = frame.write.format("everlog").option("kafka.bootstrap.servers", everlog_bootstrap)
    table = frame.write.format("everlog_table").option("path", str(tmp_path / "rows"))

    for name, writer in (("everlog", topic.option("topic", "t")), ("everlog_table", table)):
        with pytest.raises(Exception, match="ErrorIfExists") as caught:
            writer.save()
        said = explain(caught.value) or ""
        assert said.startswith(f'the format {name} is only ever appended to: write .mode("append") before')


def counts(spark: Any, bootstrap: str, topic: str) -> Any:
    """How often each value is in a topic, as a stream."""
    reader = spark.readStream.format("everlog").option("kafka.bootstrap.servers", bootstrap)
    frame = reader.options(subscribe=topic, startingOffsets="earliest").load()
    return frame.groupBy("value").count().selectExpr("value AS key", "cast(count AS string) AS value")


def send(bootstrap: str, topic: str, *values: bytes) -> None:
    with Producer(bootstrap) as producer:
        for value in values:
            producer.send(topic, value)


def counted(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return sorted((record.key, record.value) for record in records(bootstrap, topic))


def test_in_complete_mode_each_batch_appends_all_rows(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, sink = new_topic(), new_topic()
    for values in ((b"a", b"b", b"a"), (b"a",)):
        send(everlog_bootstrap, source, *values)
        query = (
            counts(spark, everlog_bootstrap, source)
            .writeStream.format("everlog")
            .outputMode("complete")
            .options(**{"kafka.bootstrap.servers": everlog_bootstrap, "topic": sink})
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)

    assert counted(everlog_bootstrap, sink) == [(b"a", b"2"), (b"a", b"3"), (b"b", b"1"), (b"b", b"1")]


def test_an_aggregate_in_update_mode_is_written_once_by_foreach_batch(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, sink = new_topic(), new_topic()
    numbers: list[int] = []

    def write(batch: Any, number: int) -> None:
        numbers.append(number)
        written(batch, everlog_bootstrap, topic=sink, writeId=sink, batchId=str(number)).save()

    def run() -> None:
        writer = counts(spark, everlog_bootstrap, source).writeStream.outputMode("update")
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        assert writer.foreachBatch(write).start().awaitTermination(PATIENCE_S)

    send(everlog_bootstrap, source, b"a", b"b", b"a")
    run()
    # As a driver leaves it that ends behind the write and before Spark has noted the batch.
    (tmp_path / "commits" / "0").unlink()
    (tmp_path / "commits" / ".0.crc").unlink(missing_ok=True)
    send(everlog_bootstrap, source, b"a")
    run()

    assert numbers == [0, 0, 1]
    assert counted(everlog_bootstrap, sink) == [(b"a", b"2"), (b"a", b"3"), (b"b", b"1")]


@pytest.mark.parametrize(("name", "once"), [("everlog", "writeId"), ("everlog_table", "writer")])
def test_output_mode_update_is_explained_with_what_to_do_instead(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path, name: str, once: str
) -> None:
    where = {"everlog": {"topic": new_topic()}, "everlog_table": {"path": str(tmp_path / "rows")}}
    source = new_topic()
    send(everlog_bootstrap, source, b"a")
    writer = counts(spark, everlog_bootstrap, source).writeStream.format(name).outputMode("update")
    writer = writer.options(**{"kafka.bootstrap.servers": everlog_bootstrap, **where[name]})

    with pytest.raises(StreamingQueryException) as caught:
        writer.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination(PATIENCE_S)

    said = in_one_line(caught.value)
    assert said.startswith("output mode update: Spark has none for a format in Python")
    assert f'.foreachBatch and .format("{name}"), each once by the options {once} and batchId' in said


@pytest.fixture
def turn_to_low_latency(spark: Any) -> Generator[Callable[[], None]]:
    """Gives the session the settings for low latency when it is called; afterwards they are as before."""

    def turn() -> None:
        session(master="local[2]", low_latency=True)

    yield turn
    for key in LOW_LATENCY:
        if spark.conf.isModifiable(key):
            spark.conf.unset(key)
    context = spark.sparkContext
    files = context._jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration())
    files.setWriteChecksum(True)


def test_a_stream_from_topic_to_topic_goes_on_from_its_checkpoint_and_shows_its_lag(
    spark: Any,
    everlog_bootstrap: str,
    new_topic: NewTopic,
    tmp_path: Path,
    turn_to_low_latency: Callable[[], None],
) -> None:
    source, sink = new_topic(2), new_topic(2)
    group, checkpoint = f"g-{sink}", tmp_path / "checkpoint"
    sent: list[str] = []
    for low_latency in (False, True):
        with Producer(everlog_bootstrap) as producer:
            for number in range(60):
                sent.append(f"{low_latency}-{number}")
                producer.send(source, sent[-1].encode(), partition=number % 2)
        if low_latency:
            turn_to_low_latency()
        frame = (
            spark.readStream.format("everlog")
            .option("kafka.bootstrap.servers", everlog_bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 40)
            .option("lowLatency", low_latency)
            .load()
            .selectExpr("key", "value")
        )
        run_now(frame, everlog_bootstrap, checkpoint, topic=sink, commitGroup=group)
        assert contents(everlog_bootstrap, sink) == sorted(sent)
    # Two batches of each kind. A file beside each of the checkpoint's costs a process; there is none now.
    assert sorted(path.name for path in (checkpoint / "offsets").glob("[0-9]*")) == ["0", "1", "2", "3"]
    assert {path.name for path in (checkpoint / "offsets").glob("*.crc")} == {".0.crc", ".1.crc"}
    with Admin(everlog_bootstrap) as admin:
        assert [entry.lag for entry in admin.group_lag(group)] == [0, 0]
        assert [
            one for one in admin.list_transactions(states=["Ongoing"]) if "spark" in one.transactional_id
        ] == []


def test_a_group_hears_of_a_stream_whose_checkpoint_names_its_sources(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, sink = new_topic(), new_topic()
    with Producer(everlog_bootstrap) as producer:
        for number in range(7):
            producer.send(source, b"%d" % number)
    spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
    try:
        reader = spark.readStream.format("everlog").option("kafka.bootstrap.servers", everlog_bootstrap)
        frame = reader.options(subscribe=source, startingOffsets="earliest").load().select("value")
        run_now(frame, everlog_bootstrap, tmp_path / "check", topic=sink, commitGroup=f"g-{sink}")
    finally:
        spark.conf.unset("spark.sql.streaming.offsetLog.formatVersion")

    assert (tmp_path / "check" / "offsets" / "0").read_text().startswith("v2")
    with Admin(everlog_bootstrap) as admin:
        assert [entry.lag for entry in admin.group_lag(f"g-{sink}")] == [0]


def test_a_stream_at_least_once_writes_an_unfinished_batch_again_and_its_group_goes_on(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, sink = new_topic(2), new_topic(2)
    group, checkpoint = f"g-{sink}", tmp_path / "checkpoint"
    options = {"topic": sink, "commitGroup": group, "deliveryGuarantee": "at_least_once"}

    def send(numbers: range) -> None:
        with Producer(everlog_bootstrap) as producer:
            for number in numbers:
                producer.send(source, b"%03d" % number, partition=number % 2)

    def run() -> None:
        reader = spark.readStream.format("everlog").option("kafka.bootstrap.servers", everlog_bootstrap)
        reader.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="40")
        run_now(reader.load().select("value"), everlog_bootstrap, checkpoint, **options)

    def at() -> list[int | None]:
        with Admin(everlog_bootstrap) as admin:
            found = admin.list_group_offsets(group)
        return [entry.offset for _, entry in sorted(found.items())]

    send(range(60))
    run()
    assert contents(everlog_bootstrap, sink) == [f"{number:03}" for number in range(60)]
    assert at() == [30, 30]

    # As a driver leaves it that ends behind the sink's commit of batch 1 and before Spark has noted it.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    send(range(60, 70))
    run()

    # Batch 0 had 20 of each partition; batch 1, the rest, is there twice, and what came later once.
    assert contents(everlog_bootstrap, sink) == sorted(
        f"{number:03}" for number in [*range(60), *range(40, 60), *range(60, 70)]
    )
    assert at() == [35, 35]
    with Admin(everlog_bootstrap) as admin:
        assert [entry.lag for entry in admin.group_lag(group)] == [0, 0]


def failure(action: Any) -> str:
    with pytest.raises(Exception) as caught:  # Spark has a type of its own for each way
        action()
    return without_stack(caught.value)


def test_what_a_user_gets_wrong_is_told_in_one_line(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    frame = spark.range(1).selectExpr("cast(id AS string) AS value")
    topic = new_topic()
    cases: Sequence[tuple[Any, str]] = [
        (written(frame, everlog_bootstrap), "expected the option topic or a column 'topic'"),
        (
            written(frame.selectExpr("1 AS value"), everlog_bootstrap, topic=topic),
            "column 'value' is of type int: expected string or binary",
        ),
        (
            written(frame, everlog_bootstrap, topic=topic).mode("overwrite"),
            "mode overwrite: a topic is only ever appended to",
        ),
        (
            written(frame, everlog_bootstrap, topic=topic, deliveryGuarantee="never"),
            "option deliveryGuarantee='never': expected exactly_once or at_least_once",
        ),
        (
            written(frame, everlog_bootstrap, topic=topic, commitGroup="g"),
            "option commitGroup='g': expected a streaming query",
        ),
        (written(frame, "127.0.0.1:9", topic=topic), "127.0.0.1:9"),
    ]
    for writer, says in cases:
        assert says in failure(writer.save)

"""Streaming reads through Spark: from checkpoint to checkpoint, as topics grow."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

import everlog
from tests.spark.conftest import NewTopic
from tests.spark.patience import patiently
from tests.spark.source_reads import at, delete, send
from tests.spark.told import first_line_of_a_stream, in_one_line, without_stack

STREAM_FAILED = (
    r"\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: \[PYTHON_\w+\] [\w ]+: everlog[\w.]+: (.+)"
)
NUMBERS = [b"%d" % number for number in range(100)]


def a_stream(spark: Any, bootstrap: str, topic: str, **options: str) -> Any:
    return (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .options(**options)
        .load()
    )


def run(frame: Any, folder: Path) -> Any:
    """Read what is available now into files, and return the query that has ended."""

    def attempt() -> Any:
        writer = frame.selectExpr("CAST(value AS STRING)").writeStream.format("text")
        query = (
            writer.option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder / "out"))
        )
        assert query.awaitTermination(240), "the query did not end"
        return query

    return patiently(attempt)


def lines(spark: Any, folder: Path) -> list[int]:
    return sorted(int(row.value) for row in spark.read.text(str(folder / "out")).collect())


def test_runs_read_each_record_once_in_limited_batches_while_partitions_are_added(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS)
    options = {"maxOffsetsPerTrigger": "40", "minPartitions": "2", "commitGroup": f"g-{topic}"}

    query = run(a_stream(spark, everlog_bootstrap, topic, **options), tmp_path)

    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [
        40,
        40,
        20,
    ]
    # Two tasks a batch, of one partition: each writes a file.
    assert len(spark.read.text(str(tmp_path / "out")).inputFiles()) == 6
    source = query.recentProgress[0].sources[0]
    # The lag is to be seen in the progress.
    assert json.loads(source.endOffset) == {topic: {"0": 40}}
    assert json.loads(source.latestOffset) == {topic: {"0": 100}}
    with everlog.Admin(everlog_bootstrap) as admin:
        # One batch late, as Spark tells the source when it plans the next one.
        assert admin.list_group_offsets(f"g-{topic}")[at(topic)].offset == 80
        admin.create_partitions({topic: 2})
        admin.wait_for_topics([topic])
    send(everlog_bootstrap, topic, [b"100", b"101"], partition=1)
    send(everlog_bootstrap, topic, [b"102"])
    files = len(list((tmp_path / "out").glob("part-*")))

    query = run(a_stream(spark, everlog_bootstrap, topic, lowLatency="true"), tmp_path)

    assert lines(spark, tmp_path) == list(range(103))
    # Such a query tells its lag as well.
    assert json.loads(query.recentProgress[0].sources[0].latestOffset) == {topic: {"0": 101, "1": 2}}
    # With the option for low latency what little there is of both partitions is one task.
    assert len(list((tmp_path / "out").glob("part-*"))) == files + 1
    newest = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(newest.read_text().splitlines()[-1]) == {topic: {"0": 101, "1": 2}}


def test_a_running_query_goes_on_with_what_comes_and_fails_with_one_line_when_records_are_lost(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    name = topic.replace("-", "_")
    frame = a_stream(spark, everlog_bootstrap, topic, startingOffsets="latest")

    def attempt() -> Any:
        started = frame.writeStream.format("memory").queryName(name).start()
        started.processAllAvailable()
        return started

    query = patiently(attempt)
    try:
        with everlog.Producer(everlog_bootstrap, transactional_id=f"tx-{topic}") as producer:
            producer.init_transactions()
            with producer.transaction():
                for value in NUMBERS[:5]:
                    producer.send(topic, value, partition=0)
            producer.begin_transaction()
            producer.send(topic, b"aborted", partition=0)
            producer.flush(timeout=60)
            query.processAllAvailable()
            producer.abort_transaction()
        query.processAllAvailable()
        assert spark.table(name).count() == 5

        delete(everlog_bootstrap, topic)
        with pytest.raises(Exception, match="do not exist any more") as caught:
            query.processAllAvailable()
        without_stack(caught.value)
    finally:
        query.stop()


def test_a_running_query_takes_in_what_is_made_while_a_table_beside_it_stays_as_it_was_loaded(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, fresh_topic: Callable[[], str]
) -> None:
    family, table = fresh_topic(), new_topic()
    first, second = f"{family}-1", f"{family}-2"
    with everlog.Admin(everlog_bootstrap) as admin:
        admin.create_topic(first, 1)
    send(everlog_bootstrap, first, [b"a"])
    send(everlog_bootstrap, table, [b"x"])

    def count() -> Any:
        reading = spark.read.format("everlog").option("kafka.bootstrap.servers", everlog_bootstrap)
        return reading.option("subscribe", table).load().groupBy().count()

    frame = (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", everlog_bootstrap)
        .option("subscribePattern", f"{family}-[0-9]")
        .option("startingOffsets", "earliest")
        .load()
        .crossJoin(count().withColumnRenamed("count", "loaded"))
    )
    seen: list[tuple[Any, ...]] = []

    def take(batch: Any, _number: int) -> None:
        now = count().first()[0]
        rows = batch.selectExpr("topic", "partition", "decode(value, 'utf-8') AS value", "loaded").collect()
        seen.extend((*row, now) for row in rows)

    query = patiently(lambda: frame.writeStream.foreachBatch(take).start())
    try:
        query.processAllAvailable()
        send(everlog_bootstrap, table, [b"y"])
        with everlog.Admin(everlog_bootstrap) as admin:
            admin.create_partitions({first: 2})
            admin.create_topic(second, 1)
            admin.wait_for_topics([first, second])
        send(everlog_bootstrap, first, [b"b"], partition=1)
        send(everlog_bootstrap, second, [b"c"])
        query.processAllAvailable()
    finally:
        query.stop()

    # What was loaded once stays as it was; what is loaded for a batch is as it is then.
    assert seen[0] == (first, 0, "a", 1, 1)
    assert sorted(seen[1:]) == [(first, 1, "b", 1, 2), (second, 0, "c", 1, 2)]


def test_a_query_that_minds_no_loss_goes_on_with_a_topic_that_was_made_anew(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """The offset of its next batch lies before that of the last one."""
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS[:10])
    run(a_stream(spark, everlog_bootstrap, topic), tmp_path)
    delete(everlog_bootstrap, topic)
    with everlog.Admin(everlog_bootstrap) as admin:
        admin.create_topics([everlog.NewTopic(topic, 1)])
    send(everlog_bootstrap, topic, NUMBERS[10:14])

    with pytest.raises(StreamingQueryException, match=f"{topic}-0 ends at 4, expected 10 or more"):
        run(a_stream(spark, everlog_bootstrap, topic), tmp_path)
    careless = {"failOnDataLoss": "false"}
    query = run(a_stream(spark, everlog_bootstrap, topic, **careless), tmp_path)
    assert json.loads(query.recentProgress[-1].sources[0].endOffset) == {topic: {"0": 4}}
    assert lines(spark, tmp_path) == list(range(14))
    send(everlog_bootstrap, topic, NUMBERS[14:20])
    run(a_stream(spark, everlog_bootstrap, topic, maxOffsetsPerTrigger="4", **careless), tmp_path)

    assert lines(spark, tmp_path) == list(range(20))


def test_assigned_partitions_are_read_from_where_a_group_is_so_many_bytes_at_a_time(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    for partition in (0, 1):
        numbers = range(10 * partition, 10 * partition + 10)
        # Key and value have 400 bytes each.
        send(everlog_bootstrap, topic, [b"%0400d" % number for number in numbers], partition=partition)
    with everlog.Admin(everlog_bootstrap) as admin:
        admin.alter_group_offsets(f"g-{topic}", {at(topic, 1): 4})
    options = {
        "assign": json.dumps({topic: [1]}),
        "startingOffsets": f"group:g-{topic}",
        "maxBytesPerTrigger": "2000",
    }
    frame = (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", everlog_bootstrap)
        .options(**options)
        .load()
    )

    query = run(frame, tmp_path)

    assert lines(spark, tmp_path) == list(range(14, 20))
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [2, 2, 2]


def test_a_batch_waits_until_there_is_enough_or_the_delay_is_over(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    def batches(delay: str, *counts: int) -> list[int]:
        """How many rows the batches had that were made of so many records at a time."""
        topic = new_topic()
        name = topic.replace("-", "_")
        limits = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": delay}
        frame = a_stream(spark, everlog_bootstrap, topic, **limits)

        def attempt() -> Any:
            started = frame.writeStream.format("memory").queryName(name).start()
            started.processAllAvailable()
            return started

        query = patiently(attempt)
        try:
            for count in counts:
                send(everlog_bootstrap, topic, NUMBERS[:count])
                query.processAllAvailable()  # It returns when the source has nothing for a batch.
            deadline = time.monotonic() + 60
            while spark.table(name).count() < sum(counts):
                assert time.monotonic() < deadline, query.recentProgress
                query.processAllAvailable()
            return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
        finally:
            query.stop()

    assert batches("1h", 4, 5, 1, 12) == [10, 12]
    assert batches("3s", 9) == [9]


def test_mistakes_of_a_stream_are_told_in_the_first_line_of_what_spark_raises(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS[:3])
    with everlog.Admin(everlog_bootstrap) as admin:
        admin.delete_records({everlog.TopicPartition(topic, 0): 2})
    nobody = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "500"}
    silent = "no broker answered at 127.0.0.1:1 within 0.5 s"
    cases: list[tuple[dict[str, str], dict[str, str], str]] = [
        (nobody, {}, silent),
        ({"subscribe": "nowhere"}, {}, "there is no topic 'nowhere' at"),
        ({"assign": json.dumps({topic: [0, 7]})}, {}, f"option assign: there is no partition {topic}-7"),
        (
            {"startingOffsets": json.dumps({topic: {"0": 0}})},
            {},
            f"offsets 0 to 1 of {topic}-0 were deleted before they could be read: the log starts at 2",
        ),
        (
            {"valueFormat": "json", "valueSchema": "a INT", "mode": "failfast"},
            {},
            f"the value of {topic}-0 at",
        ),
        ({}, nobody, "broker 127.0.0.1:1 cannot be reached: refused the connection"),
        (
            {},
            {"topic": "nowhere", "kafka.allow.auto.create.topics": "false"},
            "topic 'nowhere': UNKNOWN_TOPIC",
        ),
    ]
    for number, (reading, writing, says) in enumerate(cases):
        folder = tmp_path / str(number)
        query, error = failure_of_a_stream(spark, everlog_bootstrap, topic, folder, reading, writing)
        first = first_line_of_a_stream(error)
        # Nothing but the words that Spark puts before what a format raises, its type and its message.
        message = re.fullmatch(STREAM_FAILED, first)
        assert message is not None, first
        assert says in message[1]
        # `query.exception()` has the same, without Spark's first words.
        told = query.exception()
        assert told is not None
        assert first.endswith(first_line_of_a_stream(told))
        assert in_one_line(error) == in_one_line(told) == message[1]

    # This one is told by `load()`, before there is a query.
    with pytest.raises(Exception, match="BIGINTT") as caught:
        a_stream(spark, everlog_bootstrap, topic, valueFormat="json", valueSchema="id BIGINTT")
    assert "did you mean BIGINT?" in without_stack(caught.value)


def failure_of_a_stream(
    spark: Any, bootstrap: str, topic: str, folder: Path, reading: dict[str, str], writing: dict[str, str]
) -> tuple[Any, BaseException]:
    """A stream from topic to topic that fails, and what `awaitTermination` raises then."""
    started: list[Any] = []

    def attempt() -> None:
        chosen = {"subscribe": topic} if "assign" not in reading else {}
        frame = (
            spark.readStream.format("everlog")
            .option("kafka.bootstrap.servers", bootstrap)
            .options(**{**chosen, "startingOffsets": "earliest", **reading})
            .load()
            .selectExpr("'x' AS value")
        )
        options = {"kafka.bootstrap.servers": bootstrap, "topic": f"{topic}-copy", **writing}
        writer = frame.writeStream.format("everlog").options(**options)
        checkpoint = str(folder / str(len(started)))
        started.append(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
        assert started[-1].awaitTermination(240), "the query did not end"

    with pytest.raises(StreamingQueryException) as caught:
        patiently(attempt)
    return started[-1], caught.value


def test_a_mistake_in_a_function_for_each_batch_is_explained_though_spark_shows_that_function_s_stack(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS[:1])

    def copy(batch: Any, _number: int) -> None:
        writer = batch.selectExpr("1 AS value").write.format("everlog").mode("append")
        writer.options(**{"kafka.bootstrap.servers": everlog_bootstrap, "topic": topic}).save()

    frame = a_stream(spark, everlog_bootstrap, topic)

    def attempt() -> None:
        query = frame.writeStream.foreachBatch(copy).trigger(availableNow=True).start()
        assert query.awaitTermination(240), "the query did not end"

    with pytest.raises(StreamingQueryException) as caught:
        patiently(attempt)
    assert in_one_line(caught.value) == "column 'value' is of type int: expected string or binary"


def test_a_checkpoint_on_s3a_without_its_jar_is_explained(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    frame = a_stream(spark, everlog_bootstrap, new_topic()).select("value")
    writer = frame.writeStream.format("everlog").option("kafka.bootstrap.servers", everlog_bootstrap)
    writer.options(topic="copies", checkpointLocation="s3a://lake/copies")

    with pytest.raises(Exception) as caught:  # Py4J's, as Spark has no type for it
        writer.start()

    said = in_one_line(caught.value)
    assert said.startswith("Spark has no file system for s3a://")
    assert "set spark.jars.packages to org.apache.hadoop:hadoop-aws" in said

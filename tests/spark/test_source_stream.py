"""Streaming reads through Spark: from checkpoint to checkpoint, as topics grow."""

import json
from pathlib import Path
from typing import Any

import pytest

import everlog
from tests.spark.conftest import NewTopic
from tests.spark.patience import patiently
from tests.spark.source_reads import at, delete, send

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

    run(a_stream(spark, everlog_bootstrap, topic, lowLatency="true"), tmp_path)

    assert lines(spark, tmp_path) == list(range(103))
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
        assert "Traceback" not in str(caught.value)
    finally:
        query.stop()

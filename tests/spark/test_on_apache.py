"""D2: source, sink and tables on Apache Kafka: the same promises, without two-phase commit by time-outs."""

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from everlog import Admin, NewTopic, Producer, TopicPartition
from everlog.spark.sink.driver import commit_write
from everlog.spark.sink.producers import BatchPlace
from everlog.spark.sink.task import write_rows
from everlog.tables.declared import declared_table
from everlog.tables.table import open_table
from tests.e2e.program import everlog
from tests.spark.sink_query import Query, committed_values, pa, wait_for

# All of them on the worker that has Spark, so that one broker does for all.
pytestmark = pytest.mark.xdist_group("spark")

PATIENCE_S = 120.0


@pytest.fixture
def query(apache_bootstrap: str, fresh_topic: Callable[[], str]) -> Generator[Query]:
    """A query that writes to a topic of its own."""
    topic = fresh_topic()
    with Admin(apache_bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 2)])
    made = Query(apache_bootstrap, topic)
    yield made
    made.decider.close()


def test_a_batch_counts_once_though_drivers_die_before_and_after_they_decide(query: Query) -> None:
    query.commit(0, [query.task(0, "a"), query.task(0, "b")])
    query.commit_up_to("FindOpen", 1, [query.task(1, "c")])
    query.restart()
    query.commit_up_to("Decide", 1, [query.task(1, "c")])
    query.restart()
    # Kafka answers a commit before its markers are written, and tasks do not wait for a decision under way.
    wait_for(lambda: query.decided() == 1)
    again = query.task(1, "c")
    assert again.skipped
    query.commit(1, [again])
    query.commit(2, [query.task(2, "d")])

    wait_for(lambda: query.seen() == ["a", "b", "c", "d"])
    assert query.open_transactions() == []


def test_attempts_that_do_not_count_are_aborted_and_their_tasks_shut_out(query: Query) -> None:
    query.task(0, "a")
    query.commit(0, [query.task(0, "a")])

    wait_for(lambda: query.seen() == ["a"])
    assert query.open_transactions() == []


def test_an_attempt_at_a_write_without_a_name_leaves_nothing_open_when_another_has_won(query: Query) -> None:
    place = BatchPlace(query.id, query.run, 0, named=False)
    rows = pa.record_batch({"value": pa.array(["a"])})
    won = write_rows(query.options, place, ["value"], [rows])
    assert won.transaction is not None
    commit_write(query.options, [won])

    late = write_rows(query.options, place, ["value"], [rows])

    assert late.skipped
    wait_for(lambda: query.open_transactions() == [])
    wait_for(lambda: query.seen() == ["a"])


def send(bootstrap: str, topic: str, first: int, last: int) -> list[str]:
    """Orders in two transactions: one that is committed, and one with nothing but noise that is not."""
    values = [json.dumps({"id": number}) for number in range(first, last)]
    with Producer(bootstrap, transactional_id=f"feed-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number, value in enumerate(values):
            producer.send(topic, value.encode(), str(number).encode(), partition=number % 2)
        producer.commit_transaction()
        producer.begin_transaction()
        for partition in (0, 1):
            producer.send(topic, b"noise", partition=partition)
        producer.flush()  # What is aborted before it was sent is not in the log at all.
        producer.abort_transaction()
    return values


def test_spark_reads_and_writes_each_record_of_kafka_once_and_shows_its_lag(
    spark: Any, apache_bootstrap: str, fresh_topic: Callable[[], str], tmp_path: Path
) -> None:
    source, sink = fresh_topic(), fresh_topic()
    with Admin(apache_bootstrap) as admin:
        admin.create_topics([NewTopic(source, 2), NewTopic(sink, 2)])
    sent: list[str] = []
    for first in (0, 60):
        sent += send(apache_bootstrap, source, first, first + 60)
        reading = {
            "kafka.bootstrap.servers": apache_bootstrap,
            "subscribe": source,
            "startingOffsets": "earliest",
        }
        batch = spark.read.format("everlog").options(**reading).load()
        rows = batch.selectExpr("cast(value AS string) AS value").collect()
        assert sorted(row["value"] for row in rows) == sorted(sent)

        stream = spark.readStream.format("everlog").options(**reading, maxOffsetsPerTrigger="40").load()
        query = (
            stream.selectExpr("key", "value")
            .writeStream.format("everlog")
            .option("kafka.bootstrap.servers", apache_bootstrap)
            .option("topic", sink)
            .option("commitGroup", f"g-{sink}")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)
        # Kafka answers a commit before its markers are written.
        wait_for(lambda: len(committed_values(apache_bootstrap, sink)) >= first + 60)  # noqa: B023  called at once
        assert committed_values(apache_bootstrap, sink) == sorted(sent)
    with Admin(apache_bootstrap) as admin:
        assert [entry.lag for entry in admin.group_lag(f"g-{sink}")] == [0, 0]
    wait_for(lambda: open_transactions(apache_bootstrap) == [])


def open_transactions(bootstrap: str) -> list[str]:
    with Admin(bootstrap) as admin:
        found = admin.list_transactions(states=["Ongoing"])
    return [one.transactional_id for one in found if "spark" in one.transactional_id]


def test_a_table_takes_in_a_topic_of_kafka(
    apache_bootstrap: str, fresh_topic: Callable[[], str], tmp_path: Path
) -> None:
    topic = fresh_topic()
    with Admin(apache_bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 2)])
    declared = ("table", "declare", topic, "--topic", topic, "--schema", "id long")
    ran = everlog(*declared, "--location", str(tmp_path / topic), bootstrap=apache_bootstrap)
    assert ran.code == 0, ran.err
    for first in (0, 10):
        send(apache_bootstrap, topic, first, first + 10)
        ran = everlog("table", "run", topic, "--once", "--json", bootstrap=apache_bootstrap)
        assert ran.code == 0, ran.err
        assert (ran.json["rows"], ran.json["lag"]) == (10, 0)
    table = open_table(declared_table(apache_bootstrap, topic), create=False)
    assert sorted(table.read(["id"])["id"].to_pylist()) == list(range(20))
    assert set(table.offsets()) == {TopicPartition(topic, index) for index in (0, 1)}

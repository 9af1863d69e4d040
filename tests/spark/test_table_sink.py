"""The format `everlog_table` on a real Spark: topics into tables, rows into tables, tables read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.model.topics import TopicPartition
from everlog.tables.declared import declare, declared_table
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table
from tests.spark.told import without_stack

NewTopic = Callable[..., str]


def send(bootstrap: str, topic: str, *values: bytes | None, key: bytes | None = None) -> None:
    with everlog.Producer(bootstrap) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, key, partition=number % 2 if key is None else 0)
        producer.flush()


def run_stream(spark: Any, bootstrap: str, topic: str, checkpoint: Path, **options: str) -> None:
    """Bring all that is in a topic into a table."""
    query = (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.format("everlog_table")
        .options(**{"kafka.bootstrap.servers": bootstrap, **options})
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def read_values(bootstrap: str, topic: str, count: int) -> list[everlog.ConsumerRecord]:
    found: list[everlog.ConsumerRecord] = []
    with everlog.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        while len(found) < count:
            found += consumer.poll(60)
    return found


@pytest.mark.parametrize("table_format", ["parquet", "iceberg", "delta"])
def test_a_topic_becomes_a_declared_table_with_its_offsets_and_dead_letters(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path, table_format: str
) -> None:
    topic = new_topic(partitions=2)
    name = f"{topic}-table"
    spec = TableSpec.load(
        {
            "name": name,
            "topic": topic,
            "location": str(tmp_path / "lake" / name),
            "format": table_format,
            "schema": "id long, item string",
            "dead_letter_topic": f"{topic}.dlq",
        }
    )
    declare(everlog_bootstrap, spec)
    send(everlog_bootstrap, topic, *(json.dumps({"id": n, "item": f"i{n}"}).encode() for n in range(9)))
    send(everlog_bootstrap, topic, b"not JSON")

    run_stream(spark, everlog_bootstrap, topic, tmp_path / "checkpoint", table=name)

    table = open_table(declared_table(everlog_bootstrap, name), create=False)
    rows = table.read(["id", "item", "_topic", "_partition", "_offset"]).to_pylist()
    assert sorted((row["id"], row["item"]) for row in rows) == [(n, f"i{n}") for n in range(9)]
    assert {(row["id"], row["_topic"], row["_partition"], row["_offset"]) for row in rows} == {
        (n, topic, n % 2, n // 2) for n in range(9)
    }
    ends = {TopicPartition(topic, 0): 6, TopicPartition(topic, 1): 4}
    assert table.offsets() == ends
    (batch,) = [commit for commit in table.history() if commit.operation == "batch"]
    assert batch.batch_id == 0
    (letter,) = read_values(everlog_bootstrap, f"{topic}.dlq", 1)
    assert letter.value == b"not JSON"
    assert dict(letter.headers)["dead-letter.offset"] == b"5"
    with everlog.Admin(everlog_bootstrap) as admin:
        shown = admin.list_group_offsets(f"everlog-table.{name}")
    assert {place: entry.offset for place, entry in shown.items()} == ends


def test_a_query_goes_on_where_it_was_and_a_new_one_adds_nothing_twice(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(partitions=2)
    options = {"path": str(tmp_path / "lake" / "rows"), "valueFormat": "json", "valueSchema": "id long"}
    send(everlog_bootstrap, topic, b'{"id": 0}', b'{"id": 1}')
    run_stream(spark, everlog_bootstrap, topic, tmp_path / "checkpoint", **options)
    send(everlog_bootstrap, topic, b'{"id": 2}')

    run_stream(spark, everlog_bootstrap, topic, tmp_path / "checkpoint", **options)
    run_stream(spark, everlog_bootstrap, topic, tmp_path / "another-checkpoint", **options)

    table = open_table(TableSpec(name="rows", topic="rows", location=options["path"]), create=False)
    assert sorted(table.read(["id"])["id"].to_pylist()) == [0, 1, 2]
    batches = [commit for commit in table.history() if commit.operation == "batch"]
    first, second, other = (commit.writer for commit in batches)
    assert first == second != other
    assert [commit.batch_id for commit in batches] == [0, 1, 0]


def test_two_sources_of_one_topic_in_one_query_bring_all_their_rows(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, *(b'{"id": %d}' % number for number in range(12)), key=b"k")
    path = str(tmp_path / "lake" / "both")

    def part(name: str, **options: str) -> Any:
        reader = spark.readStream.format("everlog").option("kafka.bootstrap.servers", everlog_bootstrap)
        frame = reader.options(subscribe=topic, startingOffsets="earliest", **options).load()
        return frame.selectExpr(
            f"'{name}' AS part", "topic AS _topic", "partition AS _partition", "offset AS _offset"
        )

    query = (
        part("slow", maxOffsetsPerTrigger="5")
        .union(part("quick", maxOffsetsPerTrigger="8"))
        .writeStream.format("everlog_table")
        .options(path=path, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    table = open_table(TableSpec(name="both", topic="both", location=path), create=False)
    rows = table.read(["part", "_offset"]).to_pylist()
    assert sorted((row["part"], row["_offset"]) for row in rows) == [
        (name, offset) for name in ("quick", "slow") for offset in range(12)
    ]
    assert table.offsets() == {TopicPartition(topic, 0): 12}


def test_a_compacted_topic_becomes_its_current_state(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    options = {
        "path": str(tmp_path / "lake" / "state"),
        "tableFormat": "delta",
        "mode": "upsert",
        "valueFormat": "json",
        "valueSchema": "name string, total long",
    }
    send(everlog_bootstrap, topic, b'{"name": "a", "total": 1}', b'{"name": "a", "total": 2}', key=b"a")
    send(everlog_bootstrap, topic, b'{"name": "b", "total": 5}', key=b"b")
    run_stream(spark, everlog_bootstrap, topic, tmp_path / "checkpoint", **options)
    send(everlog_bootstrap, topic, b'{"name": "a", "total": 3}', key=b"a")
    send(everlog_bootstrap, topic, None, key=b"b")
    run_stream(spark, everlog_bootstrap, topic, tmp_path / "checkpoint", **options)

    reading = spark.read.format("everlog_table").option("tableFormat", "delta").load(options["path"])
    assert [(row["name"], row["total"]) for row in reading.collect()] == [("a", 3)]


def test_rows_of_a_batch_query_go_into_a_table_and_on_into_a_topic(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    path = str(tmp_path / "lake" / "squares")
    rows = spark.range(20).selectExpr("id", "id * id as square", "array(id) as many", "id % 2 as odd")
    for _ in range(2):
        # Once, by the number that it has.
        writing = rows.write.format("everlog_table").mode("append").option("tableFormat", "iceberg")
        writing.option("partitionBy", "odd").option("writer", "squares").option("batchId", "7").save(path)

    table = spark.read.format("everlog_table").option("tableFormat", "iceberg").load(path)
    assert sorted((row.id, row.square, row.many, row.odd) for row in table.collect()) == [
        (n, n * n, [n], n % 2) for n in range(20)
    ]
    (
        table.filter("odd = 1")
        .selectExpr("cast(id as string) as key", "to_json(struct(id, square)) as value")
        .write.format("everlog")
        .option("kafka.bootstrap.servers", everlog_bootstrap)
        .option("topic", topic)
        .mode("append")
        .save()
    )
    found = [json.loads(record.value) for record in read_values(everlog_bootstrap, topic, 10)]
    assert sorted(row["square"] for row in found) == [n * n for n in range(1, 20, 2)]


def test_an_aggregate_in_update_mode_is_kept_as_its_current_state_by_foreach_batch(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, path, checkpoint = new_topic(), str(tmp_path / "totals"), tmp_path / "checkpoint"
    numbers: list[int] = []

    def keep(batch: Any, number: int) -> None:
        numbers.append(number)
        writer = batch.write.format("everlog_table").mode("append").options(mode="upsert", keys="item")
        writer.options(writer="totals", batchId=number).save(path)

    def run() -> None:
        reader = spark.readStream.format("everlog").option("kafka.bootstrap.servers", everlog_bootstrap)
        frame = reader.options(subscribe=topic, startingOffsets="earliest").load()
        totals = frame.selectExpr("cast(value AS string) AS item").groupBy("item").count()
        writer = totals.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
        writer.foreachBatch(keep).trigger(availableNow=True).start().awaitTermination()

    send(everlog_bootstrap, topic, b"tea", b"rice", b"tea", key=b"k")
    run()
    # As a driver leaves it that ends behind the table's commit and before Spark has noted the batch.
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    send(everlog_bootstrap, topic, b"tea", key=b"k")
    run()

    table = open_table(TableSpec(name="totals", topic="totals", location=path), create=False)
    rows = table.read(["item", "count"]).to_pylist()
    assert sorted((row["item"], row["count"]) for row in rows) == [("rice", 1), ("tea", 3)]
    assert numbers == [0, 0, 1]
    assert [commit.batch_id for commit in table.history() if commit.operation == "batch"] == [0, 1]


def test_what_will_not_do_is_told_in_one_line(spark: Any, everlog_bootstrap: str, tmp_path: Path) -> None:
    rows = spark.range(3)

    def said(write: Callable[[], object]) -> str:
        with pytest.raises(Exception) as caught:
            write()
        return without_stack(caught.value)

    missing = spark.read.format("everlog_table").option("tableFormat", "delta")
    assert "NoSuchTable: table nowhere" in said(lambda: missing.load(str(tmp_path / "nowhere")).count())
    unknown = rows.write.format("everlog_table").mode("append").option("table", "nobody")
    told = said(lambda: unknown.option("kafka.bootstrap.servers", everlog_bootstrap).save())
    assert "table nobody is not declared" in told
    kind = rows.write.format("everlog_table").mode("append").option("tableFormat", "orc")
    assert "tableFormat='orc': expected one of parquet, iceberg, delta" in said(lambda: kind.save("/tmp/t"))
    overwrite = rows.write.format("everlog_table").mode("overwrite")
    assert "expected mode append" in said(lambda: overwrite.save(str(tmp_path / "t")))
    other = rows.write.format("everlog_table").mode("append").option("schema", "total long")
    assert "column 'id' is not in table t" in said(lambda: other.save(str(tmp_path / "t")))

"""Batch reads through Spark: columns, splits, filters, typed values, and what users see of errors."""

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.spark.source.record_schema import NEVER_NULL
from tests.spark.conftest import NewTopic
from tests.spark.source_reads import send
from tests.spark.told import without_stack
from tests.unit.values.test_protobuf import SET

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def a_read(spark: Any, bootstrap: str, topic: str, **options: str) -> Any:
    """A reader of one topic; `load` makes the frame."""
    return (
        spark.read.format("everlog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .options(**options)
    )


@contextmanager
def conf(spark: Any, name: str, value: str) -> Generator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def test_columns_and_rows_are_those_of_the_other_connector(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2, retention_ms="-1")
    with everlog.Producer(everlog_bootstrap) as producer:
        producer.send(topic, b"v", key=b"k", partition=1, timestamp=1_700_000_000_123, headers=[("h", b"x")])
        producer.send(topic, None, partition=0, timestamp=1_700_000_000_124)
        producer.flush(timeout=60)

    frame = a_read(spark, everlog_bootstrap, topic, includeHeaders="true").load()

    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert {field.name for field in frame.schema if not field.nullable} == NEVER_NULL
    rows = (
        frame.selectExpr("*", "unix_millis(timestamp) AS ms").drop("timestamp").orderBy("partition").collect()
    )
    assert [tuple(row) for row in rows] == [
        (None, None, topic, 0, 0, 0, None, 1_700_000_000_124),
        (b"k", b"v", topic, 1, 0, 0, [("h", b"x")], 1_700_000_000_123),
    ]


def test_large_partitions_are_split_and_nothing_is_read_twice(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    send(everlog_bootstrap, topic, (b"%d" % number for number in range(1000)))
    send(everlog_bootstrap, topic, (b"%d" % number for number in range(1000, 1010)), partition=1)

    frame = a_read(spark, everlog_bootstrap, topic, minPartitions="5").load()

    assert frame.rdd.getNumPartitions() == 5
    assert sorted(int(row.value) for row in frame.select("value").collect()) == list(range(1010))
    assert (
        a_read(spark, everlog_bootstrap, topic, maxRecordsPerPartition="300").load().rdd.getNumPartitions()
        == 5
    )
    assert a_read(spark, everlog_bootstrap, new_topic()).load().count() == 0


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_filters_give_the_same_rows_whether_spark_hands_them_down_or_not(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, enabled: str
) -> None:
    topic = new_topic(2, retention_ms="-1")
    with everlog.Producer(everlog_bootstrap) as producer:
        for number in range(40):
            # Times that go back and forth: an upper bound of them must not end the reading.
            moment = 1_700_000_000_000 + (number if number % 2 else 100 - number) * 1000
            producer.send(topic, b"%d" % number, partition=number % 2, timestamp=moment)
        producer.flush(timeout=60)
    wanted: list[tuple[str, set[int]]] = [
        ("offset >= 5 AND offset < 9", {10, 11, 12, 13, 14, 15, 16, 17}),
        ("partition = 1 AND offset = 3", {7}),
        ("partition IN (0) AND offset > 17", {36, 38}),
        ("topic = 'another'", set()),
        ("timestamp >= timestamp_millis(1700000090000)", {0, 2, 4, 6, 8, 10}),
        ("timestamp < timestamp_millis(1700000003000)", {1}),
        ("timestamp = timestamp_millis(1700000003000)", {3}),
        ("timestamp > timestamp_millis(1700009990000)", set()),
    ]
    with conf(spark, PUSHDOWN, enabled):
        for condition, numbers in wanted if enabled == "true" else wanted[:2]:
            frame = a_read(spark, everlog_bootstrap, topic, pushFilters="true").load().where(condition)
            assert {int(row.value) for row in frame.select("value").collect()} == numbers, condition
        narrow = a_read(spark, everlog_bootstrap, topic, pushFilters="true").load().where("partition = 1")
        assert narrow.rdd.getNumPartitions() == (1 if enabled == "true" else 2)
        # Spark would go on with the tasks of the first query in the second one.
        frame = a_read(spark, everlog_bootstrap, topic).load()
        assert frame.where("partition = 1 AND offset < 3").count() == 3
        assert frame.count() == 40


def test_each_partition_is_read_from_one_time_of_its_own_to_another(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(3, retention_ms="-1")
    begin = 1_700_000_000_000
    with everlog.Producer(everlog_bootstrap) as producer:
        for number in range(30):
            moment = begin + number // 3 * 1000
            producer.send(topic, b"%d" % (number // 3), partition=number % 3, timestamp=moment)
        producer.flush(timeout=60)

    def moments(*seconds: float) -> str:
        return json.dumps({topic: {str(index): begin + int(at * 1000) for index, at in enumerate(seconds)}})

    # Up to the first record of that time or later; none is that late in the last one: it is read to its end.
    ending = {"endingOffsetsByTimestamp": moments(3, 4.5, 99)}
    starting = {"startingOffsetsByTimestamp": moments(2, 0, 7.5)}
    for options, wanted in (
        (ending, [range(3), range(5), range(10)]),
        ({**starting, **ending}, [range(2, 3), range(5), range(8, 10)]),
    ):
        rows = (
            a_read(spark, everlog_bootstrap, topic, **options).load().select("partition", "value").collect()
        )
        found = [sorted(int(row.value) for row in rows if row.partition == index) for index in range(3)]
        assert found == [list(each) for each in wanted]


def test_values_become_columns_and_bad_ones_are_kept(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    good = {"id": 7, "timestamp": "2026-01-31T12:00:00Z", "tags": ["a"]}
    send(everlog_bootstrap, topic, [json.dumps(good).encode(), b"oops"])
    with everlog.Producer(everlog_bootstrap) as producer:
        producer.send(topic, None, key=b"tombstone", partition=0)
        producer.flush(timeout=60)
    ddl = {"valueFormat": "json", "valueSchema": "id BIGINT, tags ARRAY<STRING>"}

    spread = a_read(spark, everlog_bootstrap, topic, columns="offset", **ddl).load()
    assert spread.columns == ["offset", "id", "tags", "_corrupt_record", "_corrupt_reason"]
    first, second, third = spread.orderBy("offset").collect()
    assert (first.id, first.tags, first._corrupt_record) == (7, ["a"], None)
    assert (second.id, second._corrupt_record) == (None, b"oops")
    assert "not JSON" in second._corrupt_reason
    assert (third.id, third._corrupt_record) == (None, None)

    as_struct = {"valueColumns": "struct", "valueSchema": "id BIGINT, timestamp TIMESTAMP"}
    typed = a_read(spark, everlog_bootstrap, topic, **{**ddl, **as_struct}).load()
    found = typed.selectExpr("value.id", "unix_seconds(value.timestamp) AS at", "value IS NULL AS gone")
    assert [tuple(row) for row in found.collect()] == [
        (7, 1769860800, False),
        (None, None, True),
        (None, None, True),
    ]

    # The user's own schema names the columns too.
    named = a_read(spark, everlog_bootstrap, topic, valueFormat="json", mode="dropmalformed")
    kept = named.schema("offset LONG, id INT").load()
    assert [tuple(row) for row in kept.orderBy("offset").collect()] == [(0, 7), (2, None)]
    text = a_read(spark, everlog_bootstrap, topic, valueFormat="string", columns="offset").load()
    assert [row.value for row in text.orderBy("offset").collect()][1:] == ["oops", None]


def test_messages_of_protobuf_are_written_and_read_by_their_descriptors(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    descriptors = tmp_path / "shop.desc"
    descriptors.write_bytes(SET.SerializeToString())
    named = {"protobufDescriptors": str(descriptors), "protobufMessage": "shop.Order"}
    at = "TIMESTAMP '2026-01-31 12:00:00.25Z'"
    orders = spark.sql(
        f"SELECT 'k' AS key, 7L AS id, 'x' AS note, 'DONE' AS state, {at} AS at,"
        " INTERVAL '1.5' SECOND AS took, array(named_struct('n', 1)) AS items, CAST(2 AS DECIMAL(20)) AS big"
    )
    writer = (
        orders.write.format("everlog").option("kafka.bootstrap.servers", everlog_bootstrap).mode("append")
    )
    writer.options(topic=topic, valueFormat="protobuf", schemaId="42", **named).save()
    send(everlog_bootstrap, topic, [b"\xff\xff"])

    options = {f"value.{name}": value for name, value in named.items()}
    frame = a_read(spark, everlog_bootstrap, topic, valueFormat="protobuf", **options).load()
    good, bad = frame.withColumn("at", frame.at.cast("string")).orderBy("offset").collect()

    assert (good.key, good.id, good.note, good.state) == (b"k", 7, "x", "DONE")
    assert good.took == timedelta(seconds=1.5)
    assert (good["items"], good.tags, good.first, good.big, good.price) == ([(1,)], {}, None, 2, 0.0)
    assert good.at == spark.sql(f"SELECT CAST({at} AS STRING)").first()[0]
    assert (bad.id, bad.note, bad._corrupt_record) == (None, None, b"\xff\xff")
    assert bad._corrupt_reason.startswith("not a message shop.Order")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"valueFormat": "avro", "value.avroSchema": '"int"'}, "not Avro"),
        ({"valueFormat": "string"}, "not UTF-8"),
        ({"valueFormat": "long"}, "2 bytes"),
    ],
)
def test_a_bad_value_is_kept_aside_in_every_format(
    spark: Any, everlog_bootstrap: str, new_topic: NewTopic, options: dict[str, str], reason: str
) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, [b"\xff\xff"])

    [row] = a_read(spark, everlog_bootstrap, topic, **options).load().collect()

    assert (row.value, row._corrupt_record) == (None, b"\xff\xff")
    assert reason in row._corrupt_reason


def message_of(frame: Any) -> str:
    """What a user sees first of an error."""
    with pytest.raises(Exception) as caught:
        frame().count()
    return without_stack(caught.value)


def test_errors_are_told_in_one_line(spark: Any, everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, [b"0", b"1", b"2"])
    with everlog.Admin(everlog_bootstrap) as admin:
        admin.delete_records({everlog.TopicPartition(topic, 0): 2})

    def said(**options: str) -> str:
        return message_of(lambda: a_read(spark, everlog_bootstrap, topic, **options).load())

    assert "there is no topic 'nowhere' at" in said(subscribe="nowhere")
    assert "option startingOffsets='{oops' is not JSON" in said(startingOffsets="{oops")
    assert "kafka.auto.offset.reset is not supported" in said(**{"kafka.auto.offset.reset": "earliest"})
    wrong = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "500"}
    assert "no broker answered at 127.0.0.1:1 within 0.5 s" in said(**wrong)
    gone = f"offsets 0 to 1 of {topic}-0 were deleted before they could be read: the log starts at 2"
    assert gone in said(startingOffsets=json.dumps({topic: {"0": 0}}))
    bad = "at offset 2 is no json: found 2, expected a JSON object"
    assert bad in said(valueFormat="json", valueSchema="a STRUCT<b INT>", mode="failfast")
    assert "value format is 'yaml'" in said(valueFormat="yaml", valueSchema="a INT")
    for schema in ("a VARCHAR(5)", "a STRUCT<b: ARRAY<CHAR(5)>>", "a INTERVAL YEAR"):
        told = said(valueFormat="json", valueSchema=schema)
        assert re.search(r"ConfigError: schema: \w+\([\d, ]+\) is no type that a column", told), told

    reader = a_read(spark, everlog_bootstrap, topic)
    assert "unknown column 'price'" in message_of(lambda: reader.schema("price INT").load())

"""Batch reads as columns have the rows that reads row by row have, whatever is planned above them."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.spark.columnar.install import ISOLATION, SWITCH, read_columns
from tests.spark.conftest import NewTopic
from tests.spark.java_here import require_java

ROWS = 60_000
"""Of some 100 bytes: several Arrow batches a task."""


@contextmanager
def row_by_row(spark: Any) -> Generator[None]:
    """Reads planned within are those of any Python source."""
    spark.conf.set(SWITCH, "false")
    try:
        yield
    finally:
        spark.conf.unset(SWITCH)


def a_frame(spark: Any, bootstrap: str, topic: str, **options: str) -> Any:
    reader = spark.read.format("everlog").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).options(**options).load()


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def both_ways(spark: Any, bootstrap: str, topic: str, **options: str) -> tuple[list[Any], list[Any]]:
    """All rows in order, as columns and row by row; both plans are checked to be what they should be."""
    columnar = a_frame(spark, bootstrap, topic, **options)
    assert "ColumnarToRow" in plan_of(columnar)
    found = columnar.collect()
    with row_by_row(spark):
        rows = a_frame(spark, bootstrap, topic, **options)
        assert "ColumnarToRow" not in plan_of(rows)
        return found, rows.collect()


@pytest.fixture(scope="module")
def many(everlog_bootstrap: str) -> str:
    """A topic of two partitions with keys, nulls, empty values, headers and several batches of Arrow."""
    topic = "columnar-many"
    with everlog.Admin(everlog_bootstrap) as admin:
        admin.create_topics([everlog.NewTopic(topic, 2)])
    with everlog.Producer(everlog_bootstrap) as producer:
        for number in range(ROWS):
            producer.send(
                topic,
                None if number % 7 == 0 else b"" if number % 11 == 0 else b"%0100d" % number,
                key=None if number % 3 == 0 else b"k%d" % number,
                partition=number % 2,
                headers=[("h", b"%d" % number), ("empty", None)] if number % 5 == 0 else [],
            )
        producer.flush(timeout=60)
    return topic


def test_rows_are_the_same_as_columns_and_row_by_row(spark: Any, everlog_bootstrap: str, many: str) -> None:
    found, expected = both_ways(spark, everlog_bootstrap, many, includeHeaders="true")

    assert len(found) == ROWS
    assert found == expected


def test_typed_values_are_the_same_both_ways(spark: Any, everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    ddl = (
        "flag BOOLEAN, tiny TINYINT, small SMALLINT, whole INT, large BIGINT, real DOUBLE, half FLOAT, "
        "text STRING, price DECIMAL(12,2), day DATE, at TIMESTAMP, tags ARRAY<STRING>, "
        "place STRUCT<x: INT, names: ARRAY<STRING>>, counts MAP<STRING, BIGINT>"
    )
    with everlog.Producer(everlog_bootstrap) as producer:
        for number in range(200):
            value = {
                "flag": number % 2 == 0,
                "tiny": number % 100,
                "small": -number,
                "whole": number,
                "large": number << 40,
                "real": number / 3,
                "half": number / 4,
                "text": "é" * (number % 9),
                "price": number / 100,
                "day": "2026-11-18",
                "at": "2026-11-18T12:00:00Z",
                "tags": [str(each) for each in range(number % 4)],
                "place": {"x": number, "names": ["a", "b"]},
                "counts": {"a": number},
            }
            gone = [name for at, name in enumerate(value) if (number + at) % 5 == 0]
            for name in gone:
                del value[name]
            producer.send(topic, json.dumps(value).encode())
        producer.flush(timeout=60)

    for as_struct in ("spread", "struct"):
        found, expected = both_ways(
            spark, everlog_bootstrap, topic, valueFormat="json", valueSchema=ddl, valueColumns=as_struct
        )
        assert len(found) == 200
        assert found == expected


def test_a_limit_reads_no_further(spark: Any, everlog_bootstrap: str, many: str) -> None:
    frame = a_frame(spark, everlog_bootstrap, many).limit(5)

    assert len(frame.collect()) == 5
    assert a_frame(spark, everlog_bootstrap, many).filter("offset = 3").count() == 2


def test_functions_in_python_see_each_batch_as_it_was(spark: Any, everlog_bootstrap: str, many: str) -> None:
    """Spark keeps batches while Python works on them, if it takes them to be good for that long."""

    def doubled(offsets: Any) -> Any:
        compute: Any = importlib.import_module("pyarrow.compute")
        return compute.multiply(offsets, 2)

    # Spark goes by the types that are given, and Arrow has none for a checker.
    array: Any = importlib.import_module("pyarrow").Array
    doubled.__annotations__ = {"offsets": array, "return": array}
    functions: Any = importlib.import_module("pyspark.sql.functions")
    twice = functions.arrow_udf(doubled, "bigint")("offset").alias("twice")
    frame = a_frame(spark, everlog_bootstrap, many).select("key", "offset", twice)
    wrong = frame.filter("twice <> offset * 2")

    assert wrong.count() == 0
    assert frame.selectExpr("sum(twice)").collect()[0][0] == 2 * (ROWS // 2) * (ROWS // 2 - 1)


def test_a_join_of_a_topic_with_itself_and_a_cache_have_all_rows(
    spark: Any, everlog_bootstrap: str, many: str
) -> None:
    frame = a_frame(spark, everlog_bootstrap, many)
    keys = frame.select("partition", "offset").withColumnRenamed("offset", "o")
    joined = frame.join(keys, (frame["partition"] == keys["partition"]) & (frame["offset"] == keys["o"]))

    assert joined.count() == ROWS
    kept = frame.cache()
    try:
        assert kept.count() == ROWS
        assert kept.filter("value IS NULL").count() == len(range(0, ROWS, 7))
    finally:
        kept.unpersist()


def test_a_second_call_changes_nothing(spark: Any) -> None:
    before = spark._jsparkSession.experimental().extraOptimizations().size()

    assert read_columns(spark)
    assert spark._jsparkSession.experimental().extraOptimizations().size() == before


def test_a_session_whose_tasks_see_its_own_jars_alone_reads_rows(
    spark: Any, everlog_bootstrap: str, many: str
) -> None:
    """A copy has the rule, as that of a streaming query has; the jar is not its own."""
    spark.conf.set(ISOLATION, "true")
    try:
        isolated = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
    finally:
        spark.conf.unset(ISOLATION)
    frame = a_frame(isolated, everlog_bootstrap, many)

    assert "ColumnarToRow" not in plan_of(frame)
    assert frame.select("offset").distinct().count() == ROWS // 2


PROGRAM = """
import sys
from everlog.spark.session import session

spark = session(master="local[1]", settings={"spark.ui.enabled": "false", "spark.driver.memory": "512m"})
read = spark.read.format("everlog").option("kafka.bootstrap.servers", sys.argv[1])
frame = read.option("subscribe", sys.argv[2]).load()
plan = frame._jdf.queryExecution().executedPlan().toString()
print("ColumnarToRow" in plan, frame.count())
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("java")
def test_a_home_with_odd_signs_in_its_name_has_a_session_that_reads(
    everlog_bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """The jar and the Python for workers are below it, and Spark cuts paths at some of them."""
    require_java()
    topic = new_topic()
    with everlog.Producer(everlog_bootstrap) as producer:
        producer.send(topic, b"one")
    home = tmp_path / "Jo's home #2 %41"
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, everlog_bootstrap, topic],
        env={**environment, "XDG_CACHE_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split() == ["True", "1"]
    assert list((home / "everlog").glob("*.jar"))

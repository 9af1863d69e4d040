"""Orders are scored as they come, and those that came before the job was there are scored beside it.

When the job first starts, the end of each partition is written down: the cut. The live flow reads from there
on, and does not wait for all the history there is. The backfill reads what lies before, a bounded number of
records at a time. Each has its own checkpoint and its own group, so either can be stopped, started again and
watched alone; together they score each order once.
"""

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

import everlog
from everlog.pipelines import stream

spark = SparkSession.active()

BOOTSTRAP = str(spark.conf.get("everlog.bootstrap.servers"))

CutRow = tuple[str, int, int]


def score(records: DataFrame) -> DataFrame:
    """The score of each order; the key is the order's id."""
    order = F.from_json(F.col("value").cast("string"), "order_id string, total_cents long")
    placed = records.select(order.alias("o")).select("o.*")
    total = F.col("total_cents")
    size = F.when(total >= 50_000, "large").when(total >= 1_000, "usual").otherwise("small")
    value = F.to_json(F.struct("order_id", size.alias("score")))
    return placed.select(F.col("order_id").alias("key"), value.alias("value"))


def cut(topic: str) -> list[CutRow]:
    """Topic, partition and offset where live begins and history ends: decided once, then read."""
    path = f"{spark.conf.get('everlog.storage')}/cut/{topic}"
    with everlog.Admin(BOOTSTRAP) as admin:
        partitions = admin.describe_topics([topic])[topic].partitions
        ends = admin.list_offsets([everlog.TopicPartition(topic, index) for index in partitions])
    rows = [(topic, place.partition, end.offset if end else 0) for place, end in sorted(ends.items())]
    session: Any = spark  # `createDataFrame` is typed in part only
    frame = session.createDataFrame(rows, "topic string, partition int, offset long")
    # If there is a cut already, this one is not written.
    frame.coalesce(1).write.mode("ignore").json(path)
    found = spark.read.schema("topic string, partition int, offset long").json(path).collect()
    return sorted((row["topic"], row["partition"], row["offset"]) for row in found)


def before(records: DataFrame, rows: list[CutRow]) -> DataFrame:
    """The records that lie before the cut; of a partition that is younger than it there are none."""
    ends = F.create_map(*(F.lit(part) for _, partition, offset in rows for part in (partition, offset)))
    return records.where(F.col("offset") < F.coalesce(ends[F.col("partition")], F.lit(0)))


def _orders(**options: str) -> DataFrame:
    return (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", spark.conf.get("orders.topic"))
        .options(**options)
        .load()
    )


def _to_scores(scores: DataFrame, group: str) -> "DataStreamWriter":
    return (
        scores.writeStream.outputMode("append")
        .format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("topic", spark.conf.get("scores.topic"))
        .option("commitGroup", group)
    )


@stream(trigger="500 milliseconds")
def live() -> "DataStreamWriter":
    """Orders from the cut on."""
    topic = str(spark.conf.get("orders.topic"))
    start = {topic: {str(partition): offset for _, partition, offset in cut(topic)}}
    return _to_scores(score(_orders(startingOffsets=json.dumps(start))), "scores-live")


@stream(trigger="5 seconds")
def backfill() -> "DataStreamWriter":
    """Orders before the cut, so many at a time."""
    topic = str(spark.conf.get("orders.topic"))
    limit = str(spark.conf.get("backfill.records.per.batch"))
    history = before(_orders(startingOffsets="earliest", maxOffsetsPerTrigger=limit), cut(topic))
    return _to_scores(score(history), "scores-backfill")

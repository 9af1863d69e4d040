"""Measurements come by host and go on by metric name: to a topic and to a table.

In the topic a metric has one partition; in the table it has a directory, so that who asks for one metric
reads that one alone.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

BOOTSTRAP = str(spark.conf.get("everlog.bootstrap.servers"))

FIELDS = "name string, host string, value double, at timestamp"


def by_name(records: DataFrame) -> DataFrame:
    """The same records with the metric's name as key; those without one are left out."""
    name = F.get_json_object(F.col("value").cast("string"), "$.name")
    return records.select(name.alias("key"), "value").where("key is not null")


def measurements(records: DataFrame) -> DataFrame:
    """A row for each measurement."""
    read = F.from_json(F.col("value").cast("string"), FIELDS)
    rows = records.select(read.alias("m")).select("m.*").where("name is not null and at is not null")
    return rows.withColumnRenamed("name", "metric")


def _metrics() -> DataFrame:
    return (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", spark.conf.get("metrics.topic"))
        .option("startingOffsets", "earliest")
        .load()
    )


dp.create_sink(
    name="metrics_by_name",
    format="everlog",
    options={
        "kafka.bootstrap.servers": BOOTSTRAP,
        "topic": str(spark.conf.get("by-name.topic")),
        "commitGroup": "metrics-by-name",
    },
)


@dp.append_flow(target="metrics_by_name")
def keyed() -> DataFrame:
    """All measurements by metric."""
    return by_name(_metrics())


dp.create_sink(
    name="metrics_table",
    format="everlog_table",
    options={
        "kafka.bootstrap.servers": BOOTSTRAP,
        "path": f"{spark.conf.get('everlog.storage')}/lake/metrics",
        "tableFormat": str(spark.conf.get("table.format")),
        "partitionBy": "metric",
    },
)


@dp.append_flow(target="metrics_table")
def metrics() -> DataFrame:
    """All measurements as rows."""
    return measurements(_metrics())

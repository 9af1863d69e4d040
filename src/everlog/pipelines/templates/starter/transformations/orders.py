"""Orders of the topic as a table, and the large ones as a topic of their own."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
servers = str(spark.conf.get("everlog.bootstrap.servers"))
large_from = float(spark.conf.get("large.from") or 100)


def read_orders() -> DataFrame:
    """The topic, a column for each field."""
    return (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
        .select(
            F.col("key").cast("string").alias("customer"),
            F.from_json(F.col("value").cast("string"), "id long, item string, total double").alias("order"),
        )
        .select("customer", "order.*")
    )


@dp.table
def orders() -> DataFrame:
    """Every order, one row each."""
    return read_orders()


dp.create_sink(
    name="large_orders",
    format="everlog",
    options={
        "kafka.bootstrap.servers": servers,
        "topic": "large-orders",
        # With each batch this group gets the offsets that were read: its lag is the flow's.
        "commitGroup": "large-orders",
    },
)


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    """Orders from `large.from` on, as JSON by customer."""
    return (
        read_orders()
        .where(F.col("total") >= large_from)
        .select(F.col("customer").alias("key"), F.to_json(F.struct("id", "item", "total")).alias("value"))
    )

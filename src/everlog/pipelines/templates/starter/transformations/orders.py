"""Orders of the topic as a table, and the large ones as a topic of their own."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
servers = spark.conf.get("everlog.bootstrap.servers")
large_from = float(spark.conf.get("large.from") or 100)


@dp.table
def orders() -> DataFrame:
    """Every order, one row each."""
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


dp.create_sink("large_orders", "everlog", {"kafka.bootstrap.servers": servers or "", "topic": "large-orders"})


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    """Orders from `large.from` on, as JSON by customer."""
    return (
        spark.readStream.table("orders")
        .where(F.col("total") >= large_from)
        .select(F.col("customer").alias("key"), F.to_json(F.struct("id", "item", "total")).alias("value"))
    )

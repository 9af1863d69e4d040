"""Orders with the name and the tier of their customer: a stream joined with a table.

The table is the topic `customers`: its newest record for each key, which a tombstone takes away. It is read
again with each pass over the flows, which is one batch of orders, so a change counts from the next pass on,
and needs no state. A query that runs for ever would keep to what it read at first: there, `load` and the join
belong into `foreachBatch`.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

BOOTSTRAP = str(spark.conf.get("everlog.bootstrap.servers"))


def current(records: DataFrame) -> DataFrame:
    """The newest value of each key, without those that were deleted."""
    newest = records.groupBy("key").agg(F.max_by("value", "offset").alias("value"))
    customer = F.from_json(F.col("value").cast("string"), "customer string, name string, tier string")
    return newest.where("value is not null").select(customer.alias("c")).select("c.*")


def enrich(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """Each order with what is known of its customer, if anything is."""
    order = F.from_json(F.col("value").cast("string"), "order_id string, customer string, total_cents long")
    placed = orders.select(order.alias("o")).select("o.*")
    value = F.to_json(F.struct("order_id", "customer", "total_cents", "name", "tier"))
    return placed.join(customers, "customer", "left").select(
        F.col("customer").alias("key"), value.alias("value")
    )


dp.create_sink(
    name="orders_enriched",
    format="everlog",
    options={
        "kafka.bootstrap.servers": BOOTSTRAP,
        "topic": str(spark.conf.get("orders-enriched.topic")),
        "commitGroup": "orders-enriched",
    },
)


@dp.append_flow(target="orders_enriched")
def enriched() -> DataFrame:
    """All orders, joined with customers as they are now."""
    orders = (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", spark.conf.get("orders.topic"))
        .option("startingOffsets", "earliest")
        .load()
    )
    customers = (
        spark.read.format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", spark.conf.get("customers.topic"))
        .load()
    )
    return enrich(orders, current(customers))

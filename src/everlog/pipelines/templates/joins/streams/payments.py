"""Orders and their payments: two streams, joined where a payment comes within ten minutes of its order.

An order without one is written as unpaid once ten minutes have passed for sure, by the watermarks of both
streams. Until then its row waits in the state of the query, which the checkpoint keeps.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from everlog.pipelines import stream

spark = SparkSession.active()

BOOTSTRAP = str(spark.conf.get("everlog.bootstrap.servers"))

PATIENCE = "10 minutes"
LATE = "5 minutes"


def with_payments(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """Each order with its payment, or as unpaid; the key is the order's id."""
    order = F.from_json(F.col("value").cast("string"), "order_id string, total_cents long, at timestamp")
    placed = orders.select(order.alias("o")).select("o.*").withWatermark("at", LATE)
    payment = F.from_json(
        F.col("value").cast("string"), "payment_id string, order_id string, method string, at timestamp"
    )
    paid = (
        payments.select(payment.alias("p"))
        .select(
            "p.payment_id",
            "p.method",
            F.col("p.order_id").alias("paid_order"),
            F.col("p.at").alias("paid_at"),
        )
        .withWatermark("paid_at", LATE)
    )
    joined = placed.join(
        paid,
        F.expr(f"order_id = paid_order and paid_at >= at and paid_at <= at + interval {PATIENCE}"),
        "left_outer",
    )
    status = F.when(F.col("payment_id").isNotNull(), "paid").otherwise("unpaid").alias("status")
    # Fields that are null are left out.
    value = F.to_json(F.struct("order_id", "total_cents", status, "payment_id", "method"))
    return joined.select(F.col("order_id").alias("key"), value.alias("value"))


def _topic(name: str) -> DataFrame:
    return (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", spark.conf.get(name))
        .option("startingOffsets", "earliest")
        .load()
    )


@stream
def order_payments() -> "DataStreamWriter":
    """Orders and payments, from two topics to one."""
    return (
        with_payments(_topic("orders.topic"), _topic("payments.topic"))
        .writeStream.outputMode("append")
        .format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("topic", spark.conf.get("order-payments.topic"))
        .option("commitGroup", "order-payments")
    )

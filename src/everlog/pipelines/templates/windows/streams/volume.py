"""Orders by the minute in which they were placed, by their own clock.

A minute is written once, when it is over: when an order was seen that is `volume.late` younger than its end.
Orders that come later than that are left out. What is written is final, however often the job dies.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from everlog.pipelines import stream

spark = SparkSession.active()

BOOTSTRAP = str(spark.conf.get("everlog.bootstrap.servers"))

FIELDS = "order_id string, total_cents long, at timestamp"


def volume_per_window(records: DataFrame, window: str, late: str) -> DataFrame:
    """Count and sum of orders for each window that is over; the key is the window's start."""
    order = F.from_json(F.col("value").cast("string"), FIELDS)
    placed = records.select(order.alias("order")).select("order.*").where("at is not null")
    volume = (
        placed.withWatermark("at", late)
        .groupBy(F.window("at", window))
        .agg(F.count("*").alias("orders"), F.sum("total_cents").alias("volume_cents"))
    )
    minute = F.date_format(
        F.to_utc_timestamp("window.start", F.current_timezone()), "yyyy-MM-dd'T'HH:mm:ss'Z'"
    )
    return volume.select(
        minute.alias("key"),
        F.to_json(F.struct(minute.alias("minute"), "orders", "volume_cents")).alias("value"),
    )


@stream
def volume() -> "DataStreamWriter":
    """Order volume, from topic to topic."""
    orders = (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", spark.conf.get("orders.topic"))
        .option("startingOffsets", "earliest")
        .load()
    )
    window, late = str(spark.conf.get("volume.window")), str(spark.conf.get("volume.late"))
    return (
        volume_per_window(orders, window, late)
        .writeStream.outputMode("append")
        .format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("topic", spark.conf.get("volume.topic"))
        .option("commitGroup", "order-volume")
    )

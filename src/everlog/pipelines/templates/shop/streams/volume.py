"""Order volume of each minute, from topic to topic: exactly once, and final when it is written."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from everlog.pipelines import stream

spark = SparkSession.active()

BOOTSTRAP = str(spark.conf.get("everlog.bootstrap.servers"))


def volume_per_minute(records: DataFrame, late: str) -> DataFrame:
    """Count and sum of the orders of each minute that is over; the key is the minute."""
    order = F.from_json(F.col("value").cast("string"), "total_cents long, at timestamp")
    volume = (
        records.select(order.alias("order"))
        .select("order.*")
        .withWatermark("at", late)
        .groupBy(F.window("at", "1 minute"))
        .agg(F.count("*").alias("orders"), F.sum("total_cents").alias("volume_cents"))
    )
    start = F.to_utc_timestamp("window.start", F.current_timezone())
    minute = F.date_format(start, "yyyy-MM-dd'T'HH:mm:ss'Z'")
    value = F.to_json(F.struct(minute.alias("minute"), "orders", "volume_cents"))
    return volume.select(minute.alias("key"), value.alias("value"))


@stream
def volume() -> "DataStreamWriter":
    """Order volume by minute."""
    orders = (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", spark.conf.get("orders.topic"))
        .option("startingOffsets", "earliest")
        .load()
    )
    return (
        volume_per_minute(orders, str(spark.conf.get("volume.late")))
        .writeStream.outputMode("append")
        .format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("topic", spark.conf.get("volume.topic"))
        .option("commitGroup", "shop-volume")
    )

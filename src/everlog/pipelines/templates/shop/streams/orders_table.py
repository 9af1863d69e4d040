"""Orders as rows of a lake table: each batch is one commit, which has its offsets in it."""

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from everlog.pipelines import stream

spark = SparkSession.active()

BOOTSTRAP = str(spark.conf.get("everlog.bootstrap.servers"))
COLUMNS = "order_id string, customer string, city string, total_cents long, at timestamp"


@stream(trigger="2 seconds")
def orders_table() -> "DataStreamWriter":
    """All orders, a row each."""
    orders = (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", spark.conf.get("orders.topic"))
        .option("startingOffsets", "earliest")
        .load()
    )
    return (
        orders.writeStream.outputMode("append")
        .format("everlog_table")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("path", f"{spark.conf.get('everlog.storage')}/lake/orders")
        .option("topic", spark.conf.get("orders.topic"))
        .option("tableFormat", spark.conf.get("table.format"))
        .option("schema", COLUMNS)
        .option("mode", "append")
    )

"""Topics of one cluster, kept on another with all that a record has but its offset.

Which offset became which is noted on the other cluster, in the transaction that writes the records: so
nothing is there twice, and `everlog mirror offsets` can tell where a group goes on. Topics and partitions are
made as they appear.
"""

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from everlog.pipelines import stream
from everlog.spark.mirror import mirror_batches

spark = SparkSession.active()

BOOTSTRAP = str(spark.conf.get("everlog.bootstrap.servers"))


@stream
def mirror() -> "DataStreamWriter":
    """All topics that are named, from one cluster to the other."""
    target = str(spark.conf.get("mirror.target.bootstrap.servers"))
    records = (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", spark.conf.get("mirror.topics"))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    return records.writeStream.foreachBatch(mirror_batches(BOOTSTRAP, target))

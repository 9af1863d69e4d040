"""The table of customers as the database has it: the changes of its changelog, applied by key.

Each batch is one commit of the table, with the batch's id and its offsets in it: exactly once. A change that
cannot be read goes to a dead-letter topic and holds up nothing.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()

BOOTSTRAP = str(spark.conf.get("everlog.bootstrap.servers"))

COLUMNS = "id long, name string, email string, tier string"
"""Those of the source table that are kept."""

dp.create_sink(
    name="customers",
    format="everlog_table",
    options={
        "kafka.bootstrap.servers": BOOTSTRAP,
        "path": f"{spark.conf.get('everlog.storage')}/lake/customers",
        "tableFormat": str(spark.conf.get("table.format")),
        "topic": str(spark.conf.get("changes.topic")),
        "mode": "upsert",
        "debezium": "true",
        "schema": COLUMNS,
        "keys": "id",
        "deadLetterTopic": f"{spark.conf.get('changes.topic')}.dlq",
    },
)


@dp.append_flow(target="customers")
def changes() -> DataFrame:
    """The changelog, as it is."""
    return (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", spark.conf.get("changes.topic"))
        .option("startingOffsets", "earliest")
        .load()
    )

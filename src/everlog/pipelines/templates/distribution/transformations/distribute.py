"""Each order goes to every topic whose rule it meets; one that meets none goes to a topic for such.

Keys, values and headers stay as they are. A batch is committed to all topics or to none.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

BOOTSTRAP = str(spark.conf.get("everlog.bootstrap.servers"))

RULES = {
    "orders-eu": "region = 'EU'",
    "orders-us": "region = 'US'",
    "orders-apac": "region = 'APAC'",
    "orders-large": "total_cents >= 50000",
}
"""Topics, and the condition in SQL on the fields of an order under which it goes there."""

FIELDS = "order_id string, customer string, region string, city string, total_cents long, at timestamp"


def distribute(records: DataFrame, rules: dict[str, str], unrouted: str) -> DataFrame:
    """A row for each topic that a record goes to, named by the column `topic`."""
    order = F.from_json(F.col("value").cast("string"), FIELDS)
    opened = records.select("key", "value", "headers", order.alias("order")).select(
        "key", "value", "headers", "order.*"
    )
    # A condition on a field that is missing is null: not met.
    met = F.array_compact(F.array(*(F.when(F.expr(rule), F.lit(topic)) for topic, rule in rules.items())))
    return opened.select(
        "key",
        "value",
        "headers",
        F.explode(F.when(F.size(met) > 0, met).otherwise(F.array(F.lit(unrouted)))).alias("topic"),
    )


dp.create_sink(
    name="topics_by_rule",
    format="everlog",
    options={
        "kafka.bootstrap.servers": BOOTSTRAP,
        "includeHeaders": "true",
        "commitGroup": "distribution",
    },
)


@dp.append_flow(target="topics_by_rule")
def distributed() -> DataFrame:
    """All orders, each as often as there are topics for it."""
    orders = (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", spark.conf.get("orders.topic"))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    return distribute(orders, RULES, str(spark.conf.get("unrouted.topic")))

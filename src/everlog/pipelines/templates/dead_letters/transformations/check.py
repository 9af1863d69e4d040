"""Orders that are fine go on, the others go to a dead-letter topic with the reason in their headers.

Both are written in one transaction for each batch. The headers are those of `everlog.DeadLetters`, so
`everlog dead-letters list` shows the letters and `everlog dead-letters replay` sends them back to where they
came from, with the count of tries.
"""

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

BOOTSTRAP = str(spark.conf.get("everlog.bootstrap.servers"))

GROUP = "orders-check"
FIELDS = "order_id string, customer string, total_cents long, currency string, at timestamp, _corrupt string"


def check(records: DataFrame, currencies: list[str], checked: str, dead_letters: str) -> DataFrame:
    """Every record once: for the topic `checked`, or for `dead_letters` with headers that say why."""
    order = F.from_json(
        F.col("value").cast("string"), FIELDS, {"columnNameOfCorruptRecord": "_corrupt", "mode": "PERMISSIVE"}
    )
    read = records.withColumn("order", order)
    error, message = _problem(currencies)
    judged = read.withColumn("error", error).withColumn("message", message)
    is_bad = F.col("error").isNotNull()
    return judged.select(
        "key",
        "value",
        F.when(is_bad, _letter_headers()).otherwise(_own_headers()).alias("headers"),
        F.when(is_bad, dead_letters).otherwise(checked).alias("topic"),
    )


def _problem(currencies: list[str]) -> tuple[Column, Column]:
    """The kind of what is wrong, and the words for it; both null for an order that is fine."""
    total, currency = F.col("order.total_cents"), F.col("order.currency")
    rules = [
        (
            F.col("value").isNull() | F.col("order._corrupt").isNotNull(),
            "NotJson",
            F.lit("the value is no JSON of an order"),
        ),
        (F.col("order.order_id").isNull(), "NoOrderId", F.lit("order_id is missing")),
        (
            ~F.coalesce(total > 0, F.lit(False)),
            "BadTotal",
            F.concat(
                F.lit("total_cents is "),
                F.coalesce(total.cast("string"), F.lit("missing")),
                F.lit(": expected more than 0"),
            ),
        ),
        (
            ~F.coalesce(currency.isin(currencies), F.lit(False)),
            "UnknownCurrency",
            F.concat(
                F.lit("currency is "),
                F.coalesce(currency, F.lit("missing")),
                F.lit(f": expected {', '.join(currencies)}"),
            ),
        ),
    ]
    kind = F.coalesce(*(F.when(is_broken, F.lit(name)) for is_broken, name, _ in rules))
    words = F.coalesce(*(F.when(is_broken, text) for is_broken, _, text in rules))
    return kind, words


def _own_headers() -> Column:
    """The record's headers without those of an earlier failure."""
    headers = F.coalesce(F.col("headers"), F.expr("array()").cast("array<struct<key:string,value:binary>>"))
    return F.filter(headers, lambda header: ~header["key"].startswith("dead-letter."))


def _letter_headers() -> Column:
    tries = F.filter("headers", lambda header: header["key"] == "dead-letter.tries")
    tried = F.coalesce(F.get(tries, 0)["value"].cast("string").cast("int"), F.lit(0))
    told = {
        "topic": F.col("topic"),
        "partition": F.col("partition"),
        "offset": F.col("offset"),
        "timestamp": F.unix_millis("timestamp"),
        "error": F.col("error"),
        "message": F.col("message"),
        "tries": tried + 1,
        "at": F.unix_millis(F.current_timestamp()),
        "group": F.lit(GROUP),
    }
    added = [
        F.struct(
            F.lit(f"dead-letter.{name}").alias("key"), value.cast("string").cast("binary").alias("value")
        )
        for name, value in told.items()
    ]
    return F.concat(_own_headers(), F.array(*added))


dp.create_sink(
    name="orders_and_letters",
    format="everlog",
    options={
        "kafka.bootstrap.servers": BOOTSTRAP,
        "includeHeaders": "true",
        "commitGroup": GROUP,
    },
)


@dp.append_flow(target="orders_and_letters")
def checked_orders() -> DataFrame:
    """All orders, each for one of the two topics."""
    orders = (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", spark.conf.get("orders.topic"))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    return check(
        orders,
        str(spark.conf.get("orders.currencies")).split(","),
        str(spark.conf.get("checked.topic")),
        str(spark.conf.get("dead-letters.topic")),
    )

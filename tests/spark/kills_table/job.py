"""A query from a topic into a table."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.errors import PySparkException

from everlog.spark.errors import explain
from tests.spark.kills_table.killing import FORMAT, KilledTable


@dataclass(frozen=True)
class Job:
    """All that a query is made of; it is the same before and after a kill."""

    bootstrap: str
    topic: str
    table_format: str
    mode: str
    """`append` or `upsert` of records; or `rows`, which tell no offsets: the batch's number must do."""
    location: str
    checkpoint: str
    kill_file: str

    def dump(self) -> str:
        """As a line of JSON."""
        return json.dumps(asdict(self))

    @property
    def sink(self) -> dict[str, str]:
        """The options of the table."""
        options = {"path": self.location, "topic": self.topic, "tableFormat": self.table_format}
        if self.mode == "rows":
            return options
        options |= {"mode": self.mode, "valueFormat": "json", "valueSchema": "id long, key long"}
        return options | ({"keys": "key"} if self.mode == "upsert" else {})

    def read(self, spark: Any, rows_a_batch: int) -> Any:
        """The records, or the rows made of them."""
        records = (
            spark.readStream.format("everlog")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", rows_a_batch)
            .load()
        )
        if self.mode != "rows":
            return records
        return records.selectExpr(
            *(
                f"cast(get_json_object(cast(value as string), '$.{name}') as long) {name}"
                for name in ("id", "key")
            )
        )

    def start(self, spark: Any, rows_a_batch: int, **trigger: Any) -> Any:
        """The query, started, into the table that is killed; it runs for ever without a trigger."""
        writing = (
            self.read(spark, rows_a_batch)
            .writeStream.format(FORMAT)
            .options(**self.sink)
            .option("killFile", self.kill_file)
            .option("checkpointLocation", self.checkpoint)
        )
        return (writing.trigger(**trigger) if trigger else writing).start()


def run(spark: Any, job: Job, rows_a_batch: int) -> str | None:
    """Bring all that is in the topic into the table; returns what went wrong."""
    spark.dataSource.register(KilledTable)
    query = job.start(spark, rows_a_batch, availableNow=True)
    try:
        query.awaitTermination()
    except PySparkException as error:
        return explain(error) or " ".join(str(error).split())[:300]
    return None

"""A query from a topic into a table, and the program that runs it on a Spark of its own.

`python -m tests.spark.kills_table.job FOLDER` reads a job, as JSON, from each line of stdin, runs it to the
end of what is in the topic, and answers with a line: `done`, or what went wrong.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

from everlog.spark.errors import explain
from tests.spark.kills_table.killing import FORMAT, KilledTable
from tests.spark.local_settings import local_settings


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


def run(spark: Any, job: Job, rows_a_batch: int) -> str | None:
    """Bring all that is in the topic into the table; returns what went wrong."""
    spark.dataSource.register(KilledTable)
    query = (
        job.read(spark, rows_a_batch)
        .writeStream.format(FORMAT)
        .options(**job.sink)
        .option("killFile", job.kill_file)
        .option("checkpointLocation", job.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except PySparkException as error:
        return explain(error) or " ".join(str(error).split())[:300]
    return None


def main(folder: Path) -> None:
    """Run jobs until stdin ends."""
    from everlog.spark.session import session

    spark = session("kills", master="local[2]", settings=local_settings(folder))
    spark.sparkContext.setLogLevel("OFF")
    print("ready", flush=True)
    for line in sys.stdin:
        given = json.loads(line)
        rows = given.pop("rows_a_batch")
        print(run(spark, Job(**given), rows) or "done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

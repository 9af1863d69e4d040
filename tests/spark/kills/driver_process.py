"""A Spark driver that copies its input to a topic for ever, and begins again whenever its query fails."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from everlog.spark.session import session


def main(config: dict[str, str]) -> None:
    """Run until killed."""
    folder = Path(config["folder"])
    spark: Any = session(
        "kills",
        # A task that dies is tried again; more than that fails the batch.
        master="local[2,4]",
        settings={
            "spark.ui.enabled": "false",
            "spark.driver.memory": "700m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            # One file makes one task.
            "spark.sql.files.maxPartitionBytes": "10m",
            "spark.sql.files.openCostInBytes": "10m",
            "spark.sql.streaming.minBatchesToRetain": "5",
            "spark.sql.streaming.pollingDelay": "20ms",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    jvm = spark.sparkContext._gateway.proc.pid  # pyright: ignore[reportPrivateUsage]
    _write(folder / "driver.json", {"python": os.getpid(), "jvm": jvm})
    failures = 0
    while True:
        if config["source"] == "files":
            rows = spark.readStream.format("text").option("maxFilesPerTrigger", 4).load(config["input"])
        else:
            rows = (
                spark.readStream.format("everlog")
                .option("kafka.bootstrap.servers", config["bootstrap"])
                .option("subscribe", config["input"])
                .option("startingOffsets", "earliest")
                .option("maxOffsetsPerTrigger", 80)
                .load()
                .selectExpr("value")
            )
        query = (
            rows.writeStream.format("everlog")
            .option("kafka.bootstrap.servers", config["bootstrap"])
            .option("topic", config["output"])
            .option("commitGroup", config["group"])
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as error:  # noqa: BLE001  # whatever it is, a real driver would be started again
            failures += 1
            _write(folder / "failure.json", {"failures": failures, "last": str(error)[:4000]})


def _write(path: Path, content: object) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content))
    fresh.rename(path)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

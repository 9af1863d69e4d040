"""A Spark driver that copies topics to a topic or tables for ever, and begins again whenever a query fails.

Which queries run is named by the file `wanted` in its folder, so that one JVM serves one sink after another.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from everlog.spark.session import session
from tests.spark.kills_table.job import Job
from tests.spark.kills_table.killing import KilledTable

ROWS_A_BATCH = 40


def main(config: dict[str, Any]) -> None:
    """Run until killed."""
    folder = Path(config["folder"])
    spark: Any = session("kills", master=config["master"], settings=_settings(folder, config))
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(KilledTable)
    jvm = spark.sparkContext._gateway.proc.pid  # pyright: ignore[reportPrivateUsage]
    running: dict[str, Any] = {}
    _write(folder / "driver.json", {"python": os.getpid(), "jvm": jvm})
    failures = 0
    while True:
        wanted = {each["name"]: each for each in json.loads((folder / "wanted").read_text())}
        for name, query in list(running.items()):
            if name not in wanted:
                query.stop()
            if not query.isActive:
                del running[name]
                if name in wanted:
                    failures += 1
                    _write(
                        folder / "failure.json", {"failures": failures, "last": str(query.exception())[:4000]}
                    )
        for name in wanted.keys() - running.keys():
            try:
                running[name] = _start(spark, config["bootstrap"], wanted[name])
            except Exception as error:  # noqa: BLE001  # whatever it is, a real driver would be started again
                failures += 1
                _write(folder / "failure.json", {"failures": failures, "last": str(error)[:4000]})
        time.sleep(0.05)  # A file tells nobody that it has changed.


def _settings(folder: Path, config: dict[str, Any]) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "700m",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": config["java"],
        "spark.executor.extraJavaOptions": config["java"],
        # On a cluster tasks do not inherit what the driver was started with.
        **{f"spark.executorEnv.{name}": os.environ[name] for name in ("EVERLOG_SPARK_STEPS", "PYTHONPATH")},
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.minBatchesToRetain": "5",
        # Planning in Python costs more than a batch of so few rows: idle queries ask seldom.
        "spark.sql.streaming.pollingDelay": "100ms",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
    }


def _start(spark: Any, bootstrap: str, wanted: dict[str, str]) -> Any:
    if "job" in wanted:
        job = Job(**json.loads(wanted["job"]))
        return job.start(spark, ROWS_A_BATCH)
    return (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", wanted["input"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_A_BATCH)
        .option("lowLatency", wanted["low_latency"])
        .load()
        .selectExpr("key", "value")
        .writeStream.format("everlog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "output")
        .option("commitGroup", "kills")
        .option("checkpointLocation", wanted["checkpoint"])
        .start()
    )


def _write(path: Path, content: object) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content))
    fresh.rename(path)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

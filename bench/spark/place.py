"""A session of Spark with its own connector beside ours, a broker, and the data that jobs read."""

import itertools
import shutil
import tempfile
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from tests.apache_kafka import Unavailable
from tests.spark_kafka import connector_jars

import everlog
from bench.spark import ready
from bench.spark.cost import JobCost
from bench.spark.jobs import Job
from everlog.spark.session import session

PARTITIONS = 4
_PEERS = ("spark-sql-kafka", "kafka-clients")
_numbers = itertools.count(1)
_FIRST_BATCH_LIMIT_S = 180.0
_MEMORY = Path("/dev/shm")
"""Where checkpoints of queries that are measured lie, if it is there: the disk is not what is measured."""


def peer_versions() -> dict[str, str]:
    """What is beside ours: the jars of Spark's own connector and of Kafka's client, by their file names."""
    found = connector_jars()
    return {} if isinstance(found, Unavailable) else jar_versions(found)


def jar_versions(jars: Iterable[Path]) -> dict[str, str]:
    """The releases of the two that have to do with the rates: `kafka-clients-3.9.2.jar` has one."""
    named = (jar.stem.rpartition("-") for jar in jars)
    return {name: release for name, _, release in named if name.startswith(_PEERS)}


class Place:
    """Where jobs run. pyspark is typed in part only, so `Any` for what is Spark's."""

    def __init__(self, bootstrap: str, folder: Path, settings: dict[str, str]) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        found = connector_jars()
        self.jvm_reason = found.reason if isinstance(found, Unavailable) else None
        """Why Spark's own connector cannot be had here, if so."""
        jars = {} if isinstance(found, Unavailable) else {"spark.jars": ",".join(str(jar) for jar in found)}
        self._settings = {
            "spark.ui.enabled": "false",
            "spark.driver.memory": "3g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            **jars,
            **settings,
        }
        self._filled: dict[str, tuple[int, int]] = {}
        """Rows and the size of a value, by topic."""
        self.spark: Any = self._session(low_latency=False)
        pickling: Any = cloudpickle
        # The workers of Spark do not know of this package.
        pickling.register_pickle_by_value(ready)
        self.spark.dataSource.register(ready.ReadySource)
        context: Any = self.spark.sparkContext
        self._jvm: int = context._gateway.proc.pid
        self._cost = JobCost(self._jvm)

    def turn_to_latency(self) -> None:
        """Go on with the settings of docs/guides/spark-sink.md for low latency, for all queries alike.

        In another session of the same virtual machine, which is warm.
        """
        self.spark.stop()
        self.spark = self._session(low_latency=True)

    def _session(self, *, low_latency: bool) -> Any:
        made = session("bench", master="local[2]", settings=self._settings, low_latency=low_latency)
        made.sparkContext.setLogLevel("ERROR")
        return made

    def cpu_s(self) -> float:
        """CPU seconds that the session has used so far, in all of its processes."""
        return self._cost.cpu_s()

    @property
    def jvm(self) -> int:
        """The process of the virtual machine; the Python workers descend from it."""
        return self._jvm

    @contextmanager
    def topic(self, partitions: int = PARTITIONS) -> Generator[str]:
        """A topic that is gone afterwards."""
        name = f"spark-{next(_numbers)}"
        with everlog.Admin(self.bootstrap) as admin:
            admin.create_topics([everlog.NewTopic(name, partitions)])
            try:
                yield name
            finally:
                admin.delete_topics([name])

    def rows(self, count: int, size: int) -> Any:
        """So many values of a size, made by Spark as they are needed, in as many tasks as there are cores."""
        made = self.spark.range(0, count, 1, 4)
        return made.selectExpr(f"cast(lpad(cast(id as string), {size}, '0') as binary) as value")

    def fill(self, topic: str, count: int, size: int) -> None:
        """Put values into a topic, and the same rows beside it as Parquet."""
        self._filled[topic] = count, size
        self.write(Job("", "write", "everlog", "at_least_once"), topic, count, size)
        rows = self.frame(Job("", "read", "everlog"), topic)
        # As in the topic: uncompressed.
        rows.write.option("compression", "none").parquet(str(self._parquet(topic)))

    def drop(self, topic: str) -> None:
        """Remove what `fill` put beside a topic."""
        shutil.rmtree(self._parquet(topic), ignore_errors=True)

    def frame(self, job: Job, topic: str) -> Any:
        """All of a topic that was filled, in the way of a job; of one that is not read, rows like its."""
        if job.format == ready.FORMAT:
            rows, size = self._filled[topic]
            return self.spark.read.format(job.format).options(rows=rows, size=size).load()
        if job.format == "parquet":
            return self.spark.read.parquet(str(self._parquet(topic)))
        reader = self.spark.read.format(job.format).option("subscribe", topic)
        return reader.option("kafka.bootstrap.servers", self.bootstrap).load()

    def read(self, job: Job, topic: str) -> None:
        """Read all of it to nowhere."""
        self.frame(job, topic).write.format("noop").mode("overwrite").save()

    def write(self, job: Job, topic: str, count: int, size: int) -> None:
        """Write rows to a topic in the way of a job; to nowhere if that is its format."""
        writer = self.rows(count, size).write.format(job.format)
        if job.format == "noop":
            writer.mode("overwrite").save()
            return
        writer.options(**self._sink_options(job, topic)).mode("append").save()

    @contextmanager
    def query(self, job: Job, source: str, target: str) -> Generator[Any]:
        """A query from topic to topic which has run its first batch, ours with the option for low latency.

        It is stopped at the end.
        """
        with everlog.Producer(self.bootstrap) as producer:
            producer.send(source, b"0 0")
        near = _MEMORY if _MEMORY.is_dir() else self.folder
        checkpoint = Path(tempfile.mkdtemp(prefix="everlog-checkpoint-", dir=near))
        frame = (
            self.spark.readStream.format(job.format)
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .options(**({"lowLatency": "true"} if job.format == "everlog" else {}))
            .load()
        )
        writer = frame.select("value").writeStream.format(job.format)
        writer = writer.options(**self._sink_options(job, target)).option(
            "checkpointLocation", str(checkpoint)
        )
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            deadline = time.monotonic() + _FIRST_BATCH_LIMIT_S
            while query.lastProgress is None:
                if not query.isActive:
                    raise RuntimeError(f"{job.name}: the query ended: {query.exception()}")
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{job.name}: no batch within {_FIRST_BATCH_LIMIT_S:.0f} s")
                time.sleep(0.1)
            yield query
        finally:
            query.stop()
            shutil.rmtree(checkpoint, ignore_errors=True)

    def count(self, topic: str) -> int:
        """How many records of a topic are committed."""
        with everlog.Consumer(
            self.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([(topic, partition.index) for partition in consumer.partitions_for(topic)])
            total, deadline = 0, time.monotonic() + 2.0
            while time.monotonic() < deadline:
                batch = consumer.poll_arrow(0.5)
                if batch is not None and batch.num_rows:
                    total += batch.num_rows
                    deadline = time.monotonic() + 2.0
            return total

    def close(self) -> None:
        """End the session."""
        self._cost.close()
        self.spark.stop()

    def _sink_options(self, job: Job, topic: str) -> dict[str, str]:
        options = {"kafka.bootstrap.servers": self.bootstrap, "topic": topic}
        return options | ({"deliveryGuarantee": job.guarantee} if job.guarantee else {})

    def _parquet(self, topic: str) -> Path:
        return self.folder / "parquet" / topic

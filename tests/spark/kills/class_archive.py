"""A JVM of Spark's that starts with a third of the work: its classes come from an archive, read and checked.

Most of what a driver costs before its first batch is the loading of 15,000 classes. `java_options` gives the
options for one that reads them from an archive of Java's own class data sharing; the first call makes it, by
one run of the queries that are killed later, and others use it for as long as Spark and Java stay the same.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from everlog.spark.java import use_java

CHEAP = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MOST_SECONDS = 900.0


def java_options(folder: Path) -> str:
    """The options of a JVM that starts quickly; the archive is in the folder. Only CHEAP if none was made."""
    archive = folder / f"spark-{_tag()}.jsa"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{archive.name}.{os.getpid()}"
        with tempfile.TemporaryDirectory(prefix="everlog-classes-") as scratch:
            _train(fresh, Path(scratch))
        if not fresh.exists():
            return CHEAP
        fresh.rename(archive)
    # A JVM that cannot use it, as its jars are others, goes on without; it need not say so each time.
    return f"{CHEAP} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"


def environment() -> dict[str, str]:
    """What a process that starts such a JVM gets: an archive is of no use with files beside the jars."""
    return {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}


def _tag() -> str:
    spec = importlib.util.find_spec("pyspark")
    java = use_java(dict(os.environ)).executable
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    named = f"{version} {spec.origin if spec else ''} {_version()}"
    return hashlib.sha256(named.encode()).hexdigest()[:12]


def _version() -> str:
    from importlib.metadata import version

    return version("pyspark")


def _train(archive: Path, scratch: Path) -> None:
    """Run the queries once in a JVM that writes down its classes when it ends."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.kills.class_archive", str(archive), str(scratch)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    if done.returncode:
        print(f"no archive of classes: {done.stderr[-500:]}", file=sys.stderr)


def main(archive: str, scratch: Path) -> None:
    """Topic to topic and topic to table, to the end; returns when the JVM is gone."""
    import everlog
    from everlog.spark.session import session
    from tests.spark.local_settings import local_settings

    dumping = f"{CHEAP} -XX:ArchiveClassesAtExit={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
    settings = {**local_settings(scratch), "spark.driver.extraJavaOptions": dumping}
    with everlog.Cluster() as cluster:
        with everlog.Admin(cluster.bootstrap_servers) as admin:
            admin.create_topics([everlog.NewTopic("input", 2), everlog.NewTopic("output", 2)])
        with everlog.Producer(cluster.bootstrap_servers) as producer:
            for number in range(20):
                producer.send("input", b'{"id":%d}' % number)
            producer.flush()
        spark: Any = session("classes", master="local[2]", settings=settings)
        jvm = spark.sparkContext._gateway.proc.pid  # pyright: ignore[reportPrivateUsage]
        table = {"path": str(scratch / "table"), "topic": "input", "valueFormat": "json"}
        for form, options in {
            "everlog": {"topic": "output"},
            "everlog_table": {**table, "valueSchema": "id long"},
        }.items():
            (
                spark.readStream.format("everlog")
                .options(**{"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "input"})
                .option("startingOffsets", "earliest")
                .load()
                .writeStream.format(form)
                .options(**{"kafka.bootstrap.servers": cluster.bootstrap_servers, **options})
                .option("checkpointLocation", str(scratch / form))
                .trigger(availableNow=True)
                .start()
                .awaitTermination()
            )
        gateway = spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # The JVM ends with its input, and writes the archive then.
    deadline = time.monotonic() + MOST_SECONDS
    while Path(f"/proc/{jvm}").exists() and gateway.proc.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

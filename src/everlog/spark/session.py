"""A Spark session that works from pip alone: this Python for the workers, a Java that fits."""

import importlib.util
import os
import socket
import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from everlog.model.errors import ConfigError
from everlog.spark.columnar.install import read_columns
from everlog.spark.java import use_java
from everlog.spark.quick_python import use_quick_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing"
LOW_LATENCY: Mapping[str, str] = {
    # The default one has several processes started for each file, to look at links and to set permissions.
    "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTS}.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.pollingDelay": "1ms",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
}
"""Settings for many small batches a second, checkpoints in a file system of this machine."""


def session(
    name: str = "everlog",
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    low_latency: bool = False,
) -> "SparkSession":
    """A session in this process, with these settings of Spark on top of ours.

    On `local[…]` batch reads of a topic are handed to Spark as columns, as those of Parquet are.
    With `low_latency` ours have those for many small batches a second, whose checkpoints are on this machine.
    ConfigError, in one line, if pyspark or a Java of 17 or newer is missing.

    ```python
    from everlog.spark.session import session

    spark = session(master="local[2]")
    orders = spark.read.format("everlog").option("kafka.bootstrap.servers", "127.0.0.1:9092")
    orders.option("subscribe", "orders").load().show()
    ```
    """
    prepare()
    use_quick_python(master)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master)
    ours = {**settings_for(master), **(LOW_LATENCY if low_latency else {})}
    for key, value in {**ours, **(settings or {})}.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    if not hasattr(made, "sparkContext"):
        return made  # One of Spark Connect (`spark.api.mode`): its virtual machine is out of reach.
    if low_latency:
        _write_no_checksums(made)
    # A session that was there already keeps its master, whichever was asked for.
    if in_this_process(str(made.sparkContext.master)):
        read_columns(made)
    return made


def _write_no_checksums(made: Any) -> None:
    """Have files of this machine written without a second one beside each, which has its checksum.

    Java has no way to set permissions that Hadoop would use, so a process is started for each file.
    """
    context = made.sparkContext
    files = context._jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration())
    files.setWriteChecksum(False)


def prepare(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set what Spark takes from the environment: Python and Java; ConfigError if one of them is missing."""
    require_pyspark()
    # Spark starts the first `python3` of PATH otherwise, which may not know our packages.
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    use_java(environment)


def require_pyspark() -> None:
    """ConfigError, with the command that installs it, if pyspark or what its pipelines need is missing."""
    missing = [
        name for name in ("pyspark", "pyarrow", "grpc", "yaml") if importlib.util.find_spec(name) is None
    ]
    if missing:
        names = " and ".join(missing)
        raise ConfigError(
            f"{names} cannot be imported by {sys.executable}: install what Spark needs with "
            f"`pip install 'everlog[spark]'`"
        )


def settings_for(master: str) -> dict[str, str]:
    """Our settings of Spark for this master; one on this machine keeps its traffic on loopback.

    There, rows pass between Java and Python by Unix sockets where the system has them, which is cheaper. On
    other machines their folder may have a path that is too long for them; that is for who knows it to set.
    """
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    if on_this_machine(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        if hasattr(socket, "AF_UNIX"):
            settings["spark.python.unix.domain.socket.enabled"] = "true"
    return settings


def in_this_process(master: str) -> bool:
    """Whether driver and executors are one virtual machine: `local`, `local[4]`, not `local-cluster[…]`."""
    return master == "local" or master.startswith("local[")


def on_this_machine(master: str) -> bool:
    """Whether driver and workers reach each other by loopback: `local[…]` and `spark://127.0.0.1:7077`."""
    if master.startswith("local"):
        return True
    hosts = master.removeprefix("spark://").split(",")
    return master.startswith("spark://") and all(
        host.rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]") for host in hosts
    )

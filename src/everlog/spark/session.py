"""A Spark session that works from pip alone: this Python for the workers, a Java that fits."""

import importlib.util
import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

from everlog.model.errors import ConfigError
from everlog.spark.java import use_java
from everlog.spark.quick_python import use_quick_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(
    name: str = "everlog", *, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """A session in this process, with these settings of Spark on top of ours.

    ConfigError, in one line, if pyspark or a Java of 17 or newer is missing.

    ```python
    from everlog.spark.session import session

    spark = session(master="local[2]")
    spark.read.format("everlog").option("subscribe", "orders").load()
    ```
    """
    prepare()
    use_quick_python(master)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**settings_for(master), **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


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
    """Our settings of Spark for this master; a master on this machine keeps its traffic on loopback."""
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    if on_this_machine(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def on_this_machine(master: str) -> bool:
    """Whether driver and workers reach each other by loopback: `local[…]` and `spark://127.0.0.1:7077`."""
    if master.startswith("local"):
        return True
    hosts = master.removeprefix("spark://").split(",")
    return master.startswith("spark://") and all(
        host.rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]") for host in hosts
    )

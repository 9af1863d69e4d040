"""A Spark session that works from pip alone: this Python for the workers, a Java that fits."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(
    name: str = "everlog", *, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """A session in this process, with these settings of Spark on top of ours.

    ```python
    from everlog.spark.session import session

    spark = session(master="local[2]")
    spark.read.format("everlog").option("subscribe", "orders").load()
    ```
    """
    # Spark starts the first `python3` of PATH otherwise, which may not know our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


_SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.python.filterPushdown.enabled": "true",
}

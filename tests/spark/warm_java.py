"""One Java for many runs of `everlog pipeline run`, which as users run it starts one each time.

Most of what a short run costs is a Java that is cold: 35 s of CPU for the first, 5 s for the second. Spark
has a way to use a Java that is there already: two variables of the environment, by which `spark-submit` tells
a Python program of its own. With them a run is what it always is, but for the `java` that it does not start.
One run at a time: a Java has one Spark context.
"""

import contextlib
import os
import struct
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

from everlog.spark.quick_python import use_quick_python
from everlog.spark.session import prepare
from tests.spark.standalone import spark_home

START_SECONDS = 180.0


@contextlib.contextmanager
def warm_java(folder: Path) -> Generator[dict[str, str]]:
    """Start a Java that waits for programs of Spark; what to add to their environment."""
    told = folder / "told"
    environment = {**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told), "SPARK_CONNECT_MODE": "0"}
    prepare(environment)
    use_quick_python("local", environment)
    home = Path(spark_home())
    log_path = folder / "java.log"
    with (
        log_path.open("wb") as log,
        subprocess.Popen(
            [str(home / "bin" / "spark-submit"), "--conf", "spark.driver.memory=1g", "pyspark-shell"],
            # Its end is the end of Java, too.
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
        ) as process,
    ):
        deadline = time.monotonic() + START_SECONDS
        while not told.exists():  # It is renamed into its place when it is whole.
            assert process.poll() is None, log_path.read_text(errors="replace")[-4000:]
            assert time.monotonic() < deadline, "Java did not tell its port"
            time.sleep(0.05)
        port, length = struct.unpack(">ii", told.read_bytes()[:8])
        yield {
            "PYSPARK_GATEWAY_PORT": str(port),
            "PYSPARK_GATEWAY_SECRET": told.read_bytes()[8 : 8 + length].decode(),
        }

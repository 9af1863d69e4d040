"""A Spark standalone cluster on loopback, from the package of PyPI alone: a master and workers, a JVM each.

As a program it runs until its input ends: `python -m tests.spark.standalone --workers 2`.
"""

import argparse
import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from everlog.spark.session import prepare

START_SECONDS = 180.0
_HOST = "127.0.0.1"


class NoRoom(Exception):
    """This machine cannot hold the cluster; the message says why."""


@dataclass(frozen=True, slots=True)
class Standalone:
    """A running cluster."""

    url: str
    """For `--master`."""
    folder: Path
    """Logs and the workers' directories."""

    def log(self, name: str) -> str:
        """What `master`, `worker-0`, … have said so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")


@contextlib.contextmanager
def standalone_cluster(
    folder: Path, workers: int = 2, *, cores: int = 1, memory_mb: int = 1024, hosts: Sequence[str] = (_HOST,)
) -> Generator[Standalone]:
    """Start a cluster and end it again; NoRoom if there is not enough memory or no Java.

    Workers go by the names of `hosts` in turn. Spark has no two attempts of a task at a time on one host.
    """
    _check_memory(workers * memory_mb + 2048)
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": _HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # REST has one port for all clusters of a machine; executors may die as often as they are killed.
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false -Dspark.deploy.maxExecutorRetries=-1",
    }
    prepare(environment)
    home = Path(spark_home())
    environment["SPARK_HOME"] = str(home)
    port = _free_port()
    with contextlib.ExitStack() as stack:

        def start(name: str, main: str, *arguments: str) -> "subprocess.Popen[bytes]":
            output = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )
            stack.callback(_end, process)
            return process

        folder.mkdir(parents=True, exist_ok=True)
        cluster = Standalone(f"spark://{_HOST}:{port}", folder)
        no_pages = ("--webui-port", "0")
        here = ("--host", _HOST, "--port", str(port))
        processes = {"master": start("master", "master.Master", *here, *no_pages)}
        for number in range(workers):
            name = f"worker-{number}"
            limits = ("--cores", str(cores), "--memory", f"{memory_mb}m", "--work-dir", str(folder / name))
            there = ("--host", hosts[number % len(hosts)])
            processes[name] = start(name, "worker.Worker", *there, *no_pages, *limits, cluster.url)
        _wait_for_workers(cluster, processes, workers)
        yield cluster


def _wait_for_workers(
    cluster: Standalone, processes: "dict[str, subprocess.Popen[bytes]]", workers: int
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while len(re.findall(r"Registering worker ", cluster.log("master"))) < workers:
        for name, process in processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended with {process.returncode}:\n{cluster.log(name)[-2000:]}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"the workers did not register:\n{cluster.log('master')[-2000:]}")
        time.sleep(0.2)  # a log tells nobody that it has grown


def _check_memory(wanted_mb: int) -> None:
    found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    if found is not None and int(found[1]) // 1024 < wanted_mb:
        raise NoRoom(f"a Spark cluster needs {wanted_mb} MB, {int(found[1]) // 1024} MB are free")


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as listener:
        return int(listener.getsockname()[1])


def spark_home() -> str:
    """Where PyPI's PySpark has all of Spark."""
    import pyspark

    assert pyspark.__file__ is not None
    return str(Path(pyspark.__file__).parent)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> None:
    """Run a cluster until the input ends; its address is the first line of output."""
    parser = argparse.ArgumentParser(
        description="A Spark standalone cluster on loopback, until the input ends."
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--memory-mb", type=int, default=1024, help="of each worker")
    given = parser.parse_args()
    with (
        TemporaryDirectory() as folder,
        standalone_cluster(
            Path(folder), given.workers, cores=given.cores, memory_mb=given.memory_mb
        ) as cluster,
    ):
        print(cluster.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

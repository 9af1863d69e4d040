"""`everlog pipeline` from nothing: made, seeded, run for ever on this machine, then on a Spark cluster."""

import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.pipelines.checkpoints import read_checkpoints
from everlog.pipelines.scaffold import TEMPLATES
from tests.pipelines.command import read
from tests.spark.standalone import NoRoom, standalone_cluster

PATIENCE_S = 900.0
COUNT = 300

# One run for ever and one on a cluster, in this order and in one project: starting Spark is what takes long.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600), pytest.mark.xdist_group("pipeline")]

STREAM = """
from everlog.pipelines import stream

@stream(trigger="200 milliseconds")
def copied():
    servers = spark.conf.get("everlog.bootstrap.servers")
    orders = (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    return (
        orders.select("key", "value")
        .writeStream.format("everlog")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "order-copies")
    )
"""


@dataclass
class Shop:
    """A project and the cluster that it reads and writes."""

    root: Path
    bootstrap: str

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "everlog.cli.main", "pipeline", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "EVERLOG_BOOTSTRAP": self.bootstrap}

    def call(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        done = subprocess.run(
            self.command(*arguments, "--json"), env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == code, (
            f"{arguments} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def lags(self) -> dict[str, int | None]:
        """Flow to lag, without Spark."""
        return {flow["flow"]: flow["lag"] for flow in self.call("status", str(self.root))["flows"]}

    def revenue(self) -> int:
        """Orders that the view `revenue` counts."""
        # pyarrow is not typed.
        datasets: Any = importlib.import_module("pyarrow.dataset")
        table = datasets.dataset(self.root / "storage" / "warehouse" / "revenue", format="parquet").to_table()
        return int(sum(table.column("orders").to_pylist()))


def wait_until(what: str, holds: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert process.poll() is None, f"the run ended before {what}: {process.communicate()}"
        assert time.monotonic() < deadline, f"not seen within {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.5)


def times_each(bootstrap: str, topic: str) -> set[int]:
    """How often each order is in a topic, committed."""
    found = Counter(json.loads(record.value or b"{}")["id"] for record in read(bootstrap, topic))
    return set(found.values())


def test_a_project_runs_for_ever_here_and_then_unchanged_on_a_cluster(tmp_path: Path) -> None:
    with everlog.Cluster() as cluster:
        shop = Shop(tmp_path / "shop", cluster.bootstrap_servers)
        shop.call("init", str(shop.root))
        (shop.root / "streams").mkdir()
        (shop.root / "streams" / "copied.py").write_text(STREAM)
        with everlog.Admin(shop.bootstrap) as admin:
            admin.create_topic("order-copies", 2)
        shop.call("seed", str(shop.root), "--count", str(COUNT))

        runs_for_ever_until_it_is_interrupted(shop)
        try:
            runs_on_a_cluster_from_where_it_was(shop, tmp_path / "spark")
        except NoRoom as reason:
            pytest.skip(f"ran on this machine, not on a cluster: {reason}")


def runs_for_ever_until_it_is_interrupted(shop: Shop) -> None:
    arguments = ("run", str(shop.root), "--continuous", "--interval", "10", "--master", "local[2]", "--json")
    process = subprocess.Popen(
        shop.command(*arguments),
        env=shop.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until("both flows read all", lambda: _at_the_end(shop, COUNT), process)
        lags = shop.lags()
        assert (lags["orders"], lags["copied"]) == (0, 0)
        assert shop.call("status", str(shop.root))["last_run"]["state"] == "running"
        assert "is running already" in _refused(shop)

        shop.call("seed", str(shop.root), "--count", str(COUNT))
        wait_until("they read what came while it ran", lambda: _at_the_end(shop, 2 * COUNT), process)

        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 0, out + err
    summary = json.loads(out)
    assert summary["state"] == "stopped"
    assert summary["passes"] >= 2
    flows = {flow["flow"]: flow for flow in summary["flows"]}
    assert set(flows) == {"orders", "large", "revenue", "copied"}
    assert (flows["orders"]["rows_in"], flows["copied"]["rows_in"]) == (2 * COUNT, 2 * COUNT)
    assert flows["copied"]["lag"] == 0
    assert flows["orders"]["rate"] > 0
    assert shop.call("status", str(shop.root))["last_run"]["state"] == "stopped"


def runs_on_a_cluster_from_where_it_was(shop: Shop, folder: Path) -> None:
    shop.call("seed", str(shop.root), "--count", str(COUNT))
    assert shop.lags()["orders"] == COUNT
    with standalone_cluster(folder, workers=1, cores=2) as spark:
        summary = shop.call(
            "run",
            str(shop.root),
            "--master",
            spark.url,
            "-c",
            "spark.executor.memory=512m",
            "-c",
            "spark.executor.cores=1",
            "-c",
            "spark.ui.enabled=false",
        )
        executors = [path.name for path in folder.glob("worker-*/app-*/*") if path.is_dir()]

    assert summary["state"] == "completed"
    assert len(executors) >= 2, "two executors shared the work"
    flows = {flow["flow"]: flow for flow in summary["flows"]}
    # Only what is new was read: places and tables have outlived the first run.
    assert (flows["orders"]["rows_in"], flows["copied"]["rows_in"]) == (COUNT, COUNT)
    assert shop.lags() == {"orders": 0, "copied": 0, "large": None}
    assert shop.revenue() == 3 * COUNT
    assert times_each(shop.bootstrap, "large-orders") == {3}
    assert times_each(shop.bootstrap, "order-copies") == {3}


def _at_the_end(shop: Shop, records: int) -> bool:
    # What `status` does, but here: a process each half second would slow down what is waited for.
    offsets = {each.flow: sum(each.done.values()) for each in read_checkpoints(shop.root / "storage")}
    if offsets.get("orders", 0) < records or offsets.get("copied", 0) < records:
        return False
    return len(read(shop.bootstrap, "large-orders")) == records // COUNT * _large()


def _large() -> int:
    """Orders of one seeding that are large, by the template's own data and setting."""
    made = runpy.run_path(str(TEMPLATES / "starter" / "data" / "orders.py"))["records"](COUNT)
    return sum(record["value"]["total"] >= 100 for record in made)


def _refused(shop: Shop) -> str:
    done = subprocess.run(
        shop.command("run", str(shop.root)), env=shop.environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    return done.stderr

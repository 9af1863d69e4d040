"""`everlog pipeline` from nothing: made, seeded, run for ever on this machine, then on a Spark cluster."""

import json
import runpy
from collections import Counter
from pathlib import Path

import pytest

import everlog
from everlog.pipelines.checkpoints import read_checkpoints
from everlog.pipelines.scaffold import TEMPLATES
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table
from tests.pipelines.command import Piped, interrupted, read, wait_until
from tests.pipelines.test_templates import parquet_rows
from tests.spark.standalone import NoRoom, standalone_cluster

COUNT = 300

# One run for ever and one on a cluster, in this order and in one project: starting Spark is what takes long.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600), pytest.mark.xdist_group("pipeline")]

STREAMS = """
from everlog.pipelines import stream

servers = spark.conf.get("everlog.bootstrap.servers")

def orders(**more):
    return (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .options(**more)
        .load()
    )

@stream(trigger="200 milliseconds")
def copied():
    return (
        orders(lowLatency="true").select("key", "value")
        .writeStream.format("everlog")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "order-copies")
    )

@stream(trigger="1 second")
def kept():
    return (
        orders().writeStream.format("everlog_table")
        .option("kafka.bootstrap.servers", servers)
        .option("path", spark.conf.get("everlog.storage") + "/lake/orders")
        .option("topic", "orders")
        .option("tableFormat", "iceberg")
        .option("schema", "id long, item string, total double")
        .option("mode", "append")
    )
"""


def times_each(bootstrap: str, topic: str) -> set[int]:
    """How often each order is in a topic, committed."""
    found = Counter(json.loads(record.value or b"{}")["id"] for record in read(bootstrap, topic))
    return set(found.values())


def revenue(shop: Piped) -> int:
    """Orders that the view `revenue` counts."""
    return sum(row["orders"] for row in parquet_rows(shop.storage / "warehouse" / "revenue"))


def times_kept(shop: Piped) -> set[int]:
    """How often each order is in the lake table."""
    place = str(shop.storage / "lake" / "orders")
    spec = TableSpec(name="orders", topic="orders", location=place, format="iceberg", schema="id long")
    found: list[int] = open_table(spec, create=False).read(["id"]).column("id").to_pylist()
    return set(Counter(found).values())


def test_a_project_runs_for_ever_here_and_then_unchanged_on_a_cluster(
    tmp_path: Path, java_for_runs: dict[str, str]
) -> None:
    with everlog.Cluster() as cluster:
        # A Java of its own for the run that is interrupted: a shared one would go on with what it was at.
        shop = Piped(tmp_path / "shop", cluster.bootstrap_servers, {})
        shop.call("init")
        (shop.root / "streams").mkdir()
        (shop.root / "streams" / "copied.py").write_text(STREAMS)
        with everlog.Admin(shop.bootstrap) as admin:
            admin.create_topic("order-copies", 2)
        shop.call("seed", "--count", str(COUNT))

        runs_for_ever_until_it_is_interrupted(shop)
        shop = Piped(shop.root, cluster.bootstrap_servers, java_for_runs)
        try:
            runs_on_a_cluster_from_where_it_was(shop, tmp_path / "spark")
        except NoRoom as reason:
            pytest.skip(f"ran on this machine, not on a cluster: {reason}")


def runs_for_ever_until_it_is_interrupted(shop: Piped) -> None:
    with shop.for_ever("--interval", "10") as process:
        wait_until("all flows read all", lambda: _at_the_end(shop, COUNT), process)
        lags = shop.lags()
        assert (lags["orders"], lags["copied"], lags["kept"]) == (0, 0, 0)
        assert shop.call("status")["last_run"]["state"] == "running"
        assert "is running already" in shop.refused("run")

        shop.call("seed", "--count", str(COUNT))
        wait_until("they read what came while it ran", lambda: _at_the_end(shop, 2 * COUNT), process)
        summary = interrupted(process)
    assert summary["passes"] >= 2
    flows = {flow["flow"]: flow for flow in summary["flows"]}
    assert set(flows) == {"orders", "large", "revenue", "copied", "kept"}
    assert {flows[name]["rows_in"] for name in ("orders", "copied", "kept")} == {2 * COUNT}
    assert flows["copied"]["lag"] == 0
    assert flows["orders"]["rate"] > 0
    assert shop.call("status")["last_run"]["state"] == "stopped"


def runs_on_a_cluster_from_where_it_was(shop: Piped, folder: Path) -> None:
    shop.call("seed", "--count", str(COUNT))
    assert shop.lags()["orders"] == COUNT
    with standalone_cluster(folder, workers=2) as spark:
        flows = shop.run("-c", "spark.executor.memory=512m", master=spark.url)
        executors = {path.relative_to(folder).parts[0] for path in folder.glob("worker-*/app-*/*/stderr")}

    assert executors == {"worker-0", "worker-1"}, "both shared the work"
    # Only what is new was read: places and tables have outlived the first run.
    assert {flows[name]["rows_in"] for name in ("orders", "copied", "kept")} == {COUNT}
    assert shop.lags() == {"orders": 0, "copied": 0, "kept": 0, "large": 0}
    assert revenue(shop) == 3 * COUNT
    assert times_kept(shop) == {3}
    assert times_each(shop.bootstrap, "large-orders") == {3}
    assert times_each(shop.bootstrap, "order-copies") == {3}


def _at_the_end(shop: Piped, records: int) -> bool:
    # What `status` does, but here: a process each half second would slow down what is waited for.
    offsets = {each.flow: sum(each.done.values()) for each in read_checkpoints(shop.storage)}
    if any(offsets.get(flow, 0) < records for flow in ("orders", "copied", "kept")):
        return False
    return len(read(shop.bootstrap, "large-orders")) == records // COUNT * _large()


def _large() -> int:
    """Orders of one seeding that are large, by the template's own data and setting."""
    made = runpy.run_path(str(TEMPLATES / "starter" / "data" / "orders.py"))["records"](COUNT)
    return sum(record["value"]["total"] >= 100 for record in made)

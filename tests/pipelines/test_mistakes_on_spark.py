"""Mistakes that only Spark finds: each is one line of `everlog pipeline`, and never a stack."""

import re
from pathlib import Path

import pytest

import everlog
from tests.pipelines.command import MASTER, Piped

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("pipeline"), pytest.mark.timeout(1800)]

STREAMS = """
from everlog.pipelines import stream

servers = spark.conf.get("everlog.bootstrap.servers")

def copies(condition="true", **options):
    frame = (
        spark.readStream.format("everlog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .options(**options)
        .load()
    )
    return (
        frame.where(condition).select("key", "value").writeStream.format("everlog")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "large-orders")
    )

@stream
def fine():
    return copies()

@stream
def missing():
    return copies(subscribe="nowhere")

@stream
def misspelled():
    return copies("prise > 5")
"""


def test_what_only_spark_finds_is_told_in_one_line(java_for_runs: dict[str, str], tmp_path: Path) -> None:
    with everlog.Cluster() as cluster:
        shop = Piped(tmp_path / "shop", cluster.bootstrap_servers, java_for_runs)
        shop.call("init")
        shop.call("seed", "--count", "20")
        declared = shop.root / "transformations" / "orders.py"
        good = declared.read_text()

        declared.write_text(good.replace('F.col("total") >=', 'F.col("prise") >='))
        said = shop.refused("dry-run")
        assert "flow large: " in said
        assert "with name `prise` cannot be resolved" in said
        declared.write_text(good)
        said = shop.refused("run", "--master", MASTER, "--refresh", "large")
        assert said.startswith("flow 'large' cannot be refreshed by itself: Spark does that with tables only")

        (shop.root / "streams").mkdir()
        (shop.root / "streams" / "copies.py").write_text(STREAMS)
        said = shop.refused("run", "--master", MASTER, "--refresh", "missing")
        assert said.startswith(f"there is no topic 'nowhere' at {shop.bootstrap}")
        said = shop.refused("run", "--master", MASTER, "--refresh", "misspelled")
        assert "with name `prise` cannot be resolved" in said

        assert shop.run("--refresh", "fine")["fine"]["rows_in"] == 20
        shop.call("seed", "--count", "20")
        places = [everlog.TopicPartition("orders", number) for number in range(2)]
        with everlog.Admin(shop.bootstrap) as admin:
            ends = admin.list_offsets(places)
            admin.delete_records({place: end.offset for place, end in ends.items() if end is not None})
        said = shop.refused("run", "--master", MASTER, "--refresh", "fine")
        assert "were deleted before they could be read: the log starts at" in said
        assert "Set failOnDataLoss=false to go on with what is there" in said

        yml = shop.root / "spark-pipeline.yml"
        yml.write_text(re.sub(r"(?m)^storage:.*", "storage: s3a://lake/shop", yml.read_text()))
        said = shop.refused("run", "--master", MASTER)
        assert said.startswith("Spark has no file system for s3a://")
        assert "set spark.jars.packages to org.apache.hadoop:hadoop-aws" in said


def test_a_dry_run_needs_no_broker(java_for_runs: dict[str, str], tmp_path: Path) -> None:
    shop = Piped(tmp_path / "shop", "127.0.0.1:1", java_for_runs)
    shop.call("init")
    (shop.root / "streams").mkdir()
    (shop.root / "streams" / "copies.py").write_text(STREAMS.partition("@stream\ndef missing")[0])

    flows = {flow["flow"]: flow["state"] for flow in shop.call("dry-run")["flows"]}

    assert set(flows) == {"orders", "large", "revenue", "fine"}
    assert "FAILED" not in flows.values()

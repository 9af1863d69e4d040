"""Batch reads within the streams of a project, whose session keeps the jars of each session to itself."""

import json
from pathlib import Path

import pytest

import everlog
from tests.pipelines.command import Piped, read

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("pipeline"), pytest.mark.timeout(1800)]

COUNT = 40

STREAMS = """
from everlog.pipelines import stream

servers = spark.conf.get("everlog.bootstrap.servers")
at = {"kafka.bootstrap.servers": servers, "subscribe": "orders", "includeHeaders": "false"}

def orders():
    return spark.readStream.format("everlog").options(**at, startingOffsets="earliest").load()

def known(session):
    records = session.read.format("everlog").options(**at).load()
    return records.selectExpr("partition AS p", "offset AS o", "value AS copy")

def with_known(batch, session):
    there = known(session)
    joined = batch.join(there, (batch["partition"] == there["p"]) & (batch["offset"] == there["o"]))
    return joined.selectExpr("CAST('{}' AS BINARY) AS key", "copy AS value")

def to_topic(writer):
    return writer.format("everlog").option("kafka.bootstrap.servers", servers).option("topic", "%s")

@stream
def joined():
    return to_topic(with_known(orders(), spark).writeStream)

@stream
def each_batch():
    def write(batch, number):
        rows = with_known(batch, batch.sparkSession)
        to_topic(rows.write).option("writeId", "each").option("batchId", number).mode("append").save()

    return orders().writeStream.foreachBatch(write)
"""


def test_a_stream_joins_a_topic_that_is_read_once_or_anew_in_each_batch(
    java_for_runs: dict[str, str], tmp_path: Path
) -> None:
    with everlog.Cluster() as cluster:
        shop = Piped(tmp_path / "shop", cluster.bootstrap_servers, java_for_runs)
        shop.call("init")
        (shop.root / "streams").mkdir()
        with everlog.Admin(shop.bootstrap) as admin:
            admin.create_topic("copies", 2)
        shop.call("seed", "--count", str(COUNT))
        (shop.root / "streams" / "joins.py").write_text(STREAMS.replace("%s", "copies"))

        shop.run("--refresh", "joined", "--refresh", "each_batch")

        found = sorted(json.loads(record.value or b"{}")["id"] for record in read(shop.bootstrap, "copies"))
        sent = sorted(json.loads(record.value or b"{}")["id"] for record in read(shop.bootstrap, "orders"))
        assert len(sent) == COUNT
        assert found == sorted([*sent, *sent])

"""Every template from its data to what its README promises, with real source and sink on a real cluster."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.mirror.mirror import Mirror
from everlog.mirror.notes import offset_maps, open_notes
from everlog.pipelines.scaffold import templates
from tests.pipelines.templates.templated import (
    PATIENCE_S,
    assert_holds,
    lag_of,
    produce,
    read,
    shape,
    templated,
)

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(1200)]


def test_orders_go_to_every_topic_whose_rule_they_meet(
    spark: Any, cluster: everlog.Cluster, tmp_path: Path
) -> None:
    made = templated(spark, cluster, tmp_path, "distribution")
    made.run()
    made.run()

    for topic in ("orders-eu", "orders-us", "orders-apac", "orders-large", "orders-unrouted"):
        assert_holds(made.bootstrap, topic, made.expected(topic))
    tagged = [record for record in read(made.bootstrap, "orders-eu") if record.headers]
    assert {record.headers for record in tagged} == {(("source", b"app"),)}
    assert lag_of(made.bootstrap, "distribution") == 0


def test_a_minute_is_written_once_when_it_is_over(
    spark: Any, cluster: everlog.Cluster, tmp_path: Path
) -> None:
    made = templated(spark, cluster, tmp_path, "windows")
    made.run()
    assert_holds(made.bootstrap, "order-volume", made.expected("order-volume"))

    late = {"order_id": "o-late", "total_cents": 1, "at": "2026-01-15T12:00:30Z"}
    closing = {"order_id": "o-next", "total_cents": 5, "at": "2026-01-15T12:30:00Z"}
    produce(made.bootstrap, "orders", [{"value": late}, {"value": closing}])
    made.run()

    rows = [json.loads(record.value or b"") for record in read(made.bootstrap, "order-volume")]
    minutes = [row["minute"] for row in rows]
    assert len(minutes) == len(set(minutes)) == 11
    assert sum(row["orders"] for row in rows) == 120


def test_orders_meet_their_payments_and_their_customers(
    spark: Any, cluster: everlog.Cluster, tmp_path: Path
) -> None:
    made = templated(spark, cluster, tmp_path, "joins")
    made.run()

    assert_holds(made.bootstrap, "order-payments", made.expected("order-payments"))
    assert_holds(made.bootstrap, "orders-enriched", made.expected("orders-enriched"))

    produce(
        made.bootstrap,
        "customers",
        [{"key": "c-012", "value": {"customer": "c-012", "name": "Lena", "tier": "gold"}}],
    )
    produce(
        made.bootstrap,
        "orders",
        [
            {
                "value": {
                    "order_id": "o-0100",
                    "customer": "c-012",
                    "total_cents": 1,
                    "at": "2026-01-15T15:00:00Z",
                }
            }
        ],
    )
    made.run("enriched")
    newest = [json.loads(record.value or b"") for record in read(made.bootstrap, "orders-enriched")][-1]
    assert (newest["order_id"], newest["name"], newest["tier"]) == ("o-0100", "Lena", "gold")


def test_a_changelog_becomes_the_current_state(spark: Any, cluster: everlog.Cluster, tmp_path: Path) -> None:
    made = templated(spark, cluster, tmp_path, "cdc")
    made.run()

    def rows() -> list[dict[str, Any]]:
        frame = spark.read.format("everlog_table").load(str(made.storage / "lake" / "customers"))
        found = frame.select("id", "name", "email", "tier").orderBy("id").collect()
        return [row.asDict() for row in found]

    assert rows() == made.expected("customers")

    delete = {"before": {"id": 1}, "after": None, "op": "d", "ts_ms": 1}
    produce(
        made.bootstrap,
        "shop.public.customers",
        [{"key": '{"id":1}', "value": delete}, {"key": '{"id":99}', "value": "no change at all"}],
    )
    made.run()
    assert rows() == made.expected("customers")[1:]
    assert [record.value for record in read(made.bootstrap, "shop.public.customers.dlq")] == [
        b"no change at all"
    ]


def test_bad_orders_go_aside_and_can_be_sent_back(
    spark: Any, cluster: everlog.Cluster, tmp_path: Path
) -> None:
    made = templated(spark, cluster, tmp_path, "dead_letters")
    made.run()

    checked, letters = made.expected("orders-checked"), made.expected("orders.dlq")
    assert_holds(made.bootstrap, "orders-checked", checked)
    assert_holds(made.bootstrap, "orders.dlq", letters)
    told = {
        shape(record.key, record.value): dict(record.headers)["dead-letter.error"]
        for record in read(made.bootstrap, "orders.dlq")
    }
    assert told == {shape(one["key"], one["value"]): one["error"].encode() for one in letters}

    replay = ["dead-letters", "replay", "orders.dlq", "-b", made.bootstrap, "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "everlog.cli", *replay], check=True, capture_output=True, text=True, timeout=60
    )
    assert json.loads(done.stdout)["replayed"] == len(letters)
    made.run(orders__currencies="EUR,GBP")

    mended = [one for one in letters if one["error"] == "UnknownCurrency"]
    assert_holds(made.bootstrap, "orders-checked", checked + mended)
    again = [dict(record.headers) for record in read(made.bootstrap, "orders.dlq")][len(letters) :]
    assert sorted(header["dead-letter.tries"] or b"" for header in again) == [b"2"] * 3
    headers = {record.headers for record in read(made.bootstrap, "orders-checked")}
    assert headers == {(("source", b"shop"),)}


def test_each_metric_has_a_partition_and_a_directory(
    spark: Any, cluster: everlog.Cluster, tmp_path: Path
) -> None:
    made = templated(spark, cluster, tmp_path, "metrics")
    made.run()

    assert_holds(made.bootstrap, "metrics-by-name", made.expected("metrics-by-name"))
    places: dict[bytes | None, set[int]] = {}
    for record in read(made.bootstrap, "metrics-by-name"):
        places.setdefault(record.key, set()).add(record.partition)
    assert {len(partitions) for partitions in places.values()} == {1}
    table = spark.read.parquet(str(made.storage / "warehouse" / "metrics"))
    counts = {row["metric"]: row["count"] for row in table.groupBy("metric").count().collect()}
    assert counts == {"cpu.load": 90, "mem.used": 90, "http.requests": 60}
    assert (made.storage / "warehouse" / "metrics" / "metric=cpu.load").is_dir()


def test_a_mirror_is_the_same_but_for_its_offsets(
    spark: Any, cluster: everlog.Cluster, tmp_path: Path
) -> None:
    made = templated(spark, cluster, tmp_path, "mirror")
    with everlog.Cluster() as other:
        target = {"mirror__target__bootstrap__servers": other.bootstrap_servers}
        made.run(**target)
        produce(made.bootstrap, "orders", [{"key": "c", "value": "new", "partition": 2, "timestamp": 5}])
        with everlog.Admin(made.bootstrap) as admin:
            admin.create_partitions({"orders": 4})
        produce(made.bootstrap, "orders", [{"key": "c", "value": "newer", "partition": 3, "timestamp": 6}])
        made.run(**target)
        made.run(**target)

        def whole(record: everlog.ConsumerRecord) -> tuple[Any, ...]:
            return record.partition, record.timestamp, record.key, record.value, record.headers

        source, copy = read(made.bootstrap, "orders"), read(other.bootstrap_servers, "orders")
        assert len(source) == 53
        assert [whole(record) for record in copy] == [whole(record) for record in source]
        with open_notes(mirror := Mirror(made.bootstrap, other.bootstrap_servers)) as consumer:
            known = offset_maps(consumer, mirror, "orders")
        there = {(record.partition, record.offset): whole(record) for record in copy}
        for record in source:
            answer = known[everlog.TopicPartition("orders", record.partition)].translate(record.offset)
            assert answer.is_exact
            assert there[record.partition, answer.offset] == whole(record)


def test_history_is_replayed_beside_a_live_job(spark: Any, cluster: everlog.Cluster, tmp_path: Path) -> None:
    made = templated(spark, cluster, tmp_path, "backfill")
    made.configure()
    live, backfill = made.streams()
    query = (
        live.declare()
        .queryName("live")
        .option("checkpointLocation", made.checkpoint("live"))
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    try:
        new: list[dict[str, Any]] = [
            {"key": f"c-{number}", "value": {"order_id": f"n-{number:04d}", "total_cents": 700}}
            for number in range(20)
        ]
        produce(made.bootstrap, "orders", new)
        history = (
            backfill.declare()
            .queryName("backfill")
            .option("checkpointLocation", made.checkpoint("backfill"))
            .trigger(availableNow=True)
            .start()
        )
        assert history.awaitTermination(PATIENCE_S)
        query.processAllAvailable()
        scores = [
            {
                "key": one["value"]["order_id"],
                "value": {"order_id": one["value"]["order_id"], "score": "small"},
            }
            for one in new
        ]
        assert_holds(made.bootstrap, "order-scores", [*made.expected("order-scores"), *scores])
        assert lag_of(made.bootstrap, "scores-live") == 0
        assert lag_of(made.bootstrap, "scores-backfill") == 0
    finally:
        query.stop()


def test_every_template_says_what_it_is() -> None:
    found = {template.name: template for template in templates()}
    assert {
        "distribution", "windows", "joins", "cdc", "dead_letters", "metrics", "mirror", "backfill",
    } <= set(found)  # fmt: skip
    for template in found.values():
        text = (template.root / "README.md").read_text()
        assert template.title
        assert len(template.title) <= 60
        assert all(f"`{topic}`" in text for topic in template.topics), template.name
        for line in ("everlog pipeline seed", "everlog pipeline run"):
            assert line in text, (template.name, line)

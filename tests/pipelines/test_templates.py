"""Every template as users have it: `everlog pipeline init`, `seed` and `run`, to what its README promises."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.mirror.mirror import Mirror
from everlog.mirror.notes import offset_maps, open_notes
from everlog.pipelines.scaffold import templates
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table
from tests.e2e.program import everlog as run_everlog
from tests.pipelines.command import (
    Piped,
    assert_holds,
    interrupted,
    lag_of,
    produce,
    read,
    shape,
    wait_until,
)

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("pipeline"), pytest.mark.timeout(1800)]

NewProject = Callable[..., Piped]


@pytest.fixture
def new_project(java_for_runs: dict[str, str], tmp_path: Path) -> Generator[NewProject]:
    """Makes a project of a template with its topics and its data, on a cluster of the test's own.

    Its path has what URIs spell in another way: a letter that is not in ASCII, and a blank where there is
    no declared flow, which Spark would forbid.
    """
    declares = {found.name: (found.root / "transformations").is_dir() for found in templates()}
    with everlog.Cluster() as cluster:

        def make(template: str, *seeding: str) -> Piped:
            folder = "pröject" if declares[template] else "my pröject"
            made = Piped(tmp_path / folder / template, cluster.bootstrap_servers, java_for_runs)
            made.call("init", "--template", template)
            made.call("seed", *seeding)
            return made

        yield make


def test_orders_go_to_every_topic_whose_rule_they_meet(new_project: NewProject) -> None:
    made = new_project("distribution")
    made.run()

    for topic in ("orders-eu", "orders-us", "orders-apac", "orders-large", "orders-unrouted"):
        assert_holds(made.bootstrap, topic, made.expected(topic))
    tagged = [record for record in read(made.bootstrap, "orders-eu") if record.headers]
    assert {record.headers for record in tagged} == {(("source", b"app"),)}
    assert lag_of(made.bootstrap, "distribution") == 0


def test_a_minute_is_written_once_when_it_is_over(new_project: NewProject) -> None:
    made = new_project("windows")
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


def test_orders_meet_their_payments_and_their_customers(new_project: NewProject) -> None:
    made = new_project("joins")
    made.run()

    assert_holds(made.bootstrap, "order-payments", made.expected("order-payments"))
    assert_holds(made.bootstrap, "orders-enriched", made.expected("orders-enriched"))

    def enriched() -> dict[str, dict[str, Any]]:
        found = [json.loads(record.value or b"") for record in read(made.bootstrap, "orders-enriched")]
        return {one["order_id"]: one for one in found}

    with made.for_ever("--interval", "0.5") as process:
        for number, name in (("o-0100", "Lena"), ("o-0101", "Lina")):
            changed = {"customer": "c-012", "name": name, "tier": "gold"}
            order = {"order_id": number, "customer": "c-012", "total_cents": 1, "at": "2026-01-15T15:00:00Z"}
            produce(made.bootstrap, "customers", [{"key": "c-012", "value": changed}])
            produce(made.bootstrap, "orders", [{"value": order}])
            wait_until(f"{number} is joined", lambda: number in enriched(), process)  # noqa: B023  at once
        interrupted(process)
    assert [enriched()[number]["name"] for number in ("o-0100", "o-0101")] == ["Lena", "Lina"]


def test_a_changelog_becomes_the_current_state(new_project: NewProject) -> None:
    made = new_project("cdc")
    made.run()
    place = str(made.storage / "lake" / "customers")
    spec = TableSpec(
        name="customers", topic="shop.public.customers", location=place, mode="upsert", schema="id long"
    )

    def rows() -> list[dict[str, Any]]:
        found = open_table(spec, create=False).read(["id", "name", "email", "tier"]).to_pylist()
        return sorted(found, key=lambda row: row["id"])

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


def test_bad_orders_go_aside_and_can_be_sent_back(new_project: NewProject) -> None:
    made = new_project("dead_letters")
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
    made.run("-c", "orders.currencies=EUR,GBP")

    mended = [one for one in letters if one["error"] == "UnknownCurrency"]
    assert_holds(made.bootstrap, "orders-checked", checked + mended)
    again = [dict(record.headers) for record in read(made.bootstrap, "orders.dlq")][len(letters) :]
    assert sorted(header["dead-letter.tries"] or b"" for header in again) == [b"2"] * 3
    headers = {record.headers for record in read(made.bootstrap, "orders-checked")}
    assert headers == {(("source", b"shop"),)}


def test_each_metric_has_a_partition_and_a_directory(new_project: NewProject) -> None:
    made = new_project("metrics")
    made.run()

    assert_holds(made.bootstrap, "metrics-by-name", made.expected("metrics-by-name"))
    places: dict[bytes | None, set[int]] = {}
    for record in read(made.bootstrap, "metrics-by-name"):
        places.setdefault(record.key, set()).add(record.partition)
    assert {len(partitions) for partitions in places.values()} == {1}
    place = made.storage / "lake" / "metrics"
    table = open_table(TableSpec(name="metrics", topic="metrics", location=str(place)), create=False)
    metrics: list[str] = table.read(["metric"]).column("metric").to_pylist()
    assert Counter(metrics) == {"cpu.load": 90, "mem.used": 90, "http.requests": 60}
    directories = {path.name for path in (place / "data").iterdir()}
    assert directories == {"metric=cpu.load", "metric=mem.used", "metric=http.requests"}


def test_a_mirror_is_the_same_but_for_its_offsets(new_project: NewProject) -> None:
    made = new_project("mirror")
    with everlog.Cluster() as other:
        target = f"mirror.target.bootstrap.servers={other.bootstrap_servers}"
        made.run("-c", target)
        produce(made.bootstrap, "orders", [{"key": "c", "value": "new", "partition": 2, "timestamp": 5}])
        with everlog.Admin(made.bootstrap) as admin:
            admin.create_partitions({"orders": 4})
        produce(made.bootstrap, "orders", [{"key": "c", "value": "newer", "partition": 3, "timestamp": 6}])
        made.run("-c", target)

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


def test_history_is_replayed_beside_a_live_job(new_project: NewProject) -> None:
    made = new_project("backfill")
    history, *rounds = [
        small_orders("h", 300),
        small_orders("a", 5),
        small_orders("b", 5),
        small_orders("c", 5),
    ]
    produce(made.bootstrap, "orders", history)
    with everlog.Admin(made.bootstrap) as admin:
        cut = {
            place: end.offset
            for place, end in admin.list_offsets(
                [everlog.TopicPartition("orders", n) for n in range(3)]
            ).items()
            if end is not None
        }

    def left() -> int:
        """History that is not scored yet, by the group of the backfill."""
        with everlog.Admin(made.bootstrap) as admin:
            done = admin.list_group_offsets("scores-backfill")
        return sum(end - (done[place].offset if place in done else 0) for place, end in cut.items())

    def scored(orders: list[dict[str, Any]]) -> bool:
        found = {(record.key or b"").decode() for record in read(made.bootstrap, "order-scores")}
        return found.issuperset(one["value"]["order_id"] for one in orders)

    assert left() == sum(cut.values()) == 390
    # Half a minute of history for each of the rounds, and more.
    with made.for_ever("-c", "backfill.records.per.batch=10") as process:
        wait_until("history is being scored", lambda: left() < 390, process)
        for new in rounds:
            before = left()
            produce(made.bootstrap, "orders", new)
            assert before > 0
            wait_until("new orders are scored", lambda: scored(new), process)  # noqa: B023  at once
            assert left() > 0, "new orders have not waited for the last of the history"
            wait_until("history goes on", lambda: left() < before, process)  # noqa: B023  at once
        assert left() > 0
        assert lag_of(made.bootstrap, "scores-backfill") > 0
        flows = {flow["flow"]: flow for flow in interrupted(process)["flows"]}
    assert flows["live"]["rows_in"] == 15
    assert 0 < flows["backfill"]["rows_in"] < 390

    made.run()

    new = [one for each in (history, *rounds) for one in each]
    scores = [
        {"key": one["value"]["order_id"], "value": {"order_id": one["value"]["order_id"], "score": "small"}}
        for one in new
    ]
    assert_holds(made.bootstrap, "order-scores", [*made.expected("order-scores"), *scores])
    assert lag_of(made.bootstrap, "scores-live") == lag_of(made.bootstrap, "scores-backfill") == 0


def small_orders(name: str, count: int) -> list[dict[str, Any]]:
    """New orders for the template `backfill`, whose score is small."""
    return [
        {"key": f"c-{number}", "value": {"order_id": f"{name}-{number:04d}", "total_cents": 700}}
        for number in range(count)
    ]


def test_the_demo_s_orders_become_minutes_and_rows_and_a_stream_begins_anew(new_project: NewProject) -> None:
    made = new_project("shop", "--count", "2000")
    made.run()

    minutes = [json.loads(record.value or b"") for record in read(made.bootstrap, "order-volume")]
    orders = [json.loads(record.value or b"") for record in read(made.bootstrap, "orders")]
    counted = Counter(f"{order['at'][:16]}:00Z" for order in orders)
    assert {row["minute"]: row["orders"] for row in minutes}.items() <= counted.items()
    assert len(minutes) == len({row["minute"] for row in minutes}) >= len(counted) - 4
    place = str(made.storage / "lake" / "orders")
    spec = TableSpec(name="orders", topic="orders", location=place, schema="order_id string")
    table = open_table(spec, create=False)
    assert sorted(table.read(["order_id"]).column("order_id").to_pylist()) == sorted(
        order["order_id"] for order in orders
    )

    flows = made.run("--full-refresh", "volume")

    assert set(flows) == {"volume"}
    assert flows["volume"]["rows_in"] == len(orders)
    again = [json.loads(record.value or b"") for record in read(made.bootstrap, "order-volume")]
    assert Counter(row["minute"] for row in again) == {row["minute"]: 2 for row in minutes}


def test_a_first_pipeline_is_checked_run_in_part_and_computed_anew(new_project: NewProject) -> None:
    made = new_project("starter", "--count", "100")

    def large() -> int:
        return len(read(made.bootstrap, "large-orders"))

    def revenue() -> int:
        return sum(row["orders"] for row in parquet_rows(made.storage / "warehouse" / "revenue"))

    checked = made.call("dry-run")
    assert {flow["flow"] for flow in checked["flows"]} == {"orders", "revenue", "large"}
    assert checked["rows_in"] == large() == 0
    assert made.call("status")["last_run"] is None
    assert not (made.storage / "warehouse" / "orders").exists()

    drawn, summary = made.run_at_a_terminal()
    once = large()
    assert (revenue(), once > 0) == (100, True)
    assert_all_flows_were_seen(drawn, summary, once)
    assert group_offsets(made, "large-orders") == (100, 0)

    made.call("seed", "--count", "100")
    flows = made.run("--refresh", "orders")
    assert flows["orders"]["rows_in"] == 100
    assert (revenue(), large()) == (100, once), "only the table was asked for"
    assert group_offsets(made, "large-orders") == (100, 100)

    flows = made.run("--full-refresh-all")
    assert group_offsets(made, "large-orders") == (200, 0)
    assert flows["orders"]["rows_in"] == flows["large"]["rows_in"] == 200
    # What went to a topic stays there; tables are what they would be had they never been.
    assert (revenue(), large()) == (200, 3 * once)
    assert len(parquet_rows(made.storage / "warehouse" / "orders")) == 200


def assert_all_flows_were_seen(drawn: list[str], summary: str, written: int) -> None:
    """Phase, rows, rates and lag in the line while 100 orders were read, and rows in the summary."""
    assert any(re.fullmatch(r"\d.*s  starting Spark on local\[2\]", line) for line in drawn), drawn
    for flow in ("orders", "large"):
        seen = rf"\d.*s  running declared flows  .*\b{flow} 100 rows [1-9][\d,]*/s lag 0\b"
        assert any(re.match(seen, line) for line in drawn), (flow, drawn)
    rows = [line.split() for line in summary.splitlines()]
    assert ["orders", "completed", "1", "100", "-"] in [row[:5] for row in rows], summary
    assert ["large", "completed", "1", "100", str(written)] in [row[:5] for row in rows], summary
    assert re.search(r"^pipeline starter completed in \d.*s, 200 rows read, lag 0$", summary, re.MULTILINE)


def group_offsets(made: Piped, group: str) -> tuple[int, int]:
    """How far a group has come in all partitions, and its lag, as `everlog group describe` tells."""
    ran = run_everlog("group", "describe", group, "--json", bootstrap=made.bootstrap)
    assert ran.code == 0, ran.err
    return sum(part["committed_offset"] for part in ran.json["partitions"]), ran.json["lag"]


def parquet_rows(place: Path) -> list[dict[str, Any]]:
    """The rows of a table of Spark's own, with the columns that directories are named by."""
    # pyarrow is not typed.
    datasets: Any = __import__("pyarrow.dataset", fromlist=["dataset"])
    found: list[dict[str, Any]] = datasets.dataset(place, partitioning="hive").to_table().to_pylist()
    return found


def test_every_template_says_what_it_is_and_is_run_here() -> None:
    found = {template.name: template for template in templates()}
    here = Path(__file__).read_text()
    assert [name for name in found if f'new_project("{name}"' not in here] == []
    for template in found.values():
        text = (template.root / "README.md").read_text()
        assert template.title
        assert len(template.title) <= 60
        assert all(f"`{topic}`" in text for topic in template.topics), template.name
        for line in ("everlog pipeline seed", "everlog pipeline run"):
            assert line in text, (template.name, line)

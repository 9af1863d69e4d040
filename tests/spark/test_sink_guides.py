"""The examples of README and of the guides to the sinks that need Spark run, to the end of what is there."""

import json
import re
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.tables.declared import declare
from everlog.tables.spec import TableSpec
from everlog.tables.table import open_table
from tests.spark.patience import patiently
from tests.tables.builders import read_all

ROOT = Path(__file__).resolve().parents[2]
GUIDES, README = ROOT / "docs" / "guides", ROOT / "README.md"
_BLOCK = re.compile(
    r"^<!-- not run: [^\n]*Spark[^\n]*-->\n```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)


@pytest.fixture
def bootstrap() -> Generator[str]:
    """A broker of the test's own: the guides use the same names for topics."""
    with everlog.Cluster() as cluster:
        yield cluster.bootstrap_servers


def blocks(guide: str, bootstrap: str, folder: Path) -> Iterator[Any]:
    """The examples that only this test runs, with its session, its broker and an end."""
    for found in _BLOCK.finditer((GUIDES / guide).read_text()):
        kept = [line for line in found["code"].splitlines() if "session" not in line]
        text = "\n".join(kept).replace("127.0.0.1:9092", bootstrap)
        # Spark writes files to where its Java was started.
        text = re.sub(r'"(checkpoints|lake)/', rf'"{folder}/\1/', text)
        text = text.replace(".start()", ".trigger(availableNow=True).start()")
        yield compile(text, guide, "exec")


def test_the_examples_of_the_sink_write_what_they_say(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    with everlog.Admin(bootstrap) as admin:
        for topic in ("orders", "orders-loud", "order-counts", "prices"):
            admin.create_topic(topic, 1)
    _send(bootstrap, [b"tea", b"rice"])
    frame = spark.createDataFrame([("apple", "3"), ("pear", "4")], "key string, value string")
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark, "frame": frame}

    ran = 0
    for code in blocks("spark-sink.md", bootstrap, tmp_path):
        patiently(partial(exec, code, namespace))
        ran += 1

    namespace["counts"].awaitTermination()
    assert ran == 4
    assert [record.value for record in read_all(bootstrap, "order-counts")] == [b"2"]
    assert [record.value for record in read_all(bootstrap, "orders-loud")] == [b"TEA", b"RICE"]
    assert sorted(record.value for record in read_all(bootstrap, "prices")) == [b"3", b"4"]
    assert namespace["orders"].isStreaming


def test_the_examples_of_the_tables_fill_them(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    with everlog.Admin(bootstrap) as admin:
        admin.create_topic("orders", 1)
    _send(bootstrap, [json.dumps({"id": n}).encode() for n in range(5)])
    spec = TableSpec(name="orders", topic="orders", location=str(tmp_path / "orders"), schema="id long")
    declare(bootstrap, spec, overwrite=True)
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark}

    for code in blocks("tables.md", bootstrap, tmp_path):
        patiently(partial(exec, code, namespace))
    namespace["query"].awaitTermination()
    namespace["totals"].awaitTermination()

    assert sorted(open_table(spec, create=False).read(["id"])["id"].to_pylist()) == list(range(5))
    totals = TableSpec(
        name="customer-totals", topic="-", location=str(tmp_path / "lake/customer-totals"), format="delta"
    )
    assert open_table(totals, create=False).read(["customer", "count"]).to_pylist() == [
        {"customer": "c-1", "count": 5}
    ]


def test_the_readme_s_query_copies_what_comes(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    """As it stands there, but for the broker's port and the directory."""
    found = re.search(r"^## On Spark\n+```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    text = found[1].replace("127.0.0.1:9092", bootstrap).replace('"checkpoints/', f'"{tmp_path}/checkpoints/')
    with everlog.Admin(bootstrap) as admin:
        admin.create_topic("orders", 1)

    def start() -> Any:
        namespace: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(text, str(README), "exec"), namespace)
        namespace["query"].processAllAvailable()
        return namespace["query"]

    query = patiently(start)
    try:
        _send(bootstrap, [b"tea", b"rice"])
        query.processAllAvailable()
    finally:
        query.stop()

    assert [record.value for record in read_all(bootstrap, "orders-copy")] == [b"tea", b"rice"]
    with everlog.Admin(bootstrap) as admin:
        assert [entry.lag for entry in admin.group_lag("orders-copy")] == [0]


def _send(bootstrap: str, values: list[bytes]) -> None:
    with everlog.Producer(bootstrap) as producer:
        for value in values:
            producer.send("orders", value, b"c-1")
        producer.flush()

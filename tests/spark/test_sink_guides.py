"""The examples of the guides to the sinks that need Spark run, each query to the end of what is there."""

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

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
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
        text = text.replace('"checkpoints/', f'"{folder}/checkpoints/')
        text = text.replace(".start()", ".trigger(availableNow=True).start()")
        yield compile(text, guide, "exec")


def test_the_examples_of_the_sink_write_what_they_say(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    with everlog.Admin(bootstrap) as admin:
        for topic in ("orders", "orders-loud", "prices"):
            admin.create_topic(topic, 1)
    _send(bootstrap, [b"tea", b"rice"])
    frame = spark.createDataFrame([("apple", "3"), ("pear", "4")], "key string, value string")
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark, "frame": frame}

    ran = 0
    for code in blocks("spark-sink.md", bootstrap, tmp_path):
        patiently(partial(exec, code, namespace))
        ran += 1

    assert ran == 3
    assert [record.value for record in read_all(bootstrap, "orders-loud")] == [b"TEA", b"RICE"]
    assert sorted(record.value for record in read_all(bootstrap, "prices")) == [b"3", b"4"]
    assert namespace["orders"].isStreaming


def test_the_example_of_the_tables_fills_the_table(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    with everlog.Admin(bootstrap) as admin:
        admin.create_topic("orders", 1)
    _send(bootstrap, [json.dumps({"id": n}).encode() for n in range(5)])
    spec = TableSpec(name="orders", topic="orders", location=str(tmp_path / "orders"), schema="id long")
    declare(bootstrap, spec, overwrite=True)
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark}

    (code,) = blocks("tables.md", bootstrap, tmp_path)
    patiently(partial(exec, code, namespace))
    namespace["query"].awaitTermination()

    assert sorted(open_table(spec, create=False).read(["id"])["id"].to_pylist()) == list(range(5))


def _send(bootstrap: str, values: list[bytes]) -> None:
    with everlog.Producer(bootstrap) as producer:
        for value in values:
            producer.send("orders", value)
        producer.flush()

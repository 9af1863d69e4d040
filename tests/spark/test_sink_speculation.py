"""D2: Spark runs a second attempt beside a slow one (`spark.speculation`): the rows of one of them count."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from everlog import Admin, Consumer, TopicPartition
from everlog.spark.quick_python import script_for
from tests.e2e.program import environment
from tests.spark.conftest import NewTopic
from tests.spark.java_here import require_java
from tests.spark.sink_query import PATIENCE_S, committed_values
from tests.spark.speculating import COMMITTED, ROWS, SLOW
from tests.spark.standalone import NoRoom, Standalone, standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("java"), pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[Standalone]:
    """Two executors on what Spark takes for two hosts."""
    require_java()
    try:
        with standalone_cluster(tmp_path / "spark", hosts=("127.0.0.1", "localhost")) as found:
            yield found
    except NoRoom as reason:
        pytest.skip(str(reason))


def test_the_rows_of_an_attempt_that_another_overtakes_are_not_seen_though_it_wakes_after_the_commit(
    everlog_bootstrap: str, new_topic: NewTopic, cluster: Standalone, tmp_path: Path
) -> None:
    writes: dict[str, dict[str, Any]] = {}
    for name in ("stream-middle", "batch-begin", "batch-end"):
        (tmp_path / name).mkdir()
        kind, _, at = name.partition("-")
        place = str(tmp_path / name)
        writes[name] = {"stream": kind == "stream", "topic": new_topic(), "slowAt": at, "slowFolder": place}

    run(cluster, everlog_bootstrap, tmp_path, [*writes.values()])

    left = {name: an_attempt_was_overtaken(tmp_path / name) for name in writes}
    assert "another producer has taken it over" in left["stream-middle"]
    assert (left["batch-begin"], left["batch-end"]) == ("", "")
    for write in writes.values():
        found = committed_values(everlog_bootstrap, write["topic"])
        assert Counter(found) == Counter(str(number) for number in range(ROWS))
    # What the slow one has sent is there, aborted; one that saw at its begin that all was over sent nothing.
    behind = {name: in_the_log(everlog_bootstrap, write["topic"]) for name, write in writes.items()}
    assert behind == {"stream-middle": ROWS + 5, "batch-begin": ROWS, "batch-end": ROWS + 10}
    with Admin(everlog_bootstrap) as admin:
        found = [one.transactional_id for one in admin.list_transactions(states=["Ongoing"])]
    assert [one for one in found if "spark" in one] == []


def run(cluster: Standalone, bootstrap: str, folder: Path, writes: list[dict[str, Any]]) -> None:
    config = {"master": cluster.url, "bootstrap": bootstrap, "folder": str(folder), "writes": writes}
    python = folder / "python"
    python.write_text(script_for(sys.executable))
    python.chmod(0o755)
    paths = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYSPARK_PYTHON": str(python)}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.speculating", json.dumps(config)],
        cwd=ROOT,
        env=environment(**paths, PYSPARK_DRIVER_PYTHON=str(python)),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]


def an_attempt_was_overtaken(folder: Path) -> str:
    """See that a second attempt ended before the commit, the first one after; what the first ended with."""
    assert json.loads((folder / COMMITTED).read_text()) == ["0-1", "1-0"]
    assert (folder / f"{SLOW}.woke").exists()
    return (folder / f"{SLOW}.ended").read_text()


def in_the_log(bootstrap: str, topic: str) -> int:
    """How many records there are, committed or not."""
    with Consumer(bootstrap, isolation_level="read_uncommitted", auto_offset_reset="earliest") as consumer:
        place = TopicPartition(topic, 0)
        end = consumer.end_offsets(place)[place]
        consumer.assign([place])
        count = 0
        while consumer.position(place) < end:
            count += len(consumer.poll(PATIENCE_S))
        return count

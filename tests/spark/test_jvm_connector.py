"""Spark's own connector for Kafka works on Everlog as it is: read and written, in batches and in streams.

It needs jars from Maven and so a session of its own: `jvm_connector_checks` runs all checks in one process.
"""

import json
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest

from tests.apache_kafka import Unavailable
from tests.spark_kafka import connector_jars

pytestmark = [
    pytest.mark.spark,
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.xdist_group("java"),
    pytest.mark.timeout(600),  # The first test waits for a session of Spark and all checks.
]

Saw = dict[str, Any]


@pytest.fixture(scope="module")
def found(everlog_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Saw]:
    """What each check saw, or how it failed."""
    jars = connector_jars()
    if isinstance(jars, Unavailable):
        pytest.skip(f"Spark's connector for Kafka cannot be had: {jars.reason}")
    # Maven may not have the release that fits: docs/compatibility.md says which was tested.
    print(f"PySpark {version('pyspark')} with {', '.join(jar.name for jar in jars)}")
    folder = tmp_path_factory.mktemp("jvm-connector")
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.jvm_connector_checks", everlog_bootstrap, str(folder)],
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert (folder / "found.json").exists(), f"ended with {done.returncode}:\n{done.stderr[-4000:]}"
    outcome: dict[str, Saw] = json.loads((folder / "found.json").read_text())
    return outcome


def saw(found: dict[str, Saw], check: str) -> Any:
    """What a check saw; the test fails with its traceback if it failed."""
    assert "saw" in found[check], found[check]["failed"]
    return found[check]["saw"]


def test_a_batch_has_every_column(found: dict[str, Saw]) -> None:
    assert saw(found, "batch_read") == [
        ["k", "one", True, 0, 0, 1.0, 0, [["h", "x"], ["h", "y"]]],
        ["gone", None, True, 1, 0, 2.0, 0, []],
        [None, "three", True, 1, 1, 3.0, 0, []],
    ]


def test_offsets_are_found_by_time(found: dict[str, Saw]) -> None:
    assert saw(found, "batch_read_from_a_time") == ["3", "4", "5", "6", "7"]


def test_a_frame_is_written_with_keys_headers_and_partitions(found: dict[str, Saw]) -> None:
    expected = sorted([i % 3, f"k{i}", f"v{i}", [["h", "b'x'"]]] for i in range(30))

    assert saw(found, "batch_sink") == expected


def test_a_stream_goes_from_topic_to_topic_and_on_after_a_restart(found: dict[str, Saw]) -> None:
    stream = saw(found, "stream_to_topic")

    assert stream["values"] == list(range(200))
    assert all(count >= 2 for count in stream["batches"])


def test_aborted_transactions_are_left_out_and_markers_are_no_data_loss(found: dict[str, Saw]) -> None:
    committed = sorted(f"{number}.{i}" for number in (0, 1, 3) for i in range(5))

    assert saw(found, "read_committed") == {"batch": committed, "stream": committed, "all": 20}


def test_a_checkpoint_of_the_connector_is_gone_on_with_by_our_source_and_back(found: dict[str, Saw]) -> None:
    chain = saw(found, "one_checkpoint_for_both")

    assert chain["values"] == sorted(f"{turn}.{i}" for turn in range(3) for i in range(10))
    assert chain["ends"] == [10, 20, 30]


def test_state_that_one_source_began_is_gone_on_with_by_the_other(found: dict[str, Saw]) -> None:
    kept = saw(found, "state_that_both_keep")

    assert {began: one["refused"] for began, one in kept.items()} == {"kafka": "", "everlog": ""}
    assert kept["kafka"]["counts"] == [[key, count] for key in "01" for count in ("10", "15", "5")]
    assert kept["everlog"]["counts"] == [[key, count] for key in "01" for count in ("10", "5")]

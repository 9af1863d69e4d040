"""`everlog mirror`: groups that move to another cluster."""

import json
import subprocess
import sys
from collections.abc import Generator
from importlib import import_module
from typing import Any

import pytest

import everlog
from everlog.mirror.mirror import Mirror
from everlog.mirror.slices import write_slice

pa: Any = import_module("pyarrow")
PLACE = everlog.TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def mirrored() -> Generator[Mirror]:
    """Ten orders and their mirror, and a group that has read seven of them."""
    with everlog.Cluster() as source, everlog.Cluster() as target:
        mirror = Mirror(source.bootstrap_servers, target.bootstrap_servers)
        with everlog.Admin(mirror.source) as admin:
            admin.create_topic("orders", 1)
            admin.alter_group_offsets("billing", {PLACE: 7})
            admin.alter_group_offsets("ahead", {PLACE: 12})
        mirror.prepare({"orders"})
        for first in (0, 5):
            rows = range(first, first + 5)
            batch = pa.record_batch(
                {
                    "value": [f"order {row}" for row in rows],
                    "partition": pa.array([0] * 5, pa.int32()),
                    "offset": pa.array(rows, pa.int64()),
                }
            )
            write_slice(mirror, PLACE, [batch])
        yield mirror


def offsets(mirror: Mirror, *args: str) -> "subprocess.CompletedProcess[str]":
    command = ["mirror", "offsets", "-b", mirror.source, "--target", mirror.target, *args]
    return subprocess.run(
        [sys.executable, "-m", "everlog.cli", *command], capture_output=True, text=True, timeout=60
    )


def test_a_group_is_shown_where_it_goes_on_and_nothing_changes(mirrored: Mirror) -> None:
    done = offsets(mirrored, "--group", "billing")

    assert done.returncode == 0, done.stderr
    # Behind the first five lies the marker of their transaction.
    assert done.stdout.splitlines()[1].split() == ["orders", "0", "7", "orders", "8", "exactly"]
    with everlog.Admin(mirrored.target) as admin:
        assert admin.list_group_offsets("billing") == {}


def test_a_group_is_moved_when_told_so(mirrored: Mirror) -> None:
    done = offsets(mirrored, "--group", "billing", "--execute", "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["partitions"] == [
        {
            "topic": "orders",
            "partition": 0,
            "committed_offset": 7,
            "mirror_topic": "orders",
            "mirror_offset": 8,
            "exact": True,
        }
    ]
    with everlog.Admin(mirrored.target) as admin:
        assert admin.list_group_offsets("billing")[PLACE].offset == 8


def test_a_group_ahead_of_the_mirror_is_told_so(mirrored: Mirror) -> None:
    done = offsets(mirrored, "--group", "ahead")

    assert done.stdout.splitlines()[1].split()[-2:] == ["11", "earlier"]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--group", "nobody"], 1, "group 'nobody' has committed no offsets at"),
        (["--group", "billing", "--topic", "other"], 1, "has committed no offsets in other"),
        (["--group", "billing", "--mirror-topic", "copy"], 2, "expected a name with {topic} in it"),
        (["--group", "billing", "--mirror-topic", "x.{topic}"], 1, "expected topic x.orders.offset-map"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    mirrored: Mirror, args: list[str], code: int, message: str
) -> None:
    done = offsets(mirrored, *args)

    assert done.returncode == code
    assert message in done.stderr.splitlines()[0]

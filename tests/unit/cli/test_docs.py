"""docs/cli.md tells of every command, and of the fields that its JSON has."""

import re
from pathlib import Path

import click
import pytest

from everlog.cli.log_files import AbortedEntry, ProducerEntry
from everlog.cli.measure import Throughput, latencies
from everlog.cli.record_lines import record_shape
from everlog.model.topics import TopicPartition
from everlog.records.reader import Record
from tests.unit.cli.test_commands import LEAVES, ids

TEXT = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=ids(LEAVES))
def test_every_command_is_in_the_docs(path: tuple[str, ...], command: click.Command) -> None:
    group = re.search(rf"^## everlog {path[0]}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)

    assert group is not None
    assert f"{' '.join(path)}" in group.group(0)


@pytest.mark.parametrize(
    "names",
    [
        record_shape(TopicPartition("t", 0), Record(0, 0, None, None, ())).keys(),
        Throughput(0, 0, 0.0).shape().keys(),
        latencies([]).shape().keys(),
        AbortedEntry.__dataclass_fields__.keys(),
        ProducerEntry.__dataclass_fields__.keys(),
    ],
    ids=["consume", "perf", "latency", "txnindex", "snapshot"],
)
def test_the_fields_of_shared_shapes_are_in_the_docs(names: list[str]) -> None:
    assert [name for name in names if f"`{name}`" not in TEXT and f'"{name}"' not in TEXT] == []

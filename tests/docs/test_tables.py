"""The tables of the guides say what the code says: settings, metrics, arguments, fixtures, calls."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any, cast, get_type_hints

import pytest

import everlog
from everlog.client.core.consumer.metrics import ConsumerMetrics
from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.dead_letters import DeadLetterSettings
from everlog.client.core.producer.metrics import ProducerMetrics
from everlog.client.core.producer.settings import ProducerSettings
from everlog.client.core.settings import ConnectionSettings
from everlog.embedded import pytest_plugin
from tests.docs.test_guides import GUIDES

SAID_IN_WORDS = {"acks": "all", "retries": "no end", "None": "none"}
"""Defaults that a reader would not want to see as they are."""


def rows(guide: str, header: str) -> Iterator[list[str]]:
    """The cells of the tables whose first column is called so."""
    within = False
    for line in (GUIDES / guide).read_text().splitlines():
        if line.startswith(f"| {header} |"):
            within = True
        elif not line.startswith("|"):
            within = False
        elif within and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def named(guide: str, header: str) -> list[str]:
    """The names in the first column."""
    return [name for row in rows(guide, header) for name in re.findall(r"`([^`]+)`", row[0])]


@pytest.mark.parametrize(
    ("guide", "settings"),
    [
        ("producer.md", ProducerSettings),
        ("consumer.md", ConsumerSettings),
        ("dead-letters.md", DeadLetterSettings),
    ],
)
def test_a_guide_has_each_setting_with_its_default_and_meaning(guide: str, settings: type[Any]) -> None:
    shared = {field.name for field in dataclasses.fields(ConnectionSettings)}
    own = {
        field.name: field
        for field in dataclasses.fields(settings)
        if field.metadata and (field.name not in shared or settings is DeadLetterSettings)
    }

    assert named(guide, "setting") == list(own)
    for cells in rows(guide, "setting"):
        for name in re.findall(r"`([^`]+)`", cells[0]):
            default = own[name].default
            shown = cells[1].split("`")[1] if "`" in cells[1] else cells[1]
            assert shown in _shapes(name, default), (name, cells[1], default)
            assert cells[2].startswith(own[name].metadata["meaning"]), (name, cells[2])


def _shapes(name: str, default: Any) -> set[str]:
    """The ways to write a default."""
    words = {SAID_IN_WORDS[key] for key in (name, str(default)) if key in SAID_IN_WORDS}
    shapes = {str(default), repr(default), f'"{default}"', *words}
    if isinstance(default, tuple):
        shapes.add(str([*cast("tuple[object, ...]", default)]))
    return shapes


@pytest.mark.parametrize(
    ("guide", "metrics"), [("producer.md", ProducerMetrics), ("consumer.md", ConsumerMetrics)]
)
def test_a_guide_has_each_metric(guide: str, metrics: type[Any]) -> None:
    assert named(guide, "metric") == list(get_type_hints(metrics))


def test_the_guide_to_testing_has_each_argument_of_a_cluster_and_each_fixture() -> None:
    arguments = [*inspect.signature(everlog.Cluster.__init__).parameters][1:]
    fixtures = [name for name in vars(pytest_plugin) if name.startswith("everlog_")]

    assert named("testing.md", "argument") == arguments
    assert {*named("testing.md", "fixture"), "everlog_cluster_options"} == set(fixtures)


def test_the_guide_to_admin_has_each_call() -> None:
    text = (GUIDES / "admin.md").read_text()
    calls = [name for name, _ in inspect.getmembers(everlog.Admin, inspect.isfunction) if name[0] != "_"]

    assert [name for name in calls if not re.search(rf"\b{name}\b", text)] == []

"""Fixtures for tests that need a broker: one cluster a session, a topic and clients for each test.

Everything is imported when a fixture is first used: a test run that uses none of them pays nothing.
"""

import re
import sys
import uuid
from collections.abc import Generator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from everlog import Cluster, Consumer, Producer

_TOPIC_NAME_LIMIT = 200
_PATIENCE_MS = 10_000
"""How long a broker may take to make a topic, and to delete it: one that a test has stopped never does."""


class _AsTheyAre:
    """Finds Everlog's modules before pytest does.

    Whatever comes with a plugin pytest takes for tests, whose asserts it compiles anew: of hundreds of
    modules that takes several times as long as a broker's start.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("everlog.") else None


_OURS = _AsTheyAre()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings of the session's cluster."""
    if _OURS not in sys.meta_path:
        sys.meta_path.insert(0, _OURS)  # Here, as a conftest.py may import everlog before `pytest_configure`.
    parser.addini("everlog_processes", "run the broker of everlog_cluster as a child process", "bool", False)
    parser.addini("everlog_settings", "settings of its brokers, one key=value a line", "linelist", [])


@pytest.fixture(scope="session")
def everlog_cluster_options(pytestconfig: pytest.Config) -> dict[str, Any]:
    """The arguments of the session's `everlog.Cluster`; override the fixture to choose others."""
    pairs = (str(line).partition("=") for line in pytestconfig.getini("everlog_settings"))
    return {
        "processes": pytestconfig.getini("everlog_processes"),
        "settings": {key.strip(): value.strip() for key, _, value in pairs},
    }


@pytest.fixture(scope="session")
def everlog_cluster(everlog_cluster_options: dict[str, Any]) -> "Generator[Cluster]":
    """An Everlog cluster for all tests of the session."""
    from everlog import Cluster

    with Cluster(**everlog_cluster_options) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def everlog_bootstrap(everlog_cluster: "Cluster") -> str:
    """Where the session's cluster listens, for any Kafka client."""
    return everlog_cluster.bootstrap_servers


@pytest.fixture
def everlog_topic(request: pytest.FixtureRequest, everlog_bootstrap: str) -> "Generator[str]":
    """A topic of the test's own, with one partition; it is gone after the test.

    `@pytest.mark.everlog_topic(partitions=3, configs={"cleanup.policy": "compact"})` chooses others.
    """
    from everlog import Admin, ErrorCode, ItemsRefused

    marker = request.node.get_closest_marker("everlog_topic")
    options: dict[str, Any] = {"partitions": 1, **(marker.kwargs if marker is not None else {})}
    test = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:_TOPIC_NAME_LIMIT]
    name = f"{test}-{uuid.uuid4().hex[:8]}"
    with Admin(everlog_bootstrap, default_api_timeout_ms=_PATIENCE_MS) as admin:
        admin.create_topic(name, **options)
        yield name
        try:
            admin.delete_topics([name])
        except ItemsRefused as refused:
            # The test may have done so itself.
            if refused.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise


@pytest.fixture
def everlog_producer(everlog_bootstrap: str) -> "Generator[Producer]":
    """A producer for one test."""
    from everlog import Producer

    with Producer(everlog_bootstrap) as producer:
        yield producer


@pytest.fixture
def everlog_consumer(everlog_bootstrap: str, everlog_topic: str) -> "Generator[Consumer]":
    """A consumer of the test's topic from its beginning, in a group of its own."""
    from everlog import Consumer

    group = f"{everlog_topic}-group"
    options: dict[str, Any] = {
        "group_id": group,
        "group_protocol": "consumer",
        "auto_offset_reset": "earliest",
    }
    with Consumer(everlog_bootstrap, topics=[everlog_topic], **options) as consumer:
        yield consumer


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", "everlog_topic(partitions, configs): how the topic of the fixture everlog_topic is made"
    )

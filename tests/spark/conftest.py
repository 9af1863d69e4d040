"""One Spark session for all tests that use it: a JVM takes long to start, so they share one worker.

Tests that start a Java of their own are the group `java`, so that not all of them do so at the same time.
"""

import uuid
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

import everlog
from tests.spark.java_here import require_java
from tests.spark.local_settings import local_settings

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # Before xdist reads the marks.
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Keep what uses the session on one worker of xdist."""
    for item in items:
        if HERE in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Generator[Any]:
    """A session of Spark on two threads; pyspark is typed in part only, so `Any`."""
    require_java()
    from everlog.spark.session import session

    folder = tmp_path_factory.mktemp("spark")
    found = session("tests", master="local[2]", settings=local_settings(folder))
    found.sparkContext.setLogLevel("ERROR")
    yield found
    found.stop()


NewTopic = Callable[..., str]


@pytest.fixture
def new_topic(everlog_bootstrap: str) -> NewTopic:
    """Makes topics with names of their own: `new_topic(partitions=3, **configs)`."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        with everlog.Admin(everlog_bootstrap) as admin:
            admin.create_topics([everlog.NewTopic(name, partitions, configs=settings)])
        return name

    return make

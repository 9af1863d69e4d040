"""Fixtures for all tests that need a running broker.

The broker under test is Everlog, started once for each test session (each xdist worker has its own). With
`--broker apache` it is Apache Kafka from Maven, and with `EVERLOG_TEST_BOOTSTRAP` whatever listens there;
both show whether a failing test or Everlog is wrong.
"""

import os
import signal
import uuid
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.nodeid import NodeId
from hypothesis import settings

from tests import apache_kafka, brokers
from tests.again import pytest_sessionfinish

__all__ = ["pytest_sessionfinish"]

# Before anything starts Spark: its defaults, for all sessions that any test starts. Pipelines have options of
# their own for the driver's Java, which take the place of those defaults; to these here they are added.
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "conf"))
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A shell that starts us in the background has us ignore interrupts, and what ignores them has deaf children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# On a busy machine one example may take as long as all of them; the suite's own limits are enough.
settings.register_profile("everlog", deadline=None)
settings.load_profile("everlog")

_UNIT = Path(__file__).parent / "unit"
_BROKER_STDERR = pytest.StashKey[Path]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what the session's broker had to say."""
    report = yield
    path = item.config.stash.get(_BROKER_STDERR, None)
    if report.failed and path is not None and "everlog_bootstrap" in getattr(item, "fixturenames", ()):
        report.sections.append(("broker's stderr", path.read_text(errors="replace")[-4000:]))
    return report


_LONGEST = ("spark", "pipeline", "java", "other-clients", "chaos")
"""Groups in the order in which they begin: one that began late would be waited for by idle workers."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Group what shares a fixture before xdist reads the marks, and have it heed them after that.

    Without xdist tests stay in the order in which they were found.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _shares_a_module_fixture(item):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{item.path.stem}"))
    yield
    grouped = False
    for item in items:
        # pytest-xdist 3.8 tells its scheduler by a suffix of `_nodeid`, where pytest 9.2 no longer looks.
        named: str = vars(item).get("_nodeid", item.nodeid)
        if named != item.nodeid:
            item._id = NodeId.parse(named)  # pyright: ignore[reportPrivateUsage]
            grouped = True
    if grouped:
        items.sort(key=_turn)


def _shares_a_module_fixture(item: pytest.Item) -> bool:
    """Whether others of its module use what it does, a broker mostly: each worker would start its own."""
    info: Any = getattr(item, "_fixtureinfo", None)
    fixtures: dict[str, Sequence[pytest.FixtureDef[Any]]] = {} if info is None else info.name2fixturedefs
    return _UNIT not in item.path.parents and any(
        fixture.scope == "module" and fixture.func.__module__.startswith("tests.")
        for found in fixtures.values()
        for fixture in found[-1:]
    )


def _turn(item: pytest.Item) -> int:
    mark = item.get_closest_marker("xdist_group")
    if mark is None:
        return len(_LONGEST) + 1
    return _LONGEST.index(mark.args[0]) if mark.args[0] in _LONGEST else len(_LONGEST)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of the broker under test."""
    parser.addoption(
        "--broker", choices=("everlog", "apache"), default="everlog", help="the broker under test"
    )


@pytest.fixture(scope="session")
def everlog_bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[str]:
    """The bootstrap servers of a broker that serves for the whole session."""
    given = os.environ.get("EVERLOG_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    directory = tmp_path_factory.mktemp("broker")
    if request.config.getoption("--broker") == "apache":
        yield from _apache(directory)
        return
    request.config.stash[_BROKER_STDERR] = directory / "stderr"
    # Many a test writes records with times of its own choice: none goes for its age while a session lasts.
    kept = ["--override", "log.retention.check.interval.ms=86400000"]
    # Nor does a new group wait three seconds for more members: no test here is about the length of that.
    at_once = ["--override", "group.initial.rebalance.delay.ms=0"]
    broker = brokers.start(["up", "--ephemeral", "--port", "0", *kept, *at_once], directory / "stderr")
    try:
        yield broker.bootstrap
        assert broker.process.poll() is None, f"the broker died during the tests:\n{broker.errors[-4000:]}"
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def apache_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The bootstrap servers of Apache Kafka, for tests of what is promised on it whatever `--broker` says."""
    yield from _apache(tmp_path_factory.mktemp("kafka"))


def _apache(directory: Path) -> Generator[str]:
    if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
        pytest.skip(jars.reason)
    with apache_kafka.running(directory) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="session")
def java_for_runs(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, str]]:
    """What to add to the environment of `everlog pipeline run`, so that all runs share one warm Java.

    For tests of the group `pipeline`, which run one after the other.
    """
    from tests.spark.java_here import require_java
    from tests.spark.warm_java import warm_java

    require_java()
    with warm_java(tmp_path_factory.mktemp("java")) as environment:
        yield environment


@pytest.fixture
def fresh_topic() -> Callable[[], str]:
    """A maker of topic names that no other test uses."""
    return lambda: f"t-{uuid.uuid4().hex[:12]}"

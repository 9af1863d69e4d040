"""Each client, connected once: to the session's broker, or as a driver to the broker of a test module."""

from collections.abc import Callable, Generator

import pytest

from tests import apache_kafka
from tests.apache_kafka import Unavailable
from tests.conformance import checks
from tests.conformance.clients import ALL, confluent, sessions
from tests.conformance.clients.face import Client
from tests.conformance.clients.sessions import Sessions
from tests.conformance.crowd import Crowd
from tests.conformance.target import ApacheKafka, Everlog, Target

Connect = Callable[[str], Client]
Drive = Callable[[str], Sessions]
CROWD_PARTITIONS = 6


@pytest.fixture(scope="session")
def connect(everlog_bootstrap: str) -> Generator[Connect]:
    """Give the client of a name, connected once; skip, with the reason, where it cannot be had."""
    open_clients: dict[str, Client | Unavailable] = {}

    def client_of(name: str) -> Client:
        if name not in open_clients:
            open_clients[name] = ALL[name](everlog_bootstrap)
        client = open_clients[name]
        if isinstance(client, Unavailable):
            pytest.skip(f"{name}: {client.reason}")
        return client

    yield client_of
    for client in open_clients.values():
        if not isinstance(client, Unavailable):
            client.close()


@pytest.fixture
def client(request: pytest.FixtureRequest, connect: Connect) -> Client:
    """The client that the test is parametrized with by name."""
    return connect(request.param)


@pytest.fixture
def admin(connect: Connect) -> Client:
    """A client that creates what the client under test cannot."""
    return connect("confluent-kafka")


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Target]:
    """A broker of the module's own, with short time-outs; tests may kill it and start it again."""
    directory = tmp_path_factory.mktemp("target")
    if request.config.getoption("--broker") == "apache":
        if isinstance(jars := apache_kafka.classpath(), Unavailable):
            pytest.skip(jars.reason)
        target: Target = ApacheKafka(directory)
    else:
        target = Everlog(directory)
    target.start()
    yield target
    target.stop()


@pytest.fixture(scope="module")
def drive(target: Target) -> Generator[Drive]:
    """Give the driver of the client of a name, started once; skip, with the reason, where there is none."""
    started: dict[str, Sessions | Unavailable] = {}

    def sessions_of(name: str) -> Sessions:
        if name not in started:
            started[name] = sessions.start(name, target.bootstrap)
        found = started[name]
        if isinstance(found, Unavailable):
            pytest.skip(f"{name}: {found.reason}")
        return found

    yield sessions_of
    for each in started.values():
        if not isinstance(each, Unavailable):
            each.kill()


@pytest.fixture
def victim(target: Target) -> Generator[Drive]:
    """Give a driver of the test's own, which it may kill."""
    started: list[Sessions] = []

    def sessions_of(name: str) -> Sessions:
        found = sessions.start(name, target.bootstrap)
        if isinstance(found, Unavailable):
            pytest.skip(f"{name}: {found.reason}")
        started.append(found)
        return found

    yield sessions_of
    for each in started:
        each.kill()


@pytest.fixture(scope="module")
def writer(target: Target) -> Generator[Client]:
    """Creates topics on the module's broker and writes to them."""
    client = confluent.connect(target.bootstrap)
    yield client
    client.close()


@pytest.fixture
def crowd(target: Target, writer: Client, fresh_topic: Callable[[], str]) -> Crowd:
    """A group without members over a new topic."""
    topic = fresh_topic()
    checks.create_served(target.bootstrap, writer, topic, CROWD_PARTITIONS)
    return Crowd(writer, topic, CROWD_PARTITIONS)

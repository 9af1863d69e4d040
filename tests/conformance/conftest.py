"""Each client, connected once for a test module."""

from collections.abc import Callable, Generator

import pytest

from tests.apache_kafka import Unavailable
from tests.conformance.clients import ALL
from tests.conformance.clients.face import Client

Connect = Callable[[str], Client]


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

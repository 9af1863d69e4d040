"""The broker that the public clients are tested against: Everlog, or with `--broker apache` Apache Kafka."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Protocol

import pytest

from everlog import Producer
from everlog.client.core.txn.transactions import Transactions
from tests import apache_kafka
from tests.client.freezing import Place
from tests.client.log_reading import create_topic
from tests.client.log_writing import write
from tests.client.secured_kafka import SecuredKafka
from tests.conformance.target import SETTINGS, ApacheKafka, Everlog, Target


class NewTopic(Protocol):
    """Creates a topic of a name that no other test uses, and returns the name once it is served."""

    def __call__(self, partitions: int = 1, **config: str) -> str: ...


def make_target(request: pytest.FixtureRequest, directory: Path) -> Target:
    if request.config.getoption("--broker") == "apache":
        if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
            pytest.skip(jars.reason)
        return ApacheKafka(directory, SETTINGS)
    return Everlog(directory, SETTINGS)


@pytest.fixture(scope="session")
def is_apache(request: pytest.FixtureRequest) -> bool:
    """Whether the broker is Apache Kafka."""
    return bool(request.config.getoption("--broker") == "apache")


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Target]:
    """A broker for all tests, with short time-outs of groups. Do not kill it: others use it."""
    target = make_target(request, tmp_path_factory.mktemp("broker"))
    target.start()
    yield target
    target.stop()


@pytest.fixture(scope="session")
def bootstrap(broker: Target) -> str:
    """Where the session's broker listens."""
    return broker.bootstrap


@pytest.fixture
def victim(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Target]:
    """A broker of the test's own, which it may kill, pause and start again."""
    target = make_target(request, tmp_path)
    target.start()
    yield target
    target.resume()
    target.stop()


@pytest.fixture(scope="module")
def sleeper(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Target]:
    """A broker that a module's tests freeze, and wake again."""
    target = make_target(request, tmp_path_factory.mktemp("sleeper"))
    target.start()
    yield target
    target.resume()
    target.stop()


@pytest.fixture(scope="module")
def place(sleeper: Target) -> Place:
    """A partition of it with ten records at least."""
    topic = topic_maker(sleeper.bootstrap, lambda: "ten")()
    write(sleeper.bootstrap, topic, [b"%d" % number for number in range(10)])
    return topic, 0


@pytest.fixture
def new_topic(bootstrap: str, fresh_topic: Callable[[], str]) -> NewTopic:
    """Create topics on the session's broker: `new_topic(3)`; config keys with `_` for the dots."""
    return topic_maker(bootstrap, fresh_topic)


def topic_maker(bootstrap: str, fresh_topic: Callable[[], str]) -> NewTopic:
    """A maker of topics on any broker, such as a victim."""

    def make(partitions: int = 1, **config: str) -> str:
        name = fresh_topic()
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        create_topic(bootstrap, name, partitions, dotted)
        return name

    return make


@pytest.fixture(scope="session")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> Generator[SecuredKafka]:
    """Apache Kafka with TLS and SASL, which Everlog's broker does not have."""
    if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
        pytest.skip(f"security is tested against Apache Kafka: {jars.reason}")
    kafka = SecuredKafka(tmp_path_factory.mktemp("secured"))
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.stop()


class OpenProducer(Protocol):
    """Makes a producer that has its transactional id; it is closed with the test."""

    def __call__(self, transactional_id: str | None = None, **options: Any) -> Producer: ...


@pytest.fixture(params=[1, 2])
def txn_version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The protocol of transactions: that of the cluster, or 1, as clients speak that know no other."""
    if request.param == 1:
        monkeypatch.setattr(Transactions, "learn_level", _learn_nothing)
    return int(request.param)


def _learn_nothing(_core: Transactions, _level: int) -> None:
    """Stay with version 1."""


@pytest.fixture
def new_txn_id(fresh_topic: Callable[[], str]) -> Callable[[], str]:
    """Transactional ids that no other test uses."""
    return lambda: f"id-{fresh_topic()}"


@pytest.fixture
def opened(bootstrap: str, new_txn_id: Callable[[], str]) -> Generator[OpenProducer]:
    """Make transactional producers."""
    made: list[Producer] = []

    def make(transactional_id: str | None = None, **options: Any) -> Producer:
        producer = Producer(bootstrap, transactional_id=transactional_id or new_txn_id(), **options)
        made.append(producer)
        producer.init_transactions(60)
        return producer

    yield make
    for producer in made:
        producer.close(60)

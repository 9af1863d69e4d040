"""P5: transactions on a cluster without an epoch for each of them, and one that gets it meanwhile."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from everlog import Producer
from tests import apache_kafka
from tests.client.conftest import topic_maker
from tests.client.log_reading import values
from tests.conformance.target import ApacheKafka

PATIENCE_S = 120.0
TRANSACTION_VERSION = "transaction.version"


@pytest.fixture
def older(is_apache: bool, tmp_path: Path) -> Generator[ApacheKafka]:
    """Apache Kafka as it was before each transaction had an epoch of its own."""
    if not is_apache:
        pytest.skip("clusters of Everlog have transaction.version=2 from the beginning")
    if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
        pytest.skip(jars.reason)
    target = ApacheKafka(tmp_path, features={TRANSACTION_VERSION: 0})
    target.start()
    yield target
    target.stop()


def test_p5_a_producer_speaks_what_its_cluster_does(
    older: ApacheKafka, fresh_topic: Callable[[], str]
) -> None:
    topic = topic_maker(older.bootstrap, fresh_topic)(2)
    with Producer(older.bootstrap, transactional_id="till", max_block_ms=120_000) as producer:
        producer.init_transactions()
        core = producer._inner.session.core  # type: ignore[union-attr]  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
        for turn in range(4):
            producer.begin_transaction()
            producer.send(topic, b"%d" % turn, partition=0).result(PATIENCE_S)
            assert core.version == 1
            if turn % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()

        _upgrade(older.bootstrap)
        # The levels of features are told to whoever connects.
        older.kill()
        older.start()
        for turn in range(4, 8):
            producer.begin_transaction()
            producer.send(topic, b"%d" % turn, partition=turn % 2)
            if turn == 6:
                producer.flush(PATIENCE_S)
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        assert core.version == 2

    assert values(older.bootstrap, topic) == [b"0", b"2", b"4", b"5", b"7"]


def _upgrade(bootstrap: str) -> None:
    done = apache_kafka.run_tool(
        "org.apache.kafka.tools.FeatureCommand",
        "--bootstrap-server",
        bootstrap,
        "upgrade",
        "--feature",
        f"{TRANSACTION_VERSION}=2",
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""D2: the sink on Apache Kafka, which has no two-phase commit: the same promises, by time-outs."""

from collections.abc import Callable, Generator

import pytest

from everlog import Admin, NewTopic
from tests import apache_kafka, brokers
from tests.spark.sink_query import Query, wait_for


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """A broker of Apache Kafka."""
    if isinstance(jars := apache_kafka.classpath(), apache_kafka.Unavailable):
        pytest.skip(jars.reason)
    directory, port = tmp_path_factory.mktemp("kafka"), brokers.free_port()
    process = apache_kafka.start_broker(port, directory / "data")
    try:
        apache_kafka.wait_ready(process, directory / "data")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def query(kafka: str, fresh_topic: Callable[[], str]) -> Generator[Query]:
    """A query that writes to a topic of its own."""
    topic = fresh_topic()
    with Admin(kafka) as admin:
        admin.create_topics([NewTopic(topic, 2)])
    made = Query(kafka, topic)
    yield made
    made.decider.close()


def test_a_batch_counts_once_though_drivers_die_before_and_after_they_decide(query: Query) -> None:
    query.commit(0, [query.task(0, "a"), query.task(0, "b")])
    query.commit_up_to("FindOpen", 1, [query.task(1, "c")])
    query.restart()
    query.commit_up_to("Decide", 1, [query.task(1, "c")])
    query.restart()
    # Kafka answers a commit before its markers are written, and tasks do not wait for a decision under way.
    wait_for(lambda: query.decided() == 1)
    again = query.task(1, "c")
    assert again.skipped
    query.commit(1, [again])
    query.commit(2, [query.task(2, "d")])

    wait_for(lambda: query.seen() == ["a", "b", "c", "d"])
    assert query.open_transactions() == []


def test_attempts_that_do_not_count_are_aborted_and_their_tasks_shut_out(query: Query) -> None:
    query.task(0, "a")
    query.commit(0, [query.task(0, "a")])

    wait_for(lambda: query.seen() == ["a"])
    assert query.open_transactions() == []

"""Pipelines on Apache Kafka, as users have them: `init`, `seed`, `run`; and mirrors to and from Everlog."""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

import everlog
from tests.e2e.program import everlog as run_everlog
from tests.pipelines.command import Piped, assert_holds, lag_of, read
from tests.spark.sink_query import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("pipeline"), pytest.mark.timeout(1800)]

NewProject = Callable[[str, str], Piped]
NewKafka = Callable[[], str]


@pytest.fixture
def new_project(java_for_runs: dict[str, str], tmp_path: Path) -> NewProject:
    """Makes a project of a template, with its topics and its data on the cluster that is named."""

    def make(template: str, bootstrap: str) -> Piped:
        made = Piped(tmp_path / template, bootstrap, java_for_runs)
        made.call("init", "--template", template)
        made.call("seed")
        return made

    return make


@pytest.fixture
def kafka(apache_bootstrap: str) -> Generator[str]:
    """Apache Kafka without the topics of the test before: templates have the same names for theirs."""
    yield apache_bootstrap
    with everlog.Admin(apache_bootstrap) as admin:
        admin.delete_topics(admin.list_topics())
        wait_for(lambda: not admin.list_topics())


def test_orders_go_to_every_topic_whose_rule_they_meet(new_project: NewProject, kafka: str) -> None:
    made = new_project("distribution", kafka)

    flows = made.run()

    assert flows["distributed"]["lag"] == 0
    for topic in ("orders-eu", "orders-us", "orders-apac", "orders-large", "orders-unrouted"):
        expected = made.expected(topic)
        _seen(kafka, topic, len(expected))
        assert_holds(kafka, topic, expected)
    wait_for(lambda: lag_of(kafka, "distribution") == 0)
    assert made.lags() == {"distributed": 0}


@pytest.mark.parametrize("way", ["from Kafka", "to Kafka"])
def test_a_mirror_has_each_record_once_and_a_group_moves_to_the_next_record(
    new_project: NewProject, kafka: str, way: str
) -> None:
    with everlog.Cluster() as cluster:
        ends = [kafka, cluster.bootstrap_servers]
        source, target = ends if way == "from Kafka" else reversed(ends)
        made = new_project("mirror", source)
        _abort_and_commit(source)
        mirrored = ("-c", f"mirror.target.bootstrap.servers={target}")

        flows = made.run(*mirrored)

        there = _seen(source, "orders", 53)
        assert flows["mirror"]["rows_in"] == 53
        copied = _seen(target, "orders", 53)
        assert [_whole(record) for record in copied] == [_whole(record) for record in there]
        # A transaction that was aborted, and the marks of both, have no place in the mirror.
        assert [record.offset for record in copied] != [record.offset for record in there]

        committed = _commit_in_the_middle(source, "billing", there)
        ran = run_everlog(
            "mirror", "offsets", "--group", "billing", "--target", target, "--execute", bootstrap=source
        )
        assert ran.code == 0, ran.err
        with everlog.Admin(target) as admin:
            moved = {place: entry.offset for place, entry in admin.list_group_offsets("billing").items()}
        assert moved.keys() == committed.keys()
        for place, offset in moved.items():
            assert _whole(_record_at(copied, place, offset)) == _whole(committed[place])

        flows = made.run(*mirrored)
        assert flows["mirror"]["rows_in"] == 0
        assert len(read(target, "orders")) == 53


def _abort_and_commit(bootstrap: str) -> None:
    """Noise that nobody may see, and then two records."""
    with everlog.Producer(bootstrap, transactional_id="feed") as producer:
        producer.init_transactions()
        for value, commit in ((b"noise", False), (b"last", True)):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send("orders", value, partition=partition, timestamp=5)
            producer.flush()  # What is aborted before it was sent is not in the log at all.
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()


def _seen(bootstrap: str, topic: str, count: int) -> list[everlog.ConsumerRecord]:
    """All that is committed, once so much is: Kafka answers a commit before its markers are written."""
    wait_for(lambda: len(read(bootstrap, topic)) >= count)
    found = read(bootstrap, topic)
    assert len(found) == count
    return found


def _whole(record: everlog.ConsumerRecord) -> tuple[Any, ...]:
    return record.partition, record.timestamp, record.key, record.value, record.headers


def _commit_in_the_middle(
    bootstrap: str, group: str, records: Sequence[everlog.ConsumerRecord]
) -> dict[everlog.TopicPartition, everlog.ConsumerRecord]:
    """Have a group stand before the last record of each partition; those records."""
    last = {everlog.TopicPartition(one.topic, one.partition): one for one in records}
    with everlog.Admin(bootstrap) as admin:
        admin.alter_group_offsets(group, {place: one.offset for place, one in last.items()})
    return last


def _record_at(
    records: Sequence[everlog.ConsumerRecord], place: everlog.TopicPartition, offset: int
) -> everlog.ConsumerRecord:
    """What a reader gets that begins there: the first record at the offset or behind it."""
    return next(one for one in records if one.partition == place.partition and one.offset >= offset)

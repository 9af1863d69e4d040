"""Unmodified clients go on writing and reading through kills, a rolling restart and moves of partitions.

All of them do so at the same time on the same three brokers, each with a topic and a group of its own; what
each was told and has read is its history, which the checker judges. `EVERLOG_CHAOS_ROUNDS` says how often all
of it happens; `make chaos` has many rounds. With `--broker apache` the brokers are Apache Kafka's.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from everlog import Admin
from everlog.sim.checkers import check, summary
from tests.apache_kafka import Unavailable
from tests.cluster.conftest import open_trio
from tests.cluster.ordeal import Ordeal
from tests.cluster.subjects import Subject
from tests.conformance.clients import sessions
from tests.conformance.clients.sessions import Way

ROUNDS = int(os.environ.get("EVERLOG_CHAOS_ROUNDS", "1"))
PARTITIONS = 3
RATE = 30.0
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
}
WAYS: Mapping[str, Way] = {
    "confluent-kafka": "cooperative",
    "kafka-python": "eager",
    "aiokafka": "eager",
    "kafka-clients": "consumer",
    "franz-go": "cooperative",
}
HARMLESS = {"_TRANSPORT"}
"""What librdkafka tells of a broker that has closed its connections, in whatever order."""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.xdist_group("other-clients"),
    pytest.mark.timeout(300 + 300 * ROUNDS),
]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What became of the clients, and why some were not there."""

    subjects: Mapping[str, Subject]
    missing: Mapping[str, str]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """All that happened, to its end."""
    subjects: dict[str, Subject] = {}
    missing: dict[str, str] = {}
    with open_trio(request.config, tmp_path_factory.mktemp("trio"), SETTINGS) as trio:
        started: list[sessions.Sessions] = []
        try:
            for name, way in WAYS.items():
                found = sessions.start(name, trio.bootstrap)
                if isinstance(found, Unavailable):
                    missing[name] = found.reason
                    continue
                started.append(found)
                with Admin(trio.bootstrap) as admin:
                    admin.create_topic(name, partitions=PARTITIONS, replication_factor=3)
                subjects[name] = Subject(found, name, PARTITIONS, RATE, way)
            ordeal = Ordeal(trio, list(subjects.values()))
            ordeal.begin()
            for _ in range(ROUNDS):
                ordeal.kill_leader()
                ordeal.roll()
                ordeal.move()
            ordeal.end()
        finally:
            for each in started:
                each.kill()
    return Outcomes(subjects, missing)


@pytest.mark.parametrize("name", WAYS)
def test_a_client_loses_nothing_and_doubles_nothing_whatever_happens_to_brokers(
    name: str, outcomes: Outcomes
) -> None:
    if name in outcomes.missing:
        pytest.skip(f"{name}: {outcomes.missing[name]}")
    subject = outcomes.subjects[name]
    acked = subject.stream.acked
    slowest_ms = max(each.told_us - each.sent_us for each in acked) / 1000
    print(f"{name}: {len(acked)} records acknowledged, the slowest after {slowest_ms:,.0f} ms")

    assert subject.trouble == []
    assert subject.stream.failed == []
    assert set(subject.stream.errors) <= HARMLESS
    assert subject.member.error is None
    assert len(acked) == subject.stream.sent
    assert subject.has_read_all()
    assert (found := check(subject.history)) == [], summary(found)

"""Rows L1, L9, P3, P4, C1, R4 with one replica: what a client writes is what it and all others read back."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.conformance import checks
from tests.conformance.clients import ALL, PYTHON
from tests.conformance.clients.face import Client
from tests.conformance.scenarios import CODECS, PARTITIONS, WAYS, How, Record, large_records, small_records

pytestmark = pytest.mark.conformance

every_client = pytest.mark.parametrize("client", ALL, indirect=True)


@every_client
@pytest.mark.parametrize("how", WAYS, ids=str)
def test_a_client_reads_back_what_it_wrote(
    client: Client, how: How, admin: Client, everlog_bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    _skip_without_codec(client, how.codec)
    topic = fresh_topic()
    creator = client if "create_topic" in client.operations else admin
    checks.create_served(everlog_bootstrap, creator, topic, PARTITIONS)
    records = small_records(client.traits)
    began_ms = checks.now_ms()

    checks.write_checked(everlog_bootstrap, client, topic, records, how)

    checks.check_read(records, client.consume(topic, checks.ends_of(records)), began_ms)
    checks.check_batches(everlog_bootstrap, topic, records, how)


# franz-go asks for no creation unless it is told to, and the program that drives KafkaJS says no.
@pytest.mark.parametrize(
    "client", [name for name in ALL if name not in {"franz-go", "kafkajs"}], indirect=True
)
def test_a_client_makes_a_topic_by_writing_to_it(client: Client, fresh_topic: Callable[[], str]) -> None:
    topic = fresh_topic()
    records = [record for record in small_records(client.traits) if record.partition == 0]
    began_ms = checks.now_ms()

    client.produce(topic, records, How("none"))

    checks.check_read(records, client.consume(topic, {0: len(records)}), began_ms)


@every_client
@pytest.mark.parametrize("codec", CODECS)
def test_a_client_reads_back_a_megabyte_in_one_record(
    client: Client, codec: str, admin: Client, everlog_bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    _skip_without_codec(client, codec)
    topic = fresh_topic()
    checks.create_served(everlog_bootstrap, admin, topic, 1)
    records = large_records(client.traits)
    began_ms = checks.now_ms()

    checks.write_checked(everlog_bootstrap, client, topic, records, How(codec))

    checks.check_read(records, client.consume(topic, checks.ends_of(records)), began_ms)


@every_client
@pytest.mark.parametrize("reader", PYTHON)
def test_every_python_client_reads_what_any_client_wrote(
    client: Client,
    reader: str,
    connect: Callable[[str], Client],
    everlog_bootstrap: str,
    fresh_topic: Callable[[], str],
) -> None:
    other = connect(reader)
    codecs = [codec for codec in client.traits.codecs if codec in other.traits.codecs]
    topic = fresh_topic()
    admin = connect("confluent-kafka")
    checks.create_served(everlog_bootstrap, admin, topic, len(codecs) * PARTITIONS)
    began_ms = checks.now_ms()
    written: list[Record] = []
    for number, codec in enumerate(codecs):
        # Each codec has partitions of its own, so that one read sees them all.
        records = [
            replace(record, partition=record.partition + number * PARTITIONS)
            for record in small_records(client.traits)
        ]
        checks.write_checked(everlog_bootstrap, client, topic, records, How(codec))
        written += records

    for isolation in ("read_committed", "read_uncommitted"):
        read = other.consume(topic, checks.ends_of(written), isolation)
        checks.check_read(written, read, began_ms)


@every_client
def test_records_of_the_brokers_clock_carry_its_time(
    client: Client, admin: Client, everlog_bootstrap: str, fresh_topic: Callable[[], str]
) -> None:
    """Row L1: `message.timestamp.type=LogAppendTime` overrides what the producer said."""
    topic = fresh_topic()
    admin.create_topic(topic, 1, {"message.timestamp.type": "LogAppendTime"})
    record = Record(0, b"k", b"v", (), 1_000_000_000_000 if client.traits.timestamps else 0)
    began_ms = checks.now_ms()

    checks.write_checked(everlog_bootstrap, client, topic, [record], How())

    (got,) = client.consume(topic, {0: 1})
    assert began_ms <= got.timestamp <= checks.now_ms()


def _skip_without_codec(client: Client, codec: str) -> None:
    if codec not in client.traits.codecs:
        pytest.skip(f"{client.name} has no {codec} built in")

"""What other clients write is what ours read, and the other way round, by each codec (P3, C1)."""

from collections.abc import Callable, Generator
from dataclasses import replace

import pytest

from tests.apache_kafka import Unavailable
from tests.client import ours
from tests.client.conftest import NewTopic
from tests.client.ours import TRAITS, Way
from tests.conformance import checks, raw
from tests.conformance.clients import ALL
from tests.conformance.clients.face import Client
from tests.conformance.scenarios import CODECS, PARTITIONS, WAYS, How, Record, large_records, small_records

pytestmark = pytest.mark.conformance

every_way = pytest.mark.parametrize("way", ours.WAYS)
every_other = pytest.mark.parametrize("other", ALL)


@pytest.fixture(scope="module")
def connect(bootstrap: str) -> Generator[Callable[[str], Client]]:
    """Give the other client of a name, connected once; skip, with the reason, where it cannot be had."""
    opened: dict[str, Client | Unavailable] = {}

    def client_of(name: str) -> Client:
        client = opened[name] if name in opened else opened.setdefault(name, ALL[name](bootstrap))
        if isinstance(client, Unavailable):
            pytest.skip(f"{name}: {client.reason}")
        return client

    yield client_of
    for client in opened.values():
        if not isinstance(client, Unavailable):
            client.close()


def _shifted(records: list[Record], number: int) -> list[Record]:
    """The records in partitions of their own: each codec has some, so that one read sees them all."""
    return [replace(record, partition=record.partition + number * PARTITIONS) for record in records]


@every_other
def test_ours_read_what_another_wrote(
    other: str, connect: Callable[[str], Client], bootstrap: str, new_topic: NewTopic
) -> None:
    client = connect(other)
    codecs = client.traits.codecs
    topic = new_topic(len(codecs) * PARTITIONS)
    began_ms = checks.now_ms()
    written: list[Record] = []
    for number, codec in enumerate(codecs):
        records = _shifted(small_records(client.traits), number)
        client.produce(topic, records, How(codec))
        written += records

    for way in ours.WAYS:
        for isolation in ("read_committed", "read_uncommitted"):
            read = ours.consume(way, bootstrap, topic, checks.ends_of(written), isolation)
            checks.check_read(written, read, began_ms)


@every_other
def test_another_reads_what_ours_wrote(
    other: str, connect: Callable[[str], Client], bootstrap: str, new_topic: NewTopic
) -> None:
    client = connect(other)
    turns: list[tuple[Way, str]] = [(way, codec) for way in ours.WAYS for codec in client.traits.codecs]
    topic = new_topic(len(turns) * PARTITIONS)
    began_ms = checks.now_ms()
    written: list[Record] = []
    for number, (way, codec) in enumerate(turns):
        # What the other cannot express it may not be able to read either.
        records = _shifted(small_records(replace(client.traits, timestamps=True)), number)
        ours.produce(way, bootstrap, topic, records, How(codec, idempotent=True))
        written += records

    checks.check_read(written, client.consume(topic, checks.ends_of(written)), began_ms)


@every_way
@pytest.mark.parametrize("how", WAYS, ids=str)
def test_ours_read_back_what_they_wrote(way: Way, how: How, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(PARTITIONS)
    # Apache Kafka serves a topic a moment after it was created, and what is not answered is not tried again.
    raw.wait_for_ends(bootstrap, topic, dict.fromkeys(range(PARTITIONS), 0))
    records = small_records(TRAITS)
    began_ms = checks.now_ms()

    ours.produce(way, bootstrap, topic, records, how)

    read = ours.consume(way, bootstrap, topic, checks.ends_of(records), "read_committed")
    checks.check_read(records, read, began_ms)
    checks.check_batches(bootstrap, topic, records, how)


@every_way
@pytest.mark.parametrize("codec", CODECS)
def test_ours_read_back_a_megabyte_in_one_record(
    way: Way, codec: str, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    records = large_records(TRAITS)

    ours.produce(way, bootstrap, topic, records, How(codec, idempotent=True))

    read = ours.consume(way, bootstrap, topic, checks.ends_of(records), "read_committed")
    checks.check_read(records, read, 0)

"""Dead letters by the command line: listed with their story, and sent back (C8)."""

from collections.abc import Callable
from typing import Any

import pytest

import everlog as library
from everlog.client.core.dead_letters import Handled, tries_before
from tests.e2e.program import everlog

pytestmark = pytest.mark.e2e

FreshTopic = Callable[[], str]


class NoSuchCustomer(Exception):
    """What goes wrong here."""


@pytest.fixture
def topic(everlog_bootstrap: str, fresh_topic: FreshTopic) -> str:
    """A topic of two partitions; three of its five records became dead letters in `<topic>.dlq`."""
    name = fresh_topic()
    made = everlog("topic", "create", name, "-p", "2", bootstrap=everlog_bootstrap)
    assert made.code == 0, made.err

    def handle(record: library.ConsumerRecord) -> None:
        if record.value.startswith(b"unknown"):
            raise NoSuchCustomer(record.value.decode())
        if record.value == b"broken":
            raise KeyError("total")

    with (
        library.Producer(everlog_bootstrap) as producer,
        library.Consumer(
            everlog_bootstrap,
            topics=[name],
            group_id=f"{name}-readers",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        for number, value in enumerate((b"good", b"unknown 1", b"broken", b"fine", b"unknown 2")):
            producer.send(name, value, b"key", partition=number % 2, headers=[("own", b"1")])
        producer.flush()
        letters = library.DeadLetters(consumer, producer, tries=2, retry_backoff_ms=1)
        done = Handled()
        while done.handled + done.dead < 5:
            done += letters.process(consumer.poll(60), handle)
    assert (done.handled, done.dead) == (2, 3)
    return name


def listed(bootstrap: str, topic: str, *arguments: str) -> dict[str, Any]:
    ran = everlog("dead-letters", "list", f"{topic}.dlq", *arguments, "--json", bootstrap=bootstrap)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = ran.json
    return found


def read_back(bootstrap: str, topic: str, count: int) -> list[library.ConsumerRecord]:
    found: list[library.ConsumerRecord] = []
    with library.Consumer(bootstrap) as consumer:
        consumer.assign([library.TopicPartition(topic, index) for index in range(2)])
        consumer.seek_to_beginning()
        while len(found) < count:
            found += consumer.poll(60)
    return found


def test_letters_are_listed_with_where_they_came_from_and_why(everlog_bootstrap: str, topic: str) -> None:
    found = listed(everlog_bootstrap, topic)

    assert sorted(letter["value"] for letter in found["letters"]) == ["broken", "unknown 1", "unknown 2"]
    assert (found["others"], found["more"]) == (0, False)
    (broken,) = (letter for letter in found["letters"] if letter["value"] == "broken")
    assert (broken["error"], broken["message"], broken["tries"]) == ("KeyError", "'total'", 2)
    assert broken["origin"]["topic"] == topic
    assert (broken["origin"]["partition"], broken["origin"]["offset"]) == (0, 1)
    assert broken["group"] == f"{topic}-readers"
    named = listed(everlog_bootstrap, topic, "--error", "NoSuchCustomer", "--group", f"{topic}-readers")
    assert sorted(letter["message"] for letter in named["letters"]) == ["unknown 1", "unknown 2"]
    assert listed(everlog_bootstrap, topic, "--origin", "elsewhere")["letters"] == []
    few = listed(everlog_bootstrap, topic, "-n", "1")
    assert (len(few["letters"]), few["more"]) == (1, True)
    text = everlog("dead-letters", "list", f"{topic}.dlq", bootstrap=everlog_bootstrap)
    assert f"{topic}-0@1" in text.out
    assert "NoSuchCustomer" in text.out


def test_a_dry_run_sends_nothing_and_says_what_would_be(everlog_bootstrap: str, topic: str) -> None:
    ran = everlog(
        "dead-letters", "replay", f"{topic}.dlq", "--dry-run", "--json", bootstrap=everlog_bootstrap
    )

    assert ran.code == 0, ran.err
    assert (ran.json["replayed"], ran.json["topics"]) == (3, [{"topic": topic, "records": 3}])
    assert ran.json["partitions"] == [{"partition": 0, "next_offset": 3}]
    assert len(read_back(everlog_bootstrap, topic, 5)) == 5


def test_records_go_back_to_their_partition_with_their_headers_and_tries(
    everlog_bootstrap: str, topic: str
) -> None:
    ran = everlog(
        "dead-letters", "replay", f"{topic}.dlq", "--error", "KeyError", bootstrap=everlog_bootstrap
    )

    assert ran.code == 0, ran.err
    assert ran.out.startswith("sent 1 record back\n")
    again = [record for record in read_back(everlog_bootstrap, topic, 6) if record.value == b"broken"]
    assert [(record.partition, record.key) for record in again] == [(0, b"key"), (0, b"key")]
    first, second = again
    assert first.headers == (("own", b"1"),)
    assert dict(second.headers) == {"own": b"1", "dead-letter.tries": b"2"}
    assert tries_before(second) == 2
    assert second.timestamp >= first.timestamp


def test_a_range_goes_to_another_topic_with_the_time_it_had(
    everlog_bootstrap: str, topic: str, fresh_topic: FreshTopic
) -> None:
    other = fresh_topic()
    assert everlog("topic", "create", other, "-p", "2", bootstrap=everlog_bootstrap).code == 0

    ran = everlog(
        "dead-letters", "replay", f"{topic}.dlq", "-o", "1:3", "-n", "1", "--to", other,
        "--keep-timestamps", "--json", bootstrap=everlog_bootstrap,
    )  # fmt: skip

    assert ran.code == 0, ran.err
    assert ran.json["replayed"] == 1
    assert ran.json["partitions"] == [{"partition": 0, "next_offset": 2}]
    (sent,) = read_back(everlog_bootstrap, other, 1)
    letter = listed(everlog_bootstrap, topic, "-o", "1:2")["letters"][0]
    assert sent.timestamp == letter["origin"]["timestamp"]
    assert sent.value == letter["value"].encode()


def test_records_that_are_no_dead_letters_are_left_where_they_are(
    everlog_bootstrap: str, fresh_topic: FreshTopic
) -> None:
    plain = fresh_topic()
    assert everlog("topic", "create", plain, bootstrap=everlog_bootstrap).code == 0
    assert everlog("produce", plain, stdin="a\nb\n", bootstrap=everlog_bootstrap).code == 0

    ran = everlog("dead-letters", "replay", plain, "--json", bootstrap=everlog_bootstrap)

    assert ran.code == 0, ran.err
    assert (ran.json["replayed"], ran.json["others"]) == (0, 2)


def test_wrong_names_and_ranges_are_told(everlog_bootstrap: str, fresh_topic: FreshTopic) -> None:
    missing = everlog("dead-letters", "list", fresh_topic(), bootstrap=everlog_bootstrap)
    assert missing.code == 1
    assert "no such topic" in missing.err
    wrong = everlog("dead-letters", "list", "x", "-o", "yesterday", bootstrap=everlog_bootstrap)
    assert wrong.code == 2

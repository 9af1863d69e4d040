"""Offsets that a consumer commits: when it is asked, by itself, before it parts with partitions (C5)."""

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import pytest

from everlog import (
    Closed,
    Consumer,
    EverlogError,
    Misused,
    NoOffset,
    OffsetAndMetadata,
    RebalanceListener,
    TopicPartition,
)
from tests.client.conftest import NewTopic, topic_maker
from tests.client.log_reading import create_topic
from tests.client.log_writing import write
from tests.client.polling import PATIENCE_S, poll_records, poll_until, poll_values
from tests.conformance.target import Target

SESSION_MS = 45_000
NUMBERS = [b"%d" % number for number in range(200)]


@pytest.fixture
def topic(bootstrap: str, new_topic: NewTopic) -> str:
    """A topic with two hundred numbers in its one partition."""
    name = new_topic()
    write(bootstrap, name, NUMBERS)
    return name


@pytest.fixture
def group() -> str:
    """The name of a group that no other test uses."""
    return f"g-{uuid.uuid4().hex[:12]}"


def member(bootstrap: str, group: str, topic: str, **options: object) -> Consumer:
    return Consumer(bootstrap, group_id=group, topics=[topic], auto_offset_reset="earliest", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_c5_a_group_reads_on_where_it_committed(
    bootstrap: str, topic: str, group: str, protocol: str
) -> None:
    options = {"enable_auto_commit": False, "max_poll_records": 50, "group_protocol": protocol}
    place = TopicPartition(topic, 0)
    with member(bootstrap, group, topic, **options) as consumer:
        assert poll_values(consumer, 50) == NUMBERS[:50]
        consumer.commit()
        assert poll_values(consumer, 50) == NUMBERS[50:100]
        kept = consumer.committed()[place]
        assert kept is not None
        assert (kept.offset, kept.metadata) == (50, "")
        assert consumer.subscription() == {topic}
        who = consumer.group_metadata()
        assert (who.group_id, who.instance_id) == (group, None)
        assert who.generation > 0
        assert who.member_id
    with member(bootstrap, group, topic, **options) as consumer:
        assert poll_records(consumer, 1)[0].offset == 50


def test_c5_offsets_of_ones_own_with_metadata(bootstrap: str, topic: str, group: str) -> None:
    place = TopicPartition(topic, 0)
    with member(bootstrap, group, topic, enable_auto_commit=False) as consumer:
        poll_records(consumer, 1)
        consumer.commit({place: OffsetAndMetadata(17, "half past")})
        kept = consumer.committed(place)[place]
        assert kept is not None
        assert (kept.offset, kept.metadata) == (17, "half past")
        consumer.commit({(topic, 0): 23})
        kept = consumer.committed(place)[place]
        assert kept is not None
        assert (kept.offset, kept.metadata) == (23, "")


def test_c5_auto_commit_on_close_covers_what_poll_returned_and_no_more(
    bootstrap: str, topic: str, group: str
) -> None:
    with member(bootstrap, group, topic, max_poll_records=30) as consumer:
        poll_records(consumer, 60)
    with Consumer(bootstrap, group_id=group) as reader:
        kept = reader.committed((topic, 0))[TopicPartition(topic, 0)]
        assert kept is not None
        assert kept.offset == 60


def test_c5_auto_commit_happens_in_poll_once_the_interval_is_over(
    bootstrap: str, topic: str, group: str
) -> None:
    place = TopicPartition(topic, 0)
    with member(bootstrap, group, topic, auto_commit_interval_ms=50) as consumer:
        poll_records(consumer, 200)

        def committed() -> int:
            kept = consumer.committed(place)[place]
            return -1 if kept is None else kept.offset

        poll_until(consumer, lambda: committed() == 200)
        assert consumer.metrics()["commits"] >= 1


def test_c5_iteration_and_auto_commit_lose_nothing_that_was_not_seen(
    bootstrap: str, topic: str, group: str
) -> None:
    with member(bootstrap, group, topic) as consumer:
        seen = [record.value for record, _ in zip(consumer, range(25), strict=False)]
        # zip has taken one more than it has paired.
        assert len(seen) == 25
    with member(bootstrap, group, topic) as consumer:
        assert poll_records(consumer, 1)[0].offset == 26


def test_c5_async_commits_are_in_order_and_callbacks_run_on_the_callers_thread(
    bootstrap: str, topic: str, group: str
) -> None:
    place = TopicPartition(topic, 0)
    told: list[tuple[int, EverlogError | None, int]] = []

    def tell(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: EverlogError | None) -> None:
        told.append((offsets[place].offset, error, threading.get_ident()))

    with member(bootstrap, group, topic, enable_auto_commit=False) as consumer:
        poll_records(consumer, 1)
        for offset in range(1, 21):
            consumer.commit_async({place: offset}, tell)
        consumer.commit_async({place: 21})
        poll_until(consumer, lambda: len(told) == 20)
        assert told == [(offset, None, threading.get_ident()) for offset in range(1, 21)]
        consumer.commit_async({place: 30}, tell)
        consumer.commit({place: 31})
        assert told[-1][0] == 30
        kept = consumer.committed(place)[place]
        assert kept is not None
        assert kept.offset == 31


def test_c5_a_consumer_of_chosen_partitions_commits_to_its_group(
    bootstrap: str, topic: str, group: str
) -> None:
    with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest", max_poll_records=40) as consumer:
        consumer.assign([(topic, 0)])
        poll_records(consumer, 40)
        consumer.commit()
        poll_records(consumer, 40)
    with Consumer(bootstrap, group_id=group, auto_offset_reset="none") as consumer:
        consumer.assign([(topic, 0)])
        assert consumer.position((topic, 0)) == 80
        assert consumer.lag() == {(topic, 0): 120}


def test_c5_without_a_committed_offset_and_without_a_rule_poll_says_so(
    bootstrap: str, topic: str, group: str
) -> None:
    with Consumer(bootstrap, group_id=group, topics=topic, auto_offset_reset="none") as consumer:
        with pytest.raises(NoOffset, match=f"{topic}-0"):
            poll_records(consumer, 1)
        consumer.seek((topic, 0), 190)
        assert poll_records(consumer, 10)[0].offset == 190


class Diary(RebalanceListener):
    """A listener that writes down what it hears, and on which thread; it commits when partitions go."""

    def __init__(self, consumer: Consumer) -> None:
        self.entries: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.threads: set[int] = set()
        self._consumer = consumer

    def on_assigned(self, places: Sequence[TopicPartition]) -> None:
        self._note("assigned", places)

    def on_revoked(self, places: Sequence[TopicPartition]) -> None:
        self._note("revoked", places)
        self._consumer.commit()

    def _note(self, what: str, places: Sequence[TopicPartition]) -> None:
        self.threads.add(threading.get_ident())
        if places:
            self.entries.append((what, tuple(places)))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_c2_a_second_member_takes_over_where_the_first_has_committed(
    bootstrap: str, new_topic: NewTopic, group: str, protocol: str
) -> None:
    topic = new_topic(4)
    for partition in range(4):
        write(bootstrap, topic, NUMBERS, partition=partition)
    options = {"enable_auto_commit": False, "group_protocol": protocol, "max_poll_records": 7}
    options |= {"heartbeat_interval_ms": 300} if protocol == "classic" else {}
    seen: dict[tuple[int, int], int] = {}
    with (
        Consumer(bootstrap, group_id=group, auto_offset_reset="earliest", **options) as first,  # type: ignore[arg-type]
        Consumer(bootstrap, group_id=group, auto_offset_reset="earliest", **options) as second,  # type: ignore[arg-type]
    ):
        diary = Diary(first)
        first.subscribe([topic], listener=diary)
        second.subscribe([topic], listener=Diary(second))
        records = poll_records(first, 100)
        assert first.assignment() == {(topic, partition) for partition in range(4)}

        def both() -> bool:
            records.extend(second.poll(0.05))
            return len(first.assignment()) == len(second.assignment()) == 2

        poll_until(first, both, records)
        assert diary.entries[0] == ("assigned", tuple(TopicPartition(topic, each) for each in range(4)))
        assert diary.entries[1][0] == "revoked"
        assert diary.threads == {threading.get_ident()}

        def all_there() -> bool:
            records.extend(second.poll(0.05))
            return len({(record.partition, record.offset) for record in records}) == 800

        poll_until(first, all_there, records)
    for record in records:
        place = (record.partition, record.offset)
        seen[place] = seen.get(place, 0) + 1
    # Revoked partitions were committed behind the last record returned: nothing comes twice.
    assert set(seen.values()) == {1}


def test_c2_on_assigned_may_seek(bootstrap: str, topic: str, group: str) -> None:
    with Consumer(bootstrap, group_id=group) as consumer:

        class Back(RebalanceListener):
            def on_assigned(self, places: Sequence[TopicPartition]) -> None:
                for place in places:
                    consumer.seek(place, 150)

        consumer.subscribe([topic], listener=Back())
        assert poll_records(consumer, 1)[0].offset == 150


def test_c2_an_error_of_a_listener_reaches_who_polls(bootstrap: str, topic: str, group: str) -> None:
    class Broken(RebalanceListener):
        def on_assigned(self, places: Sequence[TopicPartition]) -> None:
            raise RuntimeError("no room for them")

    with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic], listener=Broken())
        with pytest.raises(RuntimeError, match="no room for them"):
            poll_records(consumer, 1)
        assert poll_values(consumer, 200) == NUMBERS


def test_c2_a_listener_that_would_wait_for_itself_is_refused(bootstrap: str, topic: str, group: str) -> None:
    with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        refused: list[Misused] = []

        class Impatient(RebalanceListener):
            def on_assigned(self, places: Sequence[TopicPartition]) -> None:
                for call in (consumer.poll, consumer.close):
                    with pytest.raises(Misused, match="a rebalance listener may not") as said:
                        call()
                    refused.append(said.value)

        consumer.subscribe([topic], listener=Impatient())
        assert poll_values(consumer, 200) == NUMBERS
        assert len(refused) == 2


def test_c2_a_pattern_takes_topics_in_that_are_made_later(
    bootstrap: str, new_topic: NewTopic, group: str
) -> None:
    first = new_topic()
    write(bootstrap, first, [b"one"])
    with Consumer(
        bootstrap, group_id=group, auto_offset_reset="earliest", metadata_max_age_ms=300
    ) as consumer:
        consumer.subscribe(pattern=f"{first}.*")
        assert poll_values(consumer, 1) == [b"one"]
        create_topic(bootstrap, f"{first}-more", 1, {})
        write(bootstrap, f"{first}-more", [b"two"])
        assert poll_values(consumer, 1) == [b"two"]
        assert consumer.subscription() == {first, f"{first}-more"}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("excluded", [True, False])
def test_c1_internal_topics_are_left_out_of_patterns_and_lists_unless_they_are_wanted(
    bootstrap: str,
    topic: str,
    group: str,
    is_apache: bool,
    protocol: Literal["classic", "consumer"],
    excluded: bool,
) -> None:
    """Under the consumer protocol brokers match: ours leave internal topics out, Apache Kafka's do not."""
    with member(bootstrap, f"{group}-before", topic) as consumer:
        poll_records(consumer, 1)
        consumer.commit()  # Now there is a topic of offsets.
    with Consumer(
        bootstrap, group_id=group, group_protocol=protocol, exclude_internal_topics=excluded
    ) as consumer:
        consumer.subscribe(pattern=f"__consumer_offsets|{topic}")
        poll_until(consumer, consumer.assignment)
        both = {"__consumer_offsets", topic}
        takes_in = not excluded if protocol == "classic" else is_apache
        assert {place.topic for place in consumer.assignment()} == (both if takes_in else {topic})
        assert both & set(consumer.topics()) == ({topic} if excluded else both)


def test_c2_unsubscribe_commits_leaves_and_allows_another_choice(
    bootstrap: str, topic: str, group: str
) -> None:
    with member(bootstrap, group, topic, max_poll_records=20) as consumer:
        poll_records(consumer, 20)
        with pytest.raises(Misused, match="unsubscribe before assign"):
            consumer.assign([(topic, 0)])
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        assert consumer.subscription() == set()
        consumer.assign([(topic, 0)])
        with pytest.raises(Misused, match="unsubscribe before subscribe"):
            consumer.subscribe([topic])
        assert poll_records(consumer, 1)[0].offset == 20
        consumer.unsubscribe()
        consumer.subscribe([topic])
        assert poll_records(consumer, 1)[0].offset == 40


def test_c5_who_comes_after_a_close_does_not_wait_for_a_session_to_run_out(
    bootstrap: str, topic: str, group: str
) -> None:
    consumer = member(bootstrap, group, topic, session_timeout_ms=SESSION_MS)
    poll_records(consumer, 1)
    consumer.close(timeout=PATIENCE_S)
    began = time.monotonic()
    with Consumer(bootstrap, group_id=group, topics=[topic]) as other:
        poll_until(other, other.assignment)
    assert time.monotonic() - began < SESSION_MS / 2000


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_c5_close_within_its_time_although_the_group_is_gone(
    victim: Target, fresh_topic: Callable[[], str], group: str, protocol: str
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)()
    write(victim.bootstrap, topic, NUMBERS)
    consumer = member(victim.bootstrap, group, topic, group_protocol=protocol)
    poll_records(consumer, 1)
    victim.kill()
    began = time.monotonic()
    consumer.close(timeout=1.0)
    # Far less than what a commit or a session would wait for.
    assert time.monotonic() - began < 4  # It waited for another five seconds, to say that it leaves.
    with pytest.raises(Closed):
        consumer.poll(0)


def test_c1_nothing_waits_behind_a_long_poll(bootstrap: str, new_topic: NewTopic, group: str) -> None:
    topic = new_topic()
    place = TopicPartition(topic, 0)
    options = {"group_id": group, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 120_000}
    began = time.monotonic()
    with Consumer(bootstrap, **options) as consumer:  # type: ignore[arg-type]
        consumer.assign([place])
        assert consumer.poll(0.5) == []
        assert consumer.metrics()["fetches"] == 1
        consumer.commit({place: 0})
        assert consumer.end_offsets() == {place: 0}
        assert consumer.lag() == {place: 0}
        assert len(consumer.partitions_for(topic)) == 1
        write(bootstrap, topic, [b"it ends when there is something"])
        assert len(poll_values(consumer, 1)) == 1
    assert time.monotonic() - began < 100

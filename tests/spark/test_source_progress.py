"""How a streaming query goes on, trigger by trigger, while topics grow, come and go."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest

import everlog
from everlog.model.errors import Refused
from everlog.spark.source.offsets import DataLost, Offsets
from everlog.spark.source.options import read_options
from everlog.spark.source.progress import Progress
from tests.spark.conftest import NewTopic
from tests.spark.source_reads import at, delete, options, send, values

NUMBERS = [b"%d" % number for number in range(100)]


class Clock:
    """A clock that stands where it is put."""

    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


@contextmanager
def a_query(bootstrap: str, topic: str, clock: Clock | None = None, **more: str) -> Generator[Progress]:
    given = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest", **more}
    if "subscribePattern" not in more:
        given["subscribe"] = topic
    progress = Progress(read_options(given, streaming=True), clock or Clock())
    try:
        yield progress
    finally:
        progress.close()


def test_triggers_read_everything_once_in_shares(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    send(everlog_bootstrap, topic, NUMBERS)
    send(everlog_bootstrap, topic, NUMBERS[:20], partition=1)
    given = options(everlog_bootstrap, topic)
    found: list[bytes] = []
    with a_query(everlog_bootstrap, topic, maxOffsetsPerTrigger="60") as query:
        start = query.begin()
        ends: list[Offsets] = []
        while (end := query.next_end(start, limited=True)) != start:
            found += values(given, query.ranges(start, end))
            ends.append(end)
            start = end
        assert ends[0] == {at(topic): 50, at(topic, 1): 10}
        assert ends[-1] == query.seen_latest == {at(topic): 100, at(topic, 1): 20}
        assert query.next_end(query.begin(), limited=False) == ends[-1]
    assert sorted(found) == sorted(NUMBERS + NUMBERS[:20])


def test_bytes_limit_a_trigger_and_never_stop_it(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, (b"x" * 1000 for _ in range(400)), compression_type="none")
    with a_query(everlog_bootstrap, topic, maxBytesPerTrigger="100000") as query:
        end = query.next_end({at(topic): 0}, limited=True)
        # A value of 1000 bytes takes a key of 1000 more here, and a little.
        assert 40 <= end[at(topic)] <= 52
    with a_query(everlog_bootstrap, topic, maxBytesPerTrigger="1") as query:
        assert query.next_end({at(topic): 7}, limited=True) == {at(topic): 8}


def test_a_trigger_waits_for_volume_up_to_the_delay(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS[:5])
    clock = Clock()
    limits = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1m"}
    with a_query(everlog_bootstrap, topic, clock, **limits) as query:
        # A query that has just started reads what there is.
        start = query.next_end(query.begin(), limited=True)
        assert start == {at(topic): 5}
        send(everlog_bootstrap, topic, NUMBERS[:5])
        assert query.next_end(start, limited=True) == start
        clock.now_ms = 60_000
        assert query.next_end(start, limited=True) == {at(topic): 10}
        # What is available now is read however little it is.
        query.stop_at_latest()
        assert query.next_end({at(topic): 9}, limited=True) == {at(topic): 10}


def test_new_partitions_and_new_topics_are_read_from_their_beginning(
    everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS[:3])
    other = f"{topic}-b"
    with a_query(everlog_bootstrap, topic, subscribePattern=f"{topic}.*") as query:
        start = query.next_end(query.begin(), limited=False)
        assert start == {at(topic): 3}
        with everlog.Admin(everlog_bootstrap) as admin:
            admin.create_partitions({topic: 2})
            admin.create_topics([everlog.NewTopic(other, 1)])
            admin.wait_for_topics([topic, other])
        send(everlog_bootstrap, topic, NUMBERS[:4], partition=1)
        send(everlog_bootstrap, other, NUMBERS[:5])
        end = query.next_end(start, limited=False)
        assert end == {at(topic): 3, at(topic, 1): 4, at(other): 5}
        assert [(each.place, each.start, each.end) for each in query.ranges(start, end)] == [
            (at(topic, 1), 0, 4),
            (at(other), 0, 5),
        ]


def test_partitions_known_for_a_while_are_not_asked_for(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    clock = Clock()
    with a_query(everlog_bootstrap, topic, clock, **{"partition.metadata.cache.ttl.ms": "1000"}) as query:
        start = query.next_end(query.begin(), limited=False)
        with everlog.Admin(everlog_bootstrap) as admin:
            admin.create_partitions({topic: 2})
            admin.wait_for_topics([topic])
        assert query.next_end(start, limited=False) == start
        clock.now_ms = 1000
        assert query.next_end(start, limited=False) == {at(topic): 0, at(topic, 1): 0}


def test_what_is_available_now_does_not_grow(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS[:3])
    with a_query(everlog_bootstrap, topic) as query:
        query.stop_at_latest()
        send(everlog_bootstrap, topic, NUMBERS[:3])
        with everlog.Admin(everlog_bootstrap) as admin:
            admin.create_partitions({topic: 2})
        end = query.next_end(query.begin(), limited=True)
        assert end == {at(topic): 3, at(topic, 1): 0}
        assert query.next_end(end, limited=True) == end


def test_a_run_ends_although_partitions_have_come_and_gone_since_the_last(
    everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    send(everlog_bootstrap, topic, NUMBERS[:3], partition=1)
    before = {at(topic): 0, at(f"{topic}-gone"): 7}
    with a_query(everlog_bootstrap, topic, failOnDataLoss="false") as query:
        query.stop_at_latest()
        end = query.next_end(before, limited=True)
        assert end == {at(topic): 0, at(topic, 1): 3}
        assert [each.place for each in query.ranges(before, end)] == [at(topic, 1)]
        assert query.next_end(end, limited=True) == end


def test_topics_that_are_deleted_are_a_loss_and_topics_not_asked_for_any_more_are_none(
    everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic, other = new_topic(), new_topic()
    start = {at(topic): 0, at(other): 0}
    with a_query(everlog_bootstrap, topic) as query:
        assert query.next_end(start, limited=False) == {at(topic): 0}
        delete(everlog_bootstrap, other)
        with pytest.raises(DataLost, match=f"do not exist any more, .*: {other}-0"):
            query.next_end(start, limited=False)
        with pytest.raises(DataLost, match=f"do not exist any more, .*: {other}-0"):
            query.ranges(start, {at(topic): 0})


def test_a_topic_made_anew_is_a_loss_and_read_from_its_beginning_by_who_does_not_mind(
    everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS[:3])
    start = {at(topic): 50}
    with a_query(everlog_bootstrap, topic) as query, pytest.raises(DataLost, match="ends at 3, expected 50"):
        query.next_end(start, limited=False)
    with a_query(everlog_bootstrap, topic, failOnDataLoss="false") as query:
        end = query.next_end(start, limited=False)
        assert end == {at(topic): 3}
        assert [(each.start, each.end) for each in query.ranges(start, end)] == [(0, 3)]
        assert query.next_end(end, limited=False) == end


def test_a_topic_that_was_made_anew_and_has_grown_is_a_loss(
    everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS[:3])
    with a_query(everlog_bootstrap, topic) as query:
        end = query.next_end(query.begin(), limited=False)
        delete(everlog_bootstrap, topic)
        with everlog.Admin(everlog_bootstrap) as admin:
            admin.create_topics([everlog.NewTopic(topic, 1)])
            admin.wait_for_topics([topic])
        send(everlog_bootstrap, topic, NUMBERS[:9])
        with pytest.raises(DataLost, match=f"deleted and made anew while they were being read: {topic}"):
            query.next_end(end, limited=False)


def test_committed_data_that_ends_before_what_was_read_is_no_loss(
    everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(everlog_bootstrap, topic, NUMBERS[:3])
    with everlog.Producer(everlog_bootstrap, transactional_id=f"tx-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0)
        producer.flush(timeout=60)
        # As a query leaves it that read uncommitted data before.
        start = {at(topic): 4}
        with a_query(everlog_bootstrap, topic) as query:
            assert query.next_end(start, limited=False) == start
        producer.abort_transaction()


def test_a_partition_whose_first_records_are_gone_before_it_is_seen_is_a_loss(
    everlog_bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    send(everlog_bootstrap, topic, NUMBERS[:9], partition=1)
    with everlog.Admin(everlog_bootstrap) as admin:
        admin.delete_records({at(topic, 1): 4})
    with a_query(everlog_bootstrap, topic) as query:
        with pytest.raises(DataLost, match=f"{topic}-1 starts at offset 4"):
            query.next_end({at(topic): 0}, limited=False)
        # To a query that has not read the topic before it is where the topic begins.
        assert query.next_end({}, limited=False) == {at(topic): 0, at(topic, 1): 9}
        assert query.begin() == {at(topic): 0, at(topic, 1): 4}


def test_offsets_are_committed_to_a_group(everlog_bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with a_query(everlog_bootstrap, topic) as query:
        query.commit(f"g-{topic}", {at(topic): 42})
    with everlog.Admin(everlog_bootstrap) as admin:
        assert admin.list_group_offsets(f"g-{topic}")[at(topic)].offset == 42
    with (
        a_query(everlog_bootstrap, topic, startingOffsets=f"group:g-{topic}") as query,
        pytest.raises(DataLost, match="ends at 0, expected 42"),
    ):
        query.begin()


def test_a_query_begins_only_with_what_exists(everlog_bootstrap: str) -> None:
    with (
        a_query(everlog_bootstrap, "nowhere") as query,
        pytest.raises(Refused, match="no topic 'nowhere' at"),
    ):
        query.begin()
    with (
        a_query(everlog_bootstrap, "", subscribePattern="no-such-.*") as query,
        pytest.raises(Refused, match=r"subscribePattern='no-such-\.\*': no topic"),
    ):
        query.begin()

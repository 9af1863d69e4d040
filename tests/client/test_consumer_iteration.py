"""A consumer in a for loop: it goes over records at hand and sees what happens meanwhile (C1, C5, C7)."""

import threading

import pytest

from everlog import Consumer, TopicPartition, Woken
from tests.client.conftest import NewTopic
from tests.client.log_writing import write
from tests.client.polling import PATIENCE_S

COUNT = 3000


@pytest.fixture
def topic(bootstrap: str, new_topic: NewTopic) -> str:
    """A topic with some thousand numbers in its one partition."""
    name = new_topic()
    write(bootstrap, name, [b"%d" % number for number in range(COUNT)])
    return name


def reader(bootstrap: str, topic: str, group: str | None = None) -> Consumer:
    consumer = Consumer(bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([(topic, 0)])
    return consumer


def test_c1_every_record_comes_once_and_in_order(bootstrap: str, topic: str) -> None:
    seen: list[int] = []
    with reader(bootstrap, topic) as consumer:
        for record in consumer:
            seen.append(int(record.value))
            if len(seen) == COUNT:
                break
        assert consumer.position((topic, 0)) == COUNT
        assert consumer.metrics()["records_polled"] == COUNT

    assert seen == list(range(COUNT))


def test_c7_the_position_is_behind_the_record_that_the_loop_has(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic) as consumer:
        for record in consumer:
            if record.offset % 700 == 0:
                assert consumer.position((topic, 0)) == record.offset + 1
            if record.offset == COUNT - 1:
                break


def test_c7_a_commit_in_a_loop_means_what_the_loop_has_seen(bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with reader(bootstrap, topic, f"group-{topic}") as consumer:
        for record in consumer:
            if record.offset == 1234:
                consumer.commit()
                break
    with reader(bootstrap, topic, f"group-{topic}") as consumer:
        committed = consumer.committed(place)[place]

    assert committed is not None
    assert committed.offset == 1235


def test_c7_a_seek_in_a_loop_counts_for_the_next_record(bootstrap: str, topic: str) -> None:
    seen: list[int] = []
    with reader(bootstrap, topic) as consumer:
        for record in consumer:
            seen.append(record.offset)
            if record.offset == 5:
                consumer.seek((topic, 0), 2000)
            if record.offset == 2002:
                consumer.seek((topic, 0), 100)
            if record.offset == 101:
                break

    assert seen == [0, 1, 2, 3, 4, 5, 2000, 2001, 2002, 100, 101]


def test_c7_a_pause_in_a_loop_counts_for_the_next_record(
    bootstrap: str, topic: str, new_topic: NewTopic
) -> None:
    other = new_topic()
    write(bootstrap, other, [b"another"])
    seen: list[str] = []
    with reader(bootstrap, topic) as consumer:
        for record in consumer:
            seen.append(record.topic)
            if record.offset == 3 and record.topic == topic:
                consumer.pause((topic, 0))
                consumer.assign([(topic, 0), (other, 0)])
            if record.topic == other:
                consumer.resume((topic, 0))
            if record.topic == topic and record.offset == 4:
                break

    assert [*dict.fromkeys(seen)] == [topic, other]
    assert seen.count(topic) == 5


def test_c1_a_loop_goes_on_where_a_poll_ended_and_the_other_way_round(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic) as consumer:
        assert [next(consumer).offset for _ in range(2)] == [0, 1]
        loop = iter(consumer)
        assert [next(loop).offset for _ in range(3)] == [2, 3, 4]
        assert [record.offset for record in consumer.poll(PATIENCE_S, 2)] == [5, 6]
        assert [next(loop).offset for _ in range(3)] == [7, 8, 9]
        assert next(iter(consumer)).offset == 10
        assert consumer.poll_arrow(PATIENCE_S).column("offset")[0].as_py() == 11


def test_c1_closing_in_a_loop_ends_it(bootstrap: str, topic: str) -> None:
    seen = 0
    with reader(bootstrap, topic) as consumer:
        for _ in consumer:
            seen += 1
            if seen == 10:
                consumer.close()

    assert seen == 10


def test_c1_a_wakeup_reaches_a_loop_that_has_records(bootstrap: str, topic: str) -> None:
    def go_over(consumer: Consumer) -> None:
        for record in consumer:
            if record.offset == 10:
                consumer.wakeup()
            if record.offset == COUNT - 1:
                consumer.seek_to_beginning((topic, 0))

    with reader(bootstrap, topic) as consumer, pytest.raises(Woken):
        go_over(consumer)


def test_c1_two_threads_that_iterate_share_the_records(bootstrap: str, topic: str) -> None:
    seen: list[list[int]] = [[], []]
    lock = threading.Lock()
    with reader(bootstrap, topic) as consumer:

        def work(mine: list[int]) -> None:
            for record in consumer:
                with lock:
                    mine.append(record.offset)
                    if len(seen[0]) + len(seen[1]) >= COUNT:
                        break

        threads = [threading.Thread(target=work, args=(mine,), daemon=True) for mine in seen]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and len(seen[0]) + len(seen[1]) < COUNT:
            threads[0].join(0.05)
        consumer.close()
        for thread in threads:
            thread.join(PATIENCE_S)

    assert sorted(seen[0] + seen[1]) == list(range(COUNT))

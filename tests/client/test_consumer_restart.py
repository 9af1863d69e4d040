"""A consumer whose broker is killed, paused and started again: nothing is lost, nothing comes twice (C1)."""

import threading
from collections.abc import Callable

import pytest

from everlog import Consumer, ConsumerRecord, EverlogError
from tests.client.conftest import topic_maker
from tests.client.log_writing import write
from tests.client.polling import poll_records, poll_until
from tests.conformance.target import Target

NUMBERS = [b"%d" % number for number in range(3000)]


def test_c1_a_broker_that_is_killed_costs_neither_loss_nor_duplicates(
    victim: Target, fresh_topic: Callable[[], str]
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)(2)
    for partition in (0, 1):
        write(victim.bootstrap, topic, NUMBERS[:1000], partition=partition)
    with Consumer(victim.bootstrap, auto_offset_reset="earliest", max_poll_records=50) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        seen = poll_records(consumer, 300)
        victim.kill()
        # What was fetched ahead is still handed out, and then polls just find nothing.
        for _ in range(30):
            seen += consumer.poll(0.02)
        victim.start()
        for partition in (0, 1):
            write(victim.bootstrap, topic, NUMBERS[1000:2000], partition=partition)
        poll_until(consumer, lambda: len(seen) >= 4000, seen)
        victim.kill()
        victim.start()
        for partition in (0, 1):
            write(victim.bootstrap, topic, NUMBERS[2000:], partition=partition)
        poll_until(consumer, lambda: len(seen) >= 6000, seen)
        assert consumer.lag() == {(topic, 0): 0, (topic, 1): 0}
    for partition in (0, 1):
        assert [record.value for record in seen if record.partition == partition] == NUMBERS


def test_c1_a_broker_that_is_paused_is_read_on_once_it_goes_on(
    victim: Target, fresh_topic: Callable[[], str]
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)(1)
    write(victim.bootstrap, topic, NUMBERS[:1000])
    with Consumer(victim.bootstrap, auto_offset_reset="earliest", request_timeout_ms=300) as consumer:
        consumer.assign([(topic, 0)])
        seen = poll_records(consumer, 1000)
        victim.pause()
        failures = consumer.metrics()["fetch_failures"]
        # Some of what it asks for meanwhile is given up: what comes of that later is not to be taken twice.
        poll_until(consumer, lambda: consumer.metrics()["fetch_failures"] > failures, seen)
        assert len(seen) == 1000
        victim.resume()
        write(victim.bootstrap, topic, NUMBERS[1000:])
        poll_until(consumer, lambda: len(seen) >= len(NUMBERS), seen)
    assert [record.value for record in seen] == NUMBERS


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_c5_a_member_of_a_group_reads_on_after_its_coordinator_was_killed(
    victim: Target, fresh_topic: Callable[[], str], protocol: str
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)(1)
    write(victim.bootstrap, topic, NUMBERS[:1000])
    options = {"group_protocol": protocol, "auto_offset_reset": "earliest", "auto_commit_interval_ms": 100}
    with Consumer(victim.bootstrap, group_id="g", topics=[topic], **options) as consumer:  # type: ignore[arg-type]
        seen = poll_records(consumer, 1000)
        consumer.commit()
        victim.kill()
        for _ in range(10):
            seen += consumer.poll(0.02)
        victim.start()
        write(victim.bootstrap, topic, NUMBERS[1000:])
        poll_until(consumer, lambda: {record.value for record in seen} >= set(NUMBERS), seen)
    assert [record.value for record in seen] == NUMBERS


def test_c1_calls_fail_by_their_time_out_while_the_broker_is_away(
    victim: Target, fresh_topic: Callable[[], str]
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)(1)
    with Consumer(victim.bootstrap, auto_offset_reset="earliest", request_timeout_ms=500) as consumer:
        consumer.assign([(topic, 0)])
        assert consumer.position((topic, 0)) == 0
        victim.kill()
        with pytest.raises(EverlogError) as late:
            consumer.end_offsets(timeout=1.0)
        assert late.value.retriable
        victim.start()
        assert consumer.end_offsets() == {(topic, 0): 0}


def test_c1_writing_and_reading_at_the_same_time_keeps_order(
    victim: Target, fresh_topic: Callable[[], str]
) -> None:
    topic = topic_maker(victim.bootstrap, fresh_topic)(1)
    seen: list[ConsumerRecord] = []
    with Consumer(victim.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        writer = threading.Thread(target=write, args=(victim.bootstrap, topic, NUMBERS))
        writer.start()
        poll_until(consumer, lambda: len(seen) >= 3000, seen)
        writer.join()
    assert [record.value for record in seen] == NUMBERS

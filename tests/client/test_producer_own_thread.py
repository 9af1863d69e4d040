"""What may not be done on the thread that delivers, where it would wait for itself: it is refused (P1)."""

import asyncio
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from everlog import BulkDelivery, Closed, Delivery, EverlogError, Misused, Producer, TimedOut, aio
from tests.client.conftest import NewTopic
from tests.client.log_reading import read_log

pa: Any = import_module("pyarrow")

PATIENCE_S = 60.0


REFUSED_S = 10.0
"""Far more than a refusal takes; who waits for himself waits for ever."""


def in_a_callback(producer: Producer, topic: str, work: Callable[[], object]) -> BaseException | None:
    """Do something in a delivery callback; returns what it raised."""
    raised: list[BaseException | None] = []
    is_over = threading.Event()

    def hear(_found: object, _error: object) -> None:
        try:
            work()
        except EverlogError as error:
            raised.append(error)
        else:
            raised.append(None)
        finally:
            is_over.set()

    producer.send(topic, b"heard of", on_delivery=hear)
    assert is_over.wait(REFUSED_S), "the network thread waits for itself"
    return raised[0]


def test_a_callback_may_not_close_and_the_producer_goes_on(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    producer = Producer(bootstrap)

    assert isinstance(in_a_callback(producer, topic, producer.close), Misused)
    assert producer.send(topic, b"after").result(PATIENCE_S).offset == 1
    producer.close()
    with pytest.raises(Closed):
        producer.send(topic, b"too late")


WAITS: dict[str, Callable[[Delivery], object]] = {
    "result": lambda delivery: delivery.result(),
    "result in time": lambda delivery: delivery.result(PATIENCE_S),
    "exception": lambda delivery: delivery.exception(),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=list(WAITS))
def test_a_callback_may_not_wait_for_what_is_not_delivered(
    bootstrap: str, new_topic: NewTopic, wait: Callable[[Delivery], object]
) -> None:
    topic = new_topic(2)
    pending: list[Delivery] = []
    with Producer(bootstrap) as producer:

        def send_and_wait() -> None:
            pending.append(producer.send(topic, b"pending", partition=1))
            wait(pending[0])

        assert isinstance(in_a_callback(producer, topic, send_and_wait), Misused)
        assert pending[0].result(PATIENCE_S).partition == 1
        assert in_a_callback(producer, topic, lambda: wait(pending[0])) is None


def test_a_callback_may_ask_without_waiting(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    with Producer(bootstrap) as producer:

        def ask() -> None:
            producer.send(topic, b"pending", partition=1).result(0)

        assert isinstance(in_a_callback(producer, topic, ask), TimedOut)


def test_a_callback_may_not_wait_for_columns(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    table = pa.table({"value": [b"one", b"two"]})
    with Producer(bootstrap) as producer:
        producer.send(topic, b"first").result(PATIENCE_S)
        pending: list[BulkDelivery] = []
        is_sent = threading.Event()

        def wait() -> None:
            assert is_sent.wait(PATIENCE_S)
            pending[0].result()

        def send_columns() -> None:
            pending.append(producer.send_arrow(topic, table))
            is_sent.set()

        # While the callback holds the network thread nothing is delivered.
        sender = threading.Thread(target=send_columns)

        def send_there_and_wait_here() -> None:
            sender.start()
            wait()

        assert isinstance(in_a_callback(producer, topic, send_there_and_wait_here), Misused)
        sender.join()
        assert sum(part.record_count for part in pending[0].result(PATIENCE_S)) == 2


def test_on_a_loop_a_delivery_is_awaited_and_not_waited_for(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    table = pa.table({"value": [b"one", b"two"]})

    async def work() -> None:
        async with aio.Producer(bootstrap) as producer:
            record = await producer.send(topic, b"x")
            with pytest.raises(Misused, match="awaited"):
                record.result()
            with pytest.raises(Misused, match="awaited"):
                record.exception(1.0)
            assert (await record).offset == 0
            assert record.result().offset == 0
            columns = await producer.send_arrow(topic, table)
            await columns
            assert columns.result()[0].base_offset == 1
            # Another thread may wait for what the loop delivers.
            other = await producer.send(topic, b"y")
            assert (await asyncio.to_thread(other.result, PATIENCE_S)).offset == 3

    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))
    assert len(read_log(bootstrap, topic)) == 4

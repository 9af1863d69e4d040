"""What a delivery says, to whom and when (P1)."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from everlog.client.core import surroundings
from everlog.client.core.errors import Closed, Misused, TimedOut
from everlog.client.core.producer.delivery import BulkDelivery, Delivery, RecordMetadata
from everlog.client.core.producer.network_thread import NetworkThread
from everlog.client.core.producer.pending_batch import PendingBatch
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.records.rows import BatchBuffer
from everlog.records.short_way import tell_delivered

PLACE = TopicPartition("orders", 2)


def a_batch(records: int = 4) -> PendingBatch:
    buffer = BatchBuffer()
    for number in range(records):
        buffer.append(None, b"%d" % number, (), 1)
    batch = PendingBatch(PLACE, buffer, 0.0, (0,), threading.Lock())
    batch.count = records
    return batch


def test_who_has_to_deliver_does_not_wait_for_it() -> None:
    thread = NetworkThread()
    batch = PendingBatch(PLACE, BatchBuffer(), 0.0, (0,), threading.Lock(), thread)
    thread.ident = threading.get_ident()

    for delivery in (Delivery(batch, 0, 1), BulkDelivery([batch])):
        with pytest.raises(Misused, match="awaited"):
            delivery.result()
        with pytest.raises(Misused, match="awaited"):
            delivery.exception(1.0)
        with pytest.raises(TimedOut):
            delivery.result(0)


def test_a_record_lies_behind_the_others_of_its_batch() -> None:
    batch = a_batch()
    delivery = Delivery(batch, 3, 1234)
    assert not delivery.done()
    assert "pending" in repr(delivery)
    batch.deliver(100, -1)
    assert delivery.result() == RecordMetadata("orders", 2, 103, 1234)
    assert delivery.exception() is None
    assert "103" in repr(delivery)


def test_the_brokers_time_counts_if_it_gave_one() -> None:
    batch = a_batch()
    batch.deliver(100, 9999)
    assert Delivery(batch, 0, 1234).result().timestamp == 9999


def test_an_offset_that_is_not_known_is_minus_one_for_each_record() -> None:
    batch = a_batch()
    batch.deliver(-1, -1)
    assert Delivery(batch, 3, 0).result().offset == -1


def test_a_failure_is_raised_and_told() -> None:
    batch = a_batch()
    error = EverlogError("no")
    batch.fail(error)
    delivery = Delivery(batch, 0, 0)
    assert delivery.exception() is error
    with pytest.raises(EverlogError, match="no"):
        delivery.result()


def test_a_result_that_does_not_come_in_time_is_a_time_out_of_the_wait_only() -> None:
    batch = a_batch()
    delivery = Delivery(batch, 0, 0)
    with pytest.raises(TimedOut, match="so far"):
        delivery.result(0.01)
    batch.deliver(0, -1)
    assert delivery.result(0.01).offset == 0


def test_whoever_waits_is_woken() -> None:
    batch = a_batch()
    found: list[int] = []
    waiting = [
        threading.Thread(target=lambda: found.append(Delivery(batch, 1, 0).result(30).offset))
        for _ in range(3)
    ]
    for thread in waiting:
        thread.start()
    batch.deliver(10, -1)
    for thread in waiting:
        thread.join(30)
    assert found == [11, 11, 11]


def test_callbacks_are_called_once_in_order_and_at_once_if_it_is_late() -> None:
    batch = a_batch()
    told: list[object] = []
    delivery = Delivery(batch, 0, 5)
    delivery.add_done_callback(lambda done: told.append(done is delivery))
    delivery.notify(lambda metadata, error: told.append((metadata, error)))
    assert told == []
    batch.deliver(7, -1)
    batch.fail(EverlogError("too late"))
    assert told == [True, (RecordMetadata("orders", 2, 7, 5), None)]
    assert delivery.exception() is None
    delivery.add_done_callback(lambda done: told.append("late"))
    assert told[-1] == "late"


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("base", "time"), [(100, -1), (100, 9999), (-1, -1)])
def test_who_wants_to_hear_of_a_record_is_told_the_same_compiled_or_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, base: int, time: int, compiled: bool
) -> None:
    if compiled and tell_delivered is None:
        pytest.skip("the kernel is not built, or EVERLOG_PURE_PYTHON is set")
    if not compiled:
        monkeypatch.setattr("everlog.client.core.producer.record_metadata.tell_delivered", None)
    batch = a_batch()
    told: list[tuple[RecordMetadata | None, EverlogError | None]] = []

    def fail(_metadata: object, _error: object) -> None:
        raise ValueError("a bug of the application")

    deliveries = [Delivery(batch, index, 1000 + index) for index in range(4)]
    for delivery in deliveries:
        delivery.notify(fail)
        delivery.notify(lambda metadata, error: told.append((metadata, error)))
    batch.deliver(base, time)

    assert told == [(delivery.result(), None) for delivery in deliveries]
    assert all(type(metadata) is RecordMetadata for metadata, _ in told)
    assert caplog.text.count("ValueError: a bug of the application") == 4


@pytest.mark.skipif(tell_delivered is None, reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set")
def test_what_may_not_be_caught_ends_the_telling_and_what_is_no_delivery_is_refused() -> None:
    assert tell_delivered is not None
    delivery = Delivery(a_batch(), 0, 0)
    failures: list[Exception] = []

    def interrupted(_metadata: object, _error: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tell_delivered([delivery, interrupted], RecordMetadata, "orders", 0, 1, -1, failures.append)
    for notices, kind in (([object(), print], RecordMetadata), ([delivery, print], int)):
        with pytest.raises(TypeError):
            tell_delivered(notices, kind, "orders", 0, 1, -1, failures.append)  # type: ignore[arg-type]
    assert failures == []


def test_a_split_batch_is_done_when_both_halves_are_and_each_record_has_its_own_fate() -> None:
    batch = a_batch(5)
    deliveries = [Delivery(batch, index, 0) for index in range(5)]
    told: list[bool] = []
    deliveries[0].add_done_callback(lambda _: told.append(True))
    first, second = batch.divide()
    deeper, deepest = second.divide()
    first.deliver(10, -1)
    assert not deliveries[0].done()
    deeper.deliver(20, -1)
    deepest.fail(EverlogError("too large"))
    assert told == [True]
    fates = [delivery.result().offset if delivery.exception() is None else None for delivery in deliveries]
    ends = first.count, first.count + deeper.count
    assert fates[: ends[0]] == [10 + index for index in range(first.count)]
    assert fates[ends[0] : ends[1]] == [20 + index for index in range(deeper.count)]
    assert fates[ends[1] :] == [None] * deepest.count


def test_a_delivery_that_is_kept_does_not_keep_the_records() -> None:
    batch = a_batch()
    batch.encoded = bytearray(10)
    batch.deliver(0, -1)
    assert batch.buffer is None
    assert batch.encoded is None


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_delivery_can_be_awaited_whichever_thread_ends_it(elsewhere: bool) -> None:
    batch = a_batch()

    async def wait() -> int:
        end: Callable[[], None] = lambda: batch.deliver(3, -1)  # noqa: E731
        if elsewhere:
            threading.Timer(0.01, end).start()
        else:
            asyncio.get_running_loop().call_later(0.01, end)
        async with asyncio.timeout(30):
            return (await Delivery(batch, 1, 0)).offset

    assert asyncio.run(wait()) == 4


def test_a_bulk_delivery_is_done_when_all_batches_are() -> None:
    one, two = a_batch(2), a_batch(3)
    bulk = BulkDelivery([one, two])
    told: list[bool] = []
    bulk.add_done_callback(lambda _: told.append(True))
    one.deliver(5, -1)
    assert not bulk.done()
    assert told == []
    two.deliver(9, -1)
    assert told == [True]
    assert [(each.base_offset, each.record_count) for each in bulk.result()] == [(5, 2), (9, 3)]
    assert asyncio.run(_await(bulk)) == 2


async def _await(bulk: BulkDelivery) -> int:
    return len(await bulk)


def test_a_bulk_delivery_has_the_first_error() -> None:
    one, two = a_batch(), a_batch()
    bulk = BulkDelivery([one, two])
    one.deliver(0, -1)
    with pytest.raises(TimedOut):
        bulk.result(0.01)
    two.fail(EverlogError("no"))
    with pytest.raises(EverlogError, match="no"):
        bulk.result()


def test_the_time_out_of_a_bulk_delivery_is_for_all_of_its_batches_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = [a_batch() for _ in range(4)]
    now = 0.0
    waited: list[float | None] = []

    def wait(batch: PendingBatch, timeout: float | None = None) -> bool:
        nonlocal now
        waited.append(timeout)
        now += 4.0
        return timeout is None or timeout >= 4.0

    monkeypatch.setattr(surroundings, "monotonic", lambda: now)
    monkeypatch.setattr(PendingBatch, "wait", wait)
    with pytest.raises(TimedOut, match="within 10 s"):
        BulkDelivery(batches).result(10)
    assert waited == [10.0, 6.0, 2.0]

    waited.clear()
    assert BulkDelivery(batches).exception() is None
    assert waited == [None] * 4


def test_nothing_sent_in_bulk_is_done() -> None:
    bulk = BulkDelivery([])
    told: list[bool] = []
    bulk.add_done_callback(lambda _: told.append(True))
    assert bulk.done()
    assert bulk.result() == []
    assert told == [True]


def test_a_forked_process_waits_for_no_lock_whose_holder_it_does_not_have() -> None:
    waited_for, held = a_batch(), threading.Lock()
    done = PendingBatch(PLACE, BatchBuffer(), 0.0, (0,), held)
    done.deliver(100, -1)
    event = waited_for._event = threading.Event()  # pyright: ignore[reportPrivateUsage]
    heard: list[str] = []

    def notice(_metadata: object, _error: object) -> None:
        heard.append("notice")

    def in_child() -> None:
        waited_for.abandon(Closed("forked"), threading.Lock())
        Delivery(done, 0, 1).add_done_callback(lambda _: heard.append("callback"))
        Delivery(done, 0, 1).notify(notice)

    # As threads hold them that are about to sleep, or find out what became of other batches.
    with event._cond, held:  # type: ignore[attr-defined]  # pyright: ignore
        child = threading.Thread(target=in_child, daemon=True)
        child.start()
        child.join(5.0)
        assert not child.is_alive()
    assert heard == ["callback", "notice"]
    assert waited_for.is_done

"""The short way of a record into an open batch: what takes it, and what goes the long way (P1)."""

import gc
import threading
import time
import weakref
from typing import Any

import pytest

from everlog.records.batch import HEADER_BYTES, batch_at
from everlog.records.murmur2 import partition_of_key
from everlog.records.reader import Record, read_records
from everlog.records.rows import BatchBuffer, rows_are_compiled
from everlog.records.short_way import Inlet, ShortWay, short_way, ticket
from tests.unit.records.sections import NOON

pytestmark = pytest.mark.skipif(
    not rows_are_compiled(), reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set"
)


@ticket
class Receipt:
    """Where a record is."""

    __slots__ = ("_batch", "_index", "_timestamp")

    _batch: Any
    _index: int
    _timestamp: int

    def place(self) -> tuple[Any, int, int]:
        return self._batch, self._index, self._timestamp

    def __repr__(self) -> str:
        return f"<Receipt {self._index}>"


class Topic:
    """A topic of three partitions with an inlet each, and what came the long way."""

    def __init__(self, *, hashes_keys: bool = True, size_bytes: int = 100_000) -> None:
        self.long: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        made = short_way(self._take_long, Receipt, hashes_keys=hashes_keys)
        assert made is not None
        self.way: ShortWay = made
        self.buffers = [BatchBuffer() for _ in range(3)]
        self.inlets = tuple(Inlet() for _ in range(3))
        self.notices: list[list[Any]] = [[], [], []]
        for number, inlet in enumerate(self.inlets):
            inlet.open(f"batch-{number}", self.buffers[number], size_bytes, self.notices[number])
        self.way.set_inlets("orders", self.inlets)
        self.way.stick("orders", self.inlets[1])

    def _take_long(self, *args: Any, **named: Any) -> str:
        self.long.append((args, named))
        return "the long way"

    def records(self, partition: int) -> list[Record]:
        buffer = self.buffers[partition]
        return read_records(batch_at(buffer.seal())) if buffer.count else []

    def counts(self) -> list[int]:
        return [buffer.count for buffer in self.buffers]


def test_a_record_without_a_key_goes_where_it_sticks() -> None:
    topic = Topic()
    before = time.time_ns() // 1_000_000

    receipt = topic.way.send("orders", b"pizza")

    assert topic.counts() == [0, 1, 0]
    (record,) = topic.records(1)
    assert (record.key, record.value, record.headers) == (None, b"pizza", ())
    assert before <= record.timestamp <= time.time_ns() // 1_000_000
    assert receipt.place() == ("batch-1", 0, record.timestamp)
    assert topic.way.send("orders", b"pasta").place()[:2] == ("batch-1", 1)
    topic.way.stick("orders", topic.inlets[2])
    assert topic.way.send("orders", b"soup").place()[:2] == ("batch-2", 0)
    assert topic.long == []


def test_a_key_gives_the_partition_that_all_of_kafkas_clients_give_it() -> None:
    topic = Topic()
    for number in range(200):
        key = b"k" * (number % 7) + b"%d" % number
        receipt = topic.way.send("orders", b"v", key)
        assert receipt.place()[0] == f"batch-{partition_of_key(key, 3)}"
    assert topic.long == []


def test_a_partition_that_is_named_wins_over_the_key() -> None:
    topic = Topic()
    for partition in (0, 1, 2):
        assert topic.way.send("orders", b"v", b"key", partition=partition).place()[0] == f"batch-{partition}"
        assert topic.way.send("orders", partition=partition).place()[0] == f"batch-{partition}"


def test_all_that_a_record_has_is_kept() -> None:
    topic = Topic()

    topic.way.send(
        topic="orders",
        value=bytearray(b"v"),
        key=None,
        headers=[("trace", b"1"), ("none", None)],
        timestamp=NOON,
    )
    topic.way.send("orders", None, b"k", partition=1, headers=(), timestamp=None, on_delivery=None)

    assert topic.records(1)[0] == Record(0, NOON, None, b"v", (("trace", b"1"), ("none", None)))
    assert topic.records(1)[1]._replace(timestamp=0) == Record(1, 0, b"k", None, ())
    assert topic.long == []


def test_who_wants_to_hear_of_a_record_is_noted_beside_its_receipt() -> None:
    topic = Topic()

    first = topic.way.send("orders", b"v", on_delivery=print)
    topic.way.send("orders", b"v")
    second = topic.way.send("orders", b"v", on_delivery=repr)

    assert topic.notices[1] == [first, print, second, repr]


LONG: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "a topic that is not known": (("others", b"v"), {}),
    "a topic that is no str": ((b"orders", b"v"), {}),
    "no topic": ((), {"value": b"v"}),
    "too much": (("orders", b"v", b"k", 1), {}),
    "an argument that does not exist": (("orders", b"v"), {"novel": 1}),
    "an argument given twice": (("orders", b"v"), {"value": b"v"}),
    "text": (("orders", "v"), {}),
    "a key of text": (("orders", b"v", "k"), {}),
    "a partition that does not exist": (("orders", b"v"), {"partition": 3}),
    "a partition below none": (("orders", b"v"), {"partition": -1}),
    "a partition of text": (("orders", b"v"), {"partition": "1"}),
    "a partition beyond all": (("orders", b"v"), {"partition": 1 << 80}),
    "a time before 1970": (("orders", b"v"), {"timestamp": -5}),
    "a time of text": (("orders", b"v"), {"timestamp": "noon"}),
    "headers of a dict": (("orders", b"v"), {"headers": {"a": b"b"}}),
    "a header's name of bytes": (("orders", b"v"), {"headers": [(b"a", b"b")]}),
    "more than there is room for": (("orders", b"v" * 100_000), {}),
}


@pytest.mark.parametrize("case", LONG)
def test_what_is_unusual_goes_the_long_way_as_it_came(case: str) -> None:
    topic = Topic()
    args, named = LONG[case]

    assert topic.way.send(*args, **named) == "the long way"
    assert topic.way.send(*args, **named, on_delivery=print) == "the long way"

    assert topic.long == [(args, named), (args, {**named, "on_delivery": print})]
    assert topic.counts() == [0, 0, 0]
    assert topic.notices == [[], [], []]


def test_what_the_long_way_raises_is_raised() -> None:
    def refuse(*args: Any, **named: Any) -> None:
        raise LookupError("no such topic")

    way = short_way(refuse, Receipt, hashes_keys=True)
    assert way is not None
    with pytest.raises(LookupError, match="no such topic"):
        way.send("orders", b"v")


def test_records_fit_up_to_the_last_byte_of_a_grant() -> None:
    exact = BatchBuffer()
    exact.append(None, b"v" * 50, (), NOON)
    topic = Topic(size_bytes=exact.size_bytes)

    assert topic.way.send("orders", b"v" * 51, timestamp=NOON) == "the long way"
    topic.way.send("orders", b"v" * 50, timestamp=NOON)
    assert topic.way.send("orders", b"", timestamp=NOON) == "the long way"

    assert topic.buffers[1].size_bytes == exact.size_bytes
    assert topic.counts() == [0, 1, 0]


def test_nothing_goes_into_an_inlet_that_is_closed() -> None:
    topic = Topic()
    topic.way.send("orders", b"first")
    assert topic.inlets[1].is_open

    topic.inlets[1].close()
    topic.inlets[1].close()

    assert not topic.inlets[1].is_open
    assert topic.way.send("orders", b"second") == "the long way"
    assert topic.counts() == [0, 1, 0]


def test_an_inlet_that_is_opened_again_leads_to_the_new_batch() -> None:
    topic = Topic()
    topic.way.send("orders", b"first")
    second = BatchBuffer()
    topic.inlets[1].open("next", second, 1000, [])

    assert topic.way.send("orders", b"second").place()[:2] == ("next", 0)
    assert (topic.counts(), second.count) == ([0, 1, 0], 1)


def test_records_without_a_key_go_the_long_way_where_they_do_not_stick() -> None:
    topic = Topic()
    topic.way.unstick("orders")
    topic.way.unstick("orders")

    assert topic.way.send("orders", b"v") == "the long way"
    assert topic.way.send("orders", b"v", partition=1) != "the long way"


def test_where_keys_are_not_hashed_only_a_named_partition_goes_the_short_way() -> None:
    topic = Topic(hashes_keys=False)

    assert topic.way.send("orders", b"v") == "the long way"
    assert topic.way.send("orders", b"v", b"k") == "the long way"
    assert topic.way.send("orders", b"v", b"k", partition=2).place()[0] == "batch-2"


def test_a_topic_may_get_more_partitions() -> None:
    topic = Topic()
    fourth, buffer = Inlet(), BatchBuffer()
    fourth.open("batch-3", buffer, 100_000, [])
    topic.way.set_inlets("orders", (*topic.inlets, fourth))

    for number in range(50):
        key = b"%d" % number
        assert topic.way.send("orders", b"v", key).place()[0] == f"batch-{partition_of_key(key, 4)}"


def test_receipts_have_the_methods_of_their_class_and_the_collector_does_not_look_at_them() -> None:
    made: Any = Receipt
    receipt = made("batch", 7, NOON)

    assert receipt.place() == ("batch", 7, NOON)
    assert repr(receipt) == "<Receipt 7>"
    assert (Receipt.__name__, Receipt.__module__) == ("Receipt", __name__)
    assert not gc.is_tracked(receipt)
    with pytest.raises(AttributeError):
        setattr(receipt, "_index", 8)  # noqa: B010 - it is private


def test_only_a_class_of_tickets_will_do() -> None:
    with pytest.raises(TypeError, match="ticket_type should be made by"):
        ShortWay(print, str, True)


def test_an_inlet_takes_only_what_it_can_append_to() -> None:
    inlet: Any = Inlet()
    with pytest.raises(TypeError):
        inlet.open("batch", bytearray(), 1000, [])
    assert not inlet.is_open


def test_a_short_way_is_collected_with_what_it_leads_to() -> None:
    class Owner:
        def take(self, *args: Any, **named: Any) -> None: ...

    owner: Any = Owner()
    way: Any = short_way(owner.take, Receipt, hashes_keys=True)
    owner.way = way
    owner.way.set_inlets("orders", (Inlet(),))
    gone = threading.Event()
    weakref.finalize(owner, gone.set)
    del owner, way
    gc.collect()

    assert gone.is_set()


def test_threads_that_send_while_batches_change_lose_nothing() -> None:
    """What an inlet took is in the batch that its receipt names, at the number that it names."""
    topic = Topic()
    batches: list[tuple[str, BatchBuffer]] = []
    inlet = topic.inlets[1]
    inlet.close()
    lock = threading.Lock()

    def reopen(*args: Any, **named: Any) -> None:
        with lock:
            name, buffer = f"b{len(batches)}", BatchBuffer()
            batches.append((name, buffer))
            inlet.open(name, buffer, HEADER_BYTES + 700, [])

    way = short_way(reopen, Receipt, hashes_keys=True)
    assert way is not None
    way.set_inlets("orders", topic.inlets)
    way.stick("orders", inlet)
    receipts: list[list[tuple[bytes, Any]]] = [[], [], []]

    def work(mine: list[tuple[bytes, Any]], name: int) -> None:
        for number in range(3000):
            value = b"%d-%d" % (name, number)
            while (receipt := way.send("orders", value)) is None:
                pass
            mine.append((value, receipt))

    threads = [threading.Thread(target=work, args=(mine, name)) for name, mine in enumerate(receipts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    held = {name: [r.value for r in read_records(batch_at(b.seal()))] for name, b in batches if b.count}
    sent = [item for mine in receipts for item in mine]
    assert sum(len(values) for values in held.values()) == len(sent) == 9000
    for value, receipt in sent:
        name, index, _ = receipt.place()
        assert held[name][index] == value


def test_an_open_inlet_is_collected_with_the_batch_that_knows_it() -> None:
    class Batch:
        inlet: Inlet | None = None

    batch, inlet = Batch(), Inlet()
    batch.inlet = inlet
    inlet.open(batch, BatchBuffer(), 100, [])
    alive = weakref.ref(batch)

    del batch, inlet
    gc.collect()

    assert alive() is None

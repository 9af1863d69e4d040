"""Tagged fields in Fetch and Produce: nobody knows them, nothing is kept of them, and they are few (O5)."""

import struct
import subprocess
import sys

import pytest

from everlog.model.errors import ProtocolError
from everlog.wire.hot.fetch import read_fetch
from everlog.wire.hot.produce import read_produce
from everlog.wire.hot.reading import MAX_ELEMENTS, MAX_TAGGED_FIELDS
from everlog.wire.hot.writing import compact_size

NONE = b"\0"
THOUSAND = compact_size(1_000) + b"".join(compact_size(number) + b"\0" for number in range(1_000))
FETCH_START = struct.pack(">iiiibii", -1, 500, 1, 1, 0, 0, -1)
FETCH_PARTITION = struct.pack(">iiqiqi", 0, -1, 0, -1, -1, 1)
PRODUCE_START = b"\0" + struct.pack(">hi", 1, 1_000)
PRODUCE_PARTITION = struct.pack(">ib", 0, 1)


def a_fetch(partitions: bytes, count: int, topic: bytes = NONE, forgotten: bytes = b"\x01") -> memoryview:
    topics = b"\x02\x02t" + compact_size(count + 1) + partitions + topic
    return memoryview(FETCH_START + topics + forgotten + b"\x01" + NONE)


def a_produce(partitions: bytes, count: int, topic: bytes = NONE, end: bytes = NONE) -> memoryview:
    return memoryview(PRODUCE_START + b"\x02\x02t" + compact_size(count + 1) + partitions + topic + end)


def forgotten_topics(count: int, tags: bytes) -> bytes:
    return compact_size(count + 1) + (b"\x02t\x01" + tags) * count


def test_tagged_fields_of_all_structs_of_a_request_share_one_budget() -> None:
    fifty = MAX_ELEMENTS // MAX_TAGGED_FIELDS

    assert len(read_fetch(a_fetch((FETCH_PARTITION + THOUSAND) * fifty, fifty), 0, 12).partitions) == fifty
    (topic,) = read_produce(a_produce((PRODUCE_PARTITION + THOUSAND) * fifty, fifty), 0, 9).topics
    assert len(topic[1]) == fifty


@pytest.mark.parametrize(
    "body",
    [
        a_fetch((FETCH_PARTITION + THOUSAND) * 51, 51),
        a_fetch((FETCH_PARTITION + THOUSAND) * 50, 50, topic=b"\x01\x05\0"),
        a_fetch((FETCH_PARTITION + THOUSAND) * 50, 50, forgotten=forgotten_topics(1, b"\x01\x05\0")),
        a_fetch(FETCH_PARTITION + NONE, 1, forgotten=forgotten_topics(51, THOUSAND)),
    ],
    ids=["partitions", "topics", "forgotten topics", "forgotten topics alone"],
)
def test_a_fetch_with_more_is_refused(body: memoryview) -> None:
    with pytest.raises(ProtocolError, match="more than 50000 tagged fields in all"):
        read_fetch(body, 0, 12)


@pytest.mark.parametrize(
    "body",
    [
        a_produce((PRODUCE_PARTITION + THOUSAND) * 51, 51),
        a_produce((PRODUCE_PARTITION + THOUSAND) * 50, 50, topic=b"\x01\x05\0"),
        a_produce((PRODUCE_PARTITION + THOUSAND) * 50, 50, end=b"\x01\x05\0"),
    ],
    ids=["partitions", "topics", "body"],
)
def test_a_produce_with_more_is_refused(body: memoryview) -> None:
    with pytest.raises(ProtocolError, match="more than 50000 tagged fields in all"):
        read_produce(body, 0, 9)


PEAK_OF_READING = """
import sys, tracemalloc
from everlog.wire.hot.fetch import read_fetch
body = memoryview(sys.stdin.buffer.read())
read_fetch(body, 0, 12)
tracemalloc.start()
read_fetch(body, 0, 12)
print(tracemalloc.get_traced_memory()[1])
"""
"""In a process of its own: in this one, what threads of other tests allocate would count, too."""


def test_nothing_is_kept_of_fields_that_nobody_knows() -> None:
    body = a_fetch((FETCH_PARTITION + THOUSAND) * 50, 50)

    done = subprocess.run(
        [sys.executable, "-c", PEAK_OF_READING], input=body, stdout=subprocess.PIPE, timeout=60, check=True
    )

    # A thousand views of one section took a hundred times as much.
    assert int(done.stdout) < 16_000


def test_who_asks_is_read_from_among_fields_that_nobody_knows() -> None:
    state = b"\x03" + b"\0\x02id" + b"\x01\x0c" + struct.pack(">iq", 3, 12) + b"\x05\0"
    body = struct.pack(">iiibii", 500, 1, 1, 0, 0, -1) + b"\x01\x01\x01" + state

    data = read_fetch(memoryview(body), 0, 15)

    assert (data.replica_id, data.replica_epoch) == (3, 12)

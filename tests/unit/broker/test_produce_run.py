"""Produce requests taken in as a run: the same as one by one, in every answer and every byte (L1, P4, R4)."""

import errno
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.broker.handlers.produce_run import lanes_are_built
from everlog.model.errors import ErrorCode, ProtocolError
from everlog.model.ids import Uuid
from everlog.records.compression import Codec
from everlog.sim.faults import Fault, Kind, Moment, Operation
from everlog.wire.codec import decode_response, encode_request
from everlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from everlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.unit.broker.several import SeveralBrokers
from tests.unit.broker.simulated import Client, SimulatedNode, a_batch, fetched, records_of

pytestmark = pytest.mark.skipif(
    not lanes_are_built(), reason="the kernels are not built, or EVERLOG_PURE_PYTHON is set"
)

NOON = 1_700_000_000_000


@dataclass(frozen=True)
class Request:
    """One produce request of a pipeline."""

    batch: bytes
    version: int = 9
    topic: str = "orders"
    partition: int = 0
    acks: int = -1
    transactional_id: str | None = None
    client_id: str = "loader"

    def frame(self, correlation_id: int, topic_ids: dict[str, Uuid]) -> bytes:
        by_id = self.version >= 13
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=self.acks,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name="" if by_id else self.topic,
                    topic_id=topic_ids.get(self.topic, Uuid(b"?" * 16)) if by_id else Uuid(bytes(16)),
                    partition_data=[
                        PartitionProduceData(index=self.partition, records=memoryview(self.batch))
                    ],
                )
            ],
        )
        return encode_request(request, self.version, correlation_id, self.client_id)


def a_node(**topic: str) -> tuple[SimulatedNode, dict[str, Uuid]]:
    node = SimulatedNode()
    ids = {"orders": node.create_topic("orders", partitions=2, **topic)}
    # The first batch of a log is appended by itself, as it begins the epoch.
    client = node.client()
    feed(
        node, client, b"".join(Request(a_batch(b"0"), partition=p).frame(p, ids) for p in (0, 1)), runs=False
    )
    return node, ids


def feed(node: SimulatedNode, client: Client, stream: bytes, *, runs: bool) -> list[int]:
    """Give what one read brought to the session as a connection does; returns the sizes of the runs."""
    data = memoryview(bytearray(stream))
    at = 0
    taken: list[int] = []
    try:
        while at < len(data) and client.open:
            after = client.session.receive_run(data, at, len(data)) if runs else at
            if after > at:
                taken.append(after - at)
                at = after
                continue
            size = int.from_bytes(data[at : at + 4], "big")
            client.session.receive(data[at + 4 : at + 4 + size])
            at += 4 + size
    except ProtocolError:
        client.close()
    node.broker.settle()
    node.aside.run_all()
    return taken


def kept(node: SimulatedNode) -> dict[str, bytes]:
    """All bytes of the topic's segments and, after a clean stop, of its indexes and snapshots."""
    node.node.close()
    names = [f"/data/orders-{partition}" for partition in (0, 1)]
    return {
        f"{directory}/{name}": node.files.read(f"{directory}/{name}")
        for directory in names
        for name in node.files.names(directory)
    }


def test_requests_that_came_together_are_one_write_and_one_answer() -> None:
    node, ids = a_node()
    client = node.client()
    stream = b"".join(Request(a_batch(b"%d" % n, b"x")).frame(n, ids) for n in range(4))
    appends: list[str] = []

    def watch(operation: Operation, moment: Moment) -> None:
        if moment is Moment.AFTER:
            assert operation.kind is Kind.APPEND, operation
            appends.append(operation.path)

    node.files.watch = watch

    assert feed(node, client, stream, runs=True) == [len(stream)]

    assert appends == ["/data/orders-0/00000000000000000000.log"]
    assert len(client.frames) == 1
    answers = split(client.frames[0])
    offsets = [answer.responses[0].partition_responses[0].base_offset for answer in answers]
    assert offsets == [1, 3, 5, 7]
    values = [record.value for record in records_of(fetched(node.client(), "orders", 1))]
    assert values == [b"0", b"x", b"1", b"x", b"2", b"x", b"3", b"x"]


def test_runs_for_several_partitions_that_came_together_leave_as_one_answer() -> None:
    node, ids = a_node()
    client = node.client()
    stream = b"".join(Request(a_batch(b"x"), partition=n // 2 % 2).frame(n, ids) for n in range(6))

    assert feed(node, client, stream, runs=True) == [len(stream)]

    assert len(client.frames) == 1
    found = [answer.responses[0].partition_responses[0] for answer in split(client.frames[0])]
    assert [(one.index, one.base_offset) for one in found] == [(0, 1), (0, 2), (1, 1), (1, 2), (0, 3), (0, 4)]


def test_runs_that_others_have_to_copy_first_are_answered_in_their_place() -> None:
    world = SeveralBrokers()
    world.create_topic("orders", (1, 2, 3), min_insync_replicas="2")
    world.run(10)
    client = world[1].client()
    opening = bytearray(Request(a_batch(b"0"), acks=1).frame(0, {}))
    client.session.receive(memoryview(opening)[4:])
    world.run(100)
    client.frames.clear()
    # Answers that are there at once stand before and behind one that has to wait.
    acks = (1, 1, -1, 1)
    stream = bytearray(b"".join(Request(a_batch(b"x"), acks=a).frame(n, {}) for n, a in enumerate(acks)))

    assert client.session.receive_run(memoryview(stream), 0, len(stream)) == len(stream)
    assert [len(split(frames)) for frames in client.frames] == [2]
    world[1].settle()
    world.run(100)

    offsets = [a.responses[0].partition_responses[0].base_offset for f in client.frames for a in split(f)]
    assert offsets == [1, 2, 3, 4]


def split(frames: bytes) -> list[ProduceResponse]:
    answers: list[ProduceResponse] = []
    while frames:
        size = int.from_bytes(frames[:4], "big")
        _, answer = decode_response(0, 9, frames[4 : 4 + size])
        assert isinstance(answer, ProduceResponse)
        answers.append(answer)
        frames = frames[4 + size :]
    return answers


def test_a_run_that_the_disk_refuses_is_refused_and_leaves_nothing() -> None:
    node, ids = a_node()
    client = node.client()
    stream = b"".join(Request(a_batch(b"%d" % n)).frame(n, ids) for n in range(3))
    end = node.replica("orders").opened().end_offset

    node.files.faults = [Fault(Kind.APPEND, errno.ENOSPC, "orders-0")]
    feed(node, client, stream, runs=True)

    codes = [
        answer.responses[0].partition_responses[0].error_code
        for frame in client.frames
        for answer in split(frame)
    ]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert node.replica("orders").opened().end_offset == end

    node.files.faults.clear()
    client.frames.clear()
    feed(node, client, stream, runs=True)
    assert [a.responses[0].partition_responses[0].base_offset for f in client.frames for a in split(f)] == [
        1,
        2,
        3,
    ]


def test_a_retried_run_of_an_idempotent_producer_is_not_appended_again() -> None:
    node, ids = a_node()
    client = node.client()
    first = Request(a_batch(b"a", producer=(7, 0, 0))).frame(0, ids)
    more = b"".join(Request(a_batch(b"b", producer=(7, 0, n))).frame(n, ids) for n in (1, 2, 3))

    feed(node, client, first, runs=True)
    assert feed(node, client, more, runs=True) == [len(more)]
    assert feed(node, client, more, runs=True) == []

    assert node.replica("orders").opened().end_offset == 5
    offsets = [a.responses[0].partition_responses[0].base_offset for f in client.frames for a in split(f)]
    assert offsets == [1, 2, 3, 4, 2, 3, 4]


def test_an_answer_that_is_still_owed_holds_a_run_back() -> None:
    node, ids = a_node(flush_messages="1")
    client = node.client()
    stream = b"".join(Request(a_batch(b"%d" % n)).frame(n, ids) for n in range(3))

    assert feed(node, client, stream, runs=True) == []
    assert len(client.frames) == 3


def _batch(
    count: int,
    size: int,
    codec: Codec,
    producer: tuple[int, int, int] | None,
    key: bytes | None,
    flip: tuple[int, int] | None,
    timestamp: int,
) -> bytes:
    raw = bytearray(
        a_batch(
            *[b"v" * size] * count,
            keys=[key] * count,
            timestamp=timestamp,
            codec=codec,
            producer=producer or (-1, -1, -1),
        )
    )
    if flip is not None:
        at, mask = flip
        raw[at % len(raw)] ^= mask
    return bytes(raw)


SEQUENCES = st.sampled_from([0, 1, 2, 3, 4, 2**31 - 1])
BATCHES = st.builds(
    _batch,
    st.integers(1, 3),
    st.integers(0, 300),
    st.sampled_from([Codec.NONE] * 6 + [Codec.GZIP]),
    st.one_of(st.none(), st.tuples(st.integers(5, 6), st.integers(0, 1), SEQUENCES)),
    st.sampled_from([b"k", b"k", b"k", None]),
    st.one_of(
        st.none(), st.none(), st.none(), st.none(), st.tuples(st.integers(0, 200), st.integers(1, 255))
    ),
    st.sampled_from([NOON, NOON, -1, 1 << 60]),
)
REQUESTS = st.lists(
    st.builds(
        Request,
        BATCHES,
        version=st.sampled_from([9, 9, 9, 12, 13, 8]),
        topic=st.sampled_from(["orders"] * 8 + ["nowhere"]),
        partition=st.sampled_from([0, 0, 0, 1, 9]),
        acks=st.sampled_from([-1, -1, -1, 1, 0, 5]),
        client_id=st.sampled_from(["loader", ""]),
    ),
    min_size=1,
    max_size=8,
)


TOPICS: list[dict[str, str]] = [
    {},
    {},
    {"cleanup_policy": "compact"},
    {"max_message_bytes": "300"},
    {"segment_ms": "1"},
    {"message_timestamp_type": "LogAppendTime"},
    {"compression_type": "gzip"},
    {"flush_messages": "2"},
]


@settings(max_examples=150, deadline=None)
@given(REQUESTS, st.sampled_from(TOPICS))
def test_a_run_does_what_its_requests_do_one_by_one(requests: list[Request], topic: dict[str, str]) -> None:
    outcomes: list[tuple[bytes, bool, dict[str, bytes]]] = []
    for runs in (False, True):
        node, ids = a_node(**topic)
        client = node.client()
        stream = b"".join(request.frame(n, ids) for n, request in enumerate(requests))
        feed(node, client, stream, runs=runs)
        # A topic's id is drawn anew by each node.
        answers = b"".join(client.frames).replace(ids["orders"], b"the id of orders")
        outcomes.append((answers, client.open, kept(node)))
    assert outcomes[0][:2] == outcomes[1][:2]
    for name, content in outcomes[0][2].items():
        if not name.endswith("partition.metadata"):
            assert outcomes[1][2][name] == content, name


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 255))
def test_no_bytes_break_the_reader(noise: bytes, cut: int, byte: int) -> None:
    node, _ = a_node()
    whole = Request(a_batch(b"a", b"b")).frame(1, {})
    damaged = bytearray(whole + noise)
    damaged[cut % len(damaged)] = byte
    held = node.broker.replicas
    from everlog.broker import _lanes

    for data in (memoryview(damaged), memoryview(damaged)[: cut % len(damaged)]):
        after, answers, noted, _ = _lanes.take(
            held.by_name, held.by_id, data, 0, len(data), node.clock.wall()
        )
        # No lane is open, so nothing is taken, whatever it looks like.
        assert (after, answers, noted) == (0, b"", None)


def answers_to(node: SimulatedNode, requests: list[Request], ids: dict[str, Uuid]) -> list[tuple[int, int]]:
    """Feed the requests as one read; error code and base offset of each."""
    client = node.client()
    feed(node, client, b"".join(one.frame(n, ids) for n, one in enumerate(requests)), runs=True)
    results = [a.responses[0].partition_responses[0] for frame in client.frames for a in split(frame)]
    return [(result.error_code, result.base_offset) for result in results]


def test_a_null_key_in_a_run_is_refused_by_a_compacted_topic() -> None:
    node, ids = a_node(cleanup_policy="compact")
    requests = [Request(a_batch(b"a")), Request(a_batch(b"b", keys=[None])), Request(a_batch(b"c"))]

    assert answers_to(node, requests, ids) == [(0, 1), (ErrorCode.INVALID_RECORD, -1), (0, 2)]


def test_a_run_that_makes_the_segment_too_old_begins_another() -> None:
    node, ids = a_node(segment_ms="1000")

    late = [Request(a_batch(b"a", timestamp=NOON + 5_000)), Request(a_batch(b"b", timestamp=NOON + 5_001))]
    assert answers_to(node, late, ids) == [(0, 1), (0, 2)]

    assert node.replica("orders").opened().segment_count == 2


def test_a_record_from_the_future_in_a_run_is_refused() -> None:
    node, ids = a_node(message_timestamp_after_max_ms="1000")
    wall = node.clock.wall()
    requests = [Request(a_batch(b"a", timestamp=wall)), Request(a_batch(b"b", timestamp=wall + 60_000))]

    assert answers_to(node, requests, ids) == [(0, 1), (ErrorCode.INVALID_TIMESTAMP, -1)]


def test_a_run_waits_its_turn_behind_a_fetch_that_waits_for_records() -> None:
    node, ids = a_node()
    client = node.client()
    fetch = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        topics=[FetchTopic(topic="orders", partitions=[FetchPartition(partition=1, fetch_offset=1)])],
    )
    client.ask(fetch, 12)

    feed(node, client, Request(a_batch(b"a")).frame(1, ids), runs=True)

    assert client.frames == []
    feed(node, node.client(), Request(a_batch(b"b"), partition=1).frame(2, ids), runs=True)
    assert len(client.frames) == 2
    assert [a.responses[0].partition_responses[0].base_offset for a in split(client.frames[1])] == [1]


@pytest.mark.parametrize("at_once", [1, 1000])
def test_answers_of_runs_that_wait_their_turn_are_as_few_as_those_of_others(at_once: int) -> None:
    node, ids = a_node()
    client = node.client()
    fetch = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        topics=[FetchTopic(topic="orders", partitions=[FetchPartition(partition=1, fetch_offset=1)])],
    )
    client.ask(fetch, 12)

    # The answers of a read are one, and there may be thousands of them.
    stream = Request(a_batch(b"a")).frame(1, ids) * at_once
    reads = 0
    while client.reading and reads < 10_000:
        feed(node, client, stream, runs=True)
        reads += 1

    assert not client.reading
    assert reads * at_once < 25_000
    feed(node, node.client(), Request(a_batch(b"b"), partition=1).frame(2, ids), runs=True)
    assert client.reading
    assert len(client.frames) == 1 + reads


def test_a_run_for_an_internal_topic_is_refused() -> None:
    node, ids = a_node()
    node.broker.replicas.by_name["orders"][0].internal = True

    assert (
        answers_to(node, [Request(a_batch(b"a"))] * 2, ids) == [(ErrorCode.INVALID_TOPIC_EXCEPTION, -1)] * 2
    )

"""What a consumer does when leaders move, logs lose records, brokers misbehave; brokers by script (C1)."""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest

from everlog.client.core.consumer.errors import DamagedBatch, LogTruncated
from everlog.client.sync.consumer import Consumer
from everlog.model.errors import ErrorCode, Refused
from everlog.records.builder import NewRecord, build_batch
from everlog.wire.codec import RequestHeader
from everlog.wire.message import Message
from everlog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from everlog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from everlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from everlog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.unit.client.builders import ORDERS_ID
from tests.unit.client.sync.scripted import ScriptedBroker

PLACE = ("orders", 0)
PATIENCE_S = 60.0
HANG_UP = "hang up"
Step = ErrorCode | str | Callable[[PartitionData, FetchResponse], None]


class Cluster:
    """Two brokers and one partition, `orders-0`, of which the leader's log is kept."""

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.leader = 1
        self.told_leader = 1
        """The one that metadata name."""
        self.epoch = 0
        self.log: list[tuple[int, str]] = []
        """Epoch and value of each record; each is a batch of its own."""
        self.steps: deque[Step] = deque()
        """What is done about the next fetches, instead of answering them."""
        self.has_hints = False
        self.near: int | None = None
        self.session = 0
        self.served: list[tuple[int, int, int]] = []
        """Of each fetch: the broker, the session and its epoch."""
        self._known: dict[int, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def write(self, *values: str) -> None:
        self.log += [(self.epoch, value) for value in values]

    def elect(self, leader: int, *, told: bool = True, keeps: int | None = None) -> None:
        """Have another leader, with a new epoch, which may have lost what is behind the records it keeps."""
        with self._lock:
            del self.log[len(self.log) if keeps is None else keeps :]
            self.epoch += 1
            self.leader = leader
            if told:
                self.told_leader = leader

    def answer(self, node: int, _header: RequestHeader, request: Message) -> Message | None:
        with self._lock:
            answer = self._answer(node, request)
        if isinstance(answer, FetchResponse) and answer.error_code == 0 and answer.responses:
            data = answer.responses[0].partitions[0]
            if not data.records and not data.error_code:
                time.sleep(0.01)  # A short long poll.
        return answer

    def _answer(self, node: int, request: Message) -> Message | None:
        match request:
            case MetadataRequest():
                return self._metadata()
            case ListOffsetsRequest():
                asked = request.topics[0].partitions[0]
                found = ListOffsetsPartitionResponse(
                    partition_index=0,
                    offset=0 if asked.timestamp == -2 else len(self.log),
                    error_code=0 if node == self.leader else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                )
                return ListOffsetsResponse(
                    topics=[ListOffsetsTopicResponse(name="orders", partitions=[found])]
                )
            case OffsetForLeaderEpochRequest():
                return self._epoch_end(node, request)
            case FetchRequest():
                return self._fetch(node, request)
            case _:
                raise AssertionError(request)

    def _metadata(self) -> MetadataResponse:
        partition = MetadataResponsePartition(
            partition_index=0,
            leader_id=self.told_leader,
            leader_epoch=self.epoch if self.told_leader == self.leader else self.epoch - 1,
            replica_nodes=[1, 2],
            isr_nodes=[1, 2],
        )
        topic = MetadataResponseTopic(name="orders", topic_id=ORDERS_ID, partitions=[partition])
        brokers = [
            MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port)
            for node, port in self.ports.items()
        ]
        return MetadataResponse(brokers=brokers, topics=[topic], controller_id=1, cluster_id="c")

    def _epoch_end(self, node: int, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        asked = request.topics[0].partitions[0].leader_epoch
        end = EpochEndOffset(partition=0)
        if node != self.leader:
            end.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif epochs := [epoch for epoch, _ in self.log if epoch <= asked]:
            end.leader_epoch = max(epochs)
            end.end_offset = sum(epoch <= asked for epoch, _ in self.log)
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="orders", partitions=[end])]
        )

    def _fetch(self, node: int, request: FetchRequest) -> FetchResponse | None:
        self.served.append((node, request.session_id, request.session_epoch))
        if request.session_epoch == -1:
            return FetchResponse()
        if request.session_id and request.session_epoch > 0 and request.session_id != self.session:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        for topic in request.topics:
            for entry in topic.partitions:
                self._known[node] = (entry.fetch_offset, entry.current_leader_epoch)
        offset, epoch = self._known[node]
        data = PartitionData(partition_index=0, high_watermark=len(self.log), log_start_offset=0)
        response = FetchResponse(
            session_id=self.session,
            responses=[FetchableTopicResponse(topic_id=ORDERS_ID, partitions=[data])],
        )
        step = self.steps.popleft() if self.steps else None
        if step == HANG_UP:
            return None
        if isinstance(step, ErrorCode):
            data.error_code = step
        elif node == self.leader and epoch < self.epoch:
            data.error_code = ErrorCode.FENCED_LEADER_EPOCH
        elif node not in (self.leader, self.near):
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if self.has_hints:
                data.current_leader = LeaderIdAndEpoch(leader_id=self.leader, leader_epoch=self.epoch)
                response.node_endpoints = [
                    NodeEndpoint(node_id=self.leader, host="127.0.0.1", port=self.ports[self.leader])
                ]
        elif offset > len(self.log):
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif self.near is not None and node == self.leader and request.rack_id:
            data.preferred_read_replica = self.near
        else:
            data.records = b"".join(self.batches(offset))
            if callable(step):
                step(data, response)
        return response

    def batches(self, start: int) -> list[bytes]:
        return [
            bytes(
                build_batch(
                    [NewRecord(None, value.encode(), (), 1000)], base_offset=offset, leader_epoch=epoch
                )
            )
            for offset, (epoch, value) in enumerate(self.log)
            if offset >= start
        ]


@contextmanager
def reading(cluster: Cluster, *, offset: int | None = 0, **options: Any) -> Generator[Consumer]:
    """A consumer of the partition, from an offset on."""
    settings: dict[str, Any] = {"auto_offset_reset": "earliest", "retry_backoff_ms": 5, **options}
    with ExitStack() as stack:
        for node in (1, 2):
            broker = stack.enter_context(ScriptedBroker(partial(cluster.answer, node)))
            cluster.ports[node] = broker.port
        consumer = stack.enter_context(Consumer(f"127.0.0.1:{cluster.ports[1]}", **settings))
        consumer.assign([PLACE])
        if offset is not None:
            consumer.seek(PLACE, offset)
        yield consumer


def values(consumer: Consumer, count: int) -> list[str]:
    found: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{found} and no more came"
        found += [record.value.decode() for record in consumer.poll(0.1)]
    return found


def test_c1_a_leader_that_moved_is_followed_by_metadata() -> None:
    cluster = Cluster()
    cluster.write("a", "b")
    with reading(cluster) as consumer:
        assert values(consumer, 2) == ["a", "b"]
        cluster.elect(2)
        cluster.write("c")
        assert values(consumer, 1) == ["c"]
        assert 2 in {node for node, _, _ in cluster.served}


def test_c1_a_leader_that_moved_is_followed_by_a_hint_while_metadata_are_behind() -> None:
    cluster = Cluster()
    cluster.has_hints = True
    cluster.write("a")
    with reading(cluster) as consumer:
        assert values(consumer, 1) == ["a"]
        cluster.elect(2, told=False)
        cluster.write("b")
        assert values(consumer, 1) == ["b"]


def test_c1_a_log_that_lost_what_was_read_is_read_from_where_it_is_another() -> None:
    cluster = Cluster()
    cluster.write("a", "b", "c", "d")
    with reading(cluster) as consumer:
        assert values(consumer, 4) == ["a", "b", "c", "d"]
        cluster.elect(2, keeps=2)
        cluster.write("C", "D", "E")
        assert values(consumer, 3) == ["C", "D", "E"]


def test_c1_a_log_that_lost_what_was_read_stops_a_consumer_without_a_rule() -> None:
    cluster = Cluster()
    cluster.write("a", "b", "c", "d")
    with reading(cluster, auto_offset_reset="none") as consumer:
        assert values(consumer, 4) == ["a", "b", "c", "d"]
        cluster.elect(2, keeps=2)
        cluster.write("C")
        with pytest.raises(LogTruncated, match="from offset 2 on it is another") as lost:
            values(consumer, 1)
        assert lost.value.diverged == {PLACE: 2}
        consumer.seek(PLACE, 2)
        assert values(consumer, 1) == ["C"]


def test_c1_a_log_that_kept_everything_is_just_read_on() -> None:
    cluster = Cluster()
    cluster.write("a", "b")
    with reading(cluster, auto_offset_reset="none") as consumer:
        read = values(consumer, 2)
        for leader, value in ((2, "c"), (1, "d"), (2, "e")):
            cluster.elect(leader)
            cluster.write(value)
            read += values(consumer, 1)
        assert read == ["a", "b", "c", "d", "e"]


def test_c1_a_replica_nearby_is_read_and_left_when_it_is_none_any_more() -> None:
    cluster = Cluster()
    cluster.near = 2
    cluster.write("a")
    with reading(cluster, client_rack="west") as consumer:
        assert values(consumer, 1) == ["a"]
        cluster.write("b")
        assert values(consumer, 1) == ["b"]
        assert cluster.served[-1][0] == 2
        cluster.near = None
        cluster.write("c")
        assert values(consumer, 1) == ["c"]
        assert cluster.served[-1][0] == 1


def test_c1_sessions_name_what_changed_and_begin_again_when_the_broker_forgot() -> None:
    cluster = Cluster()
    cluster.session = 41
    cluster.write("a")
    with reading(cluster) as consumer:
        assert values(consumer, 1) == ["a"]
        cluster.write("b")
        assert values(consumer, 1) == ["b"]
        epochs = [epoch for _, _, epoch in cluster.served]
        assert epochs == list(range(len(epochs)))
        cluster.session = 42
        cluster.write("c")
        assert values(consumer, 1) == ["c"]
    assert (1, 0, 0) in cluster.served[1:]
    # On another connection: a fetch that is under way may be seen after it.
    assert (1, 42, -1) in cluster.served[-2:], "it says goodbye"


@pytest.mark.parametrize(
    "step",
    [
        HANG_UP,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
    ids=str,
)
def test_c1_what_passes_is_waited_out(step: Step) -> None:
    cluster = Cluster()
    cluster.write("a", "b")
    cluster.steps += [step, step]
    with reading(cluster) as consumer:
        assert values(consumer, 2) == ["a", "b"]


def test_c1_what_does_not_pass_is_told_and_tried_again() -> None:
    cluster = Cluster()
    cluster.write("a")
    cluster.steps.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with reading(cluster) as consumer:
        with pytest.raises(Refused, match="fetch of orders-0 at offset 0: TOPIC_AUTHORIZATION_FAILED"):
            values(consumer, 1)
        assert values(consumer, 1) == ["a"]


def test_c1_a_damaged_batch_is_told_with_its_place_and_fetched_again() -> None:
    def damage(data: PartitionData, _response: FetchResponse) -> None:
        bad = bytearray(data.records or b"")
        bad[-1] ^= 1
        data.records = bytes(bad)

    cluster = Cluster()
    cluster.write("a", "b")
    cluster.steps.append(damage)
    with reading(cluster, offset=1) as consumer:
        with pytest.raises(DamagedBatch, match="orders-0 at offset 1"):
            values(consumer, 1)
        assert values(consumer, 1) == ["b"]


def test_c1_a_program_can_seek_behind_a_batch_that_stays_damaged() -> None:
    def damage(data: PartitionData, _response: FetchResponse) -> None:
        together = [NewRecord(None, value, (), 1000) for value in (b"a", b"b", b"c")]
        bad = build_batch(together, base_offset=0, leader_epoch=5)
        bad[-1] ^= 1
        data.records = bytes(bad) + b"".join(cluster.batches(3))

    cluster = Cluster()
    cluster.write("a", "b", "c", "d")
    cluster.steps += [damage] * 99
    found: list[str] = []
    left_out: list[int] = []
    with reading(cluster) as consumer:
        while not found:
            try:
                found += values(consumer, 1)
            except DamagedBatch as error:
                left_out.append(error.offset)
                consumer.seek(error.place, error.offset + 1)
    assert (left_out, found) == ([0, 1, 2], ["d"])


def test_c1_a_broker_that_asks_for_a_pause_gets_it() -> None:
    def throttle(_data: PartitionData, response: FetchResponse) -> None:
        response.throttle_time_ms = 300

    cluster = Cluster()
    cluster.write("a")
    cluster.steps.append(throttle)
    with reading(cluster) as consumer:
        began = time.monotonic()
        assert values(consumer, 1) == ["a"]
        cluster.write("b")
        assert values(consumer, 1) == ["b"]
        assert time.monotonic() - began >= 0.25


def test_c5_nothing_is_fetched_while_it_is_not_known_from_where() -> None:
    asked = threading.Event()
    go_on = threading.Event()

    class Slow(Cluster):
        def answer(self, node: int, _header: RequestHeader, request: Message) -> Message | None:
            if isinstance(request, ListOffsetsRequest):
                asked.set()
                assert go_on.wait(PATIENCE_S)
            return super().answer(node, _header, request)

    cluster = Slow()
    cluster.write("a")
    with reading(cluster, offset=None) as consumer:
        assert consumer.poll(0.01) == []
        assert asked.wait(PATIENCE_S)
        assert cluster.served == []
        go_on.set()
        assert values(consumer, 1) == ["a"]


def test_c1_the_next_request_has_left_when_the_application_hears_of_an_answer() -> None:
    cluster = Cluster()
    cluster.write("a")
    heard: list[tuple[int, int]] = []
    with reading(cluster, offset=None) as consumer:
        fetcher = consumer._reading.fetcher  # pyright: ignore[reportPrivateUsage]  # nothing else shows it
        tell = fetcher._on_news  # pyright: ignore[reportPrivateUsage]

        def listen() -> None:
            heard.append((fetcher.counts.chunks, fetcher.counts.fetches))
            tell()

        fetcher._on_news = listen  # pyright: ignore[reportPrivateUsage]
        for value in "abcde":
            assert values(consumer, 1) == [value]
            cluster.write(chr(ord(value) + 1))
    answered = [next(sent for chunks, sent in heard if chunks == number) for number in range(1, 5)]
    assert all(sent > number for number, sent in enumerate(answered, 1)), heard

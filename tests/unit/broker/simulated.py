"""A whole node on a simulated disk, clock and threads, spoken to in frames as a client would."""

from collections.abc import Sequence
from typing import TypeVar

from everlog.broker.broker import Broker
from everlog.broker.exchange import Parts
from everlog.broker.replicas import Replica
from everlog.broker.session import Session
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.settings import broker_settings
from everlog.model.settings.listeners import Listener, SecurityProtocol
from everlog.node.node import Node
from everlog.records.batch import whole_batches
from everlog.records.builder import NewRecord, build_batch
from everlog.records.compression import Codec
from everlog.records.reader import Record, read_records
from everlog.sim.alarm import SimAlarm
from everlog.sim.aside import SimAside
from everlog.sim.chance import SimRandom
from everlog.sim.clock import SimClock
from everlog.sim.disk import SimFiles
from everlog.wire.codec import decode_response, encode_request
from everlog.wire.message import Message
from everlog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from everlog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from everlog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

DATA = "/data"
_MOST_TURNS = 20
M = TypeVar("M", bound=Message)


class Client:
    """One connection to the node; what was answered lies in `answers`, oldest first."""

    def __init__(self, node: "SimulatedNode", listener_name: str) -> None:
        self._node = node
        self._asked: list[tuple[int, int]] = []
        self.frames: list[bytes] = []
        self.open = True
        self.reading = True
        self.session: Session = node.node.open_session(self, listener_name, "192.0.2.7")

    def send(self, parts: Parts) -> None:
        whole = b"".join(part if isinstance(part, bytes) else part.read() for part in parts)
        self.frames.append(whole)

    def close(self) -> None:
        self.open = False

    def pause(self, reason: str) -> None:
        self.reading = False

    def resume(self, reason: str) -> None:
        self.reading = True

    def ask(self, request: Message, version: int) -> None:
        """Send a request; the answer, if there is one yet, can be taken."""
        frame = bytearray(encode_request(request, version, len(self._asked), "test"))
        assert request.KEY is not None
        self._asked.append((request.KEY, version))
        self.session.receive(memoryview(frame)[4:])
        self._node.node.settle()

    def take(self, kind: type[M]) -> M:
        """The oldest answer that was not taken yet."""
        key, version = self._asked.pop(0)
        frame = self.frames.pop(0)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        _, answer = decode_response(key, version, frame[4:])
        assert isinstance(answer, kind)
        return answer

    def call(self, request: Message, version: int, kind: type[M]) -> M:
        """Send a request, let all work beside the loop be done, and return the answer."""
        self.ask(request, version)
        self._node.aside.run_all()
        return self.take(kind)


class SimulatedNode:
    """A node that is started, and can be stopped and started again on the same disk."""

    def __init__(self, files: SimFiles | None = None, **overrides: str) -> None:
        self.files = files or SimFiles()
        self.clock = SimClock()
        self.overrides = overrides
        self.start()

    def start(self) -> None:
        """Start on what is on the disk."""
        self.aside = SimAside()
        self.alarm = SimAlarm()
        given = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "log.dirs": DATA,
            **{key.replace("_", "."): value for key, value in self.overrides.items()},
        }
        # Each start is an incarnation of its own.
        random = SimRandom(f"node {self.files.operations}")
        self.node = Node(broker_settings(given), self.files, self.clock, random, self.aside, self.alarm)
        outcome: list[object] = []
        self.node.start(
            [Listener("PLAINTEXT", "broker.test", 9092, SecurityProtocol.PLAINTEXT)], outcome.append
        )
        for _ in range(_MOST_TURNS):
            self.aside.run_all()
            if outcome:
                break
            self.ring()
        assert outcome == [None]
        self.node.tick(self.clock.now())

    def ring(self) -> None:
        """Let the alarm ring that is due next, and time pass until then."""
        deadline, self.alarm.deadline = self.alarm.deadline, None
        if deadline is not None:
            self.clock.advance(max(0, deadline - self.clock.now()))
            self.node.tick(self.clock.now())

    @property
    def broker(self) -> Broker:
        return self.node.broker

    def client(self, listener_name: str = "PLAINTEXT") -> Client:
        return Client(self, listener_name)

    def pass_time(self, ms: int) -> None:
        """Let time pass, with every alarm on the way rung."""
        end = self.clock.now() + ms
        while True:
            deadline = self.alarm.deadline
            if deadline is None or deadline > end:
                break
            self.clock.advance(max(0, deadline - self.clock.now()))
            self.alarm.deadline = None
            self.node.tick(self.clock.now())
        self.clock.advance(end - self.clock.now())

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> Uuid:
        """Create a topic; setting names are given with underscores."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=1,
                    configs=[
                        CreatableTopicConfig(name=key.replace("_", "."), value=value)
                        for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=1000,
        )
        answer = self.client().call(request, 7, CreateTopicsResponse)
        assert [topic.error_code for topic in answer.topics] == [0], answer
        return answer.topics[0].topic_id

    def replica(self, topic: str, partition: int = 0) -> Replica:
        replica = self.broker.replicas.get(topic, partition)
        assert replica is not None
        return replica


def a_batch(
    *values: bytes | None,
    keys: Sequence[bytes | None] | None = None,
    timestamp: int = 1_700_000_000_000,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A client's batch; `producer` is id, epoch and base sequence."""
    chosen = keys or [b"k"] * len(values)
    records = [NewRecord(key, value, (), timestamp) for key, value in zip(chosen, values, strict=True)]
    producer_id, producer_epoch, base_sequence = producer
    return bytes(
        build_batch(
            records,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
    )


def a_produce(topic: str, *batches: tuple[int, bytes | None], acks: int = -1) -> ProduceRequest:
    """A produce request by name, up to version 12."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=index, records=records) for index, records in batches
                ],
            )
        ],
    )


def produced(
    client: Client, topic: str, batch: bytes, *, acks: int = -1, version: int = 9
) -> PartitionProduceResponse:
    """Produce one batch to partition 0 and return what became of it."""
    answer = client.call(a_produce(topic, (0, batch), acks=acks), version, ProduceResponse)
    return answer.responses[0].partition_responses[0]


def a_fetch(
    topic: str | Uuid,
    *offsets: int,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 30,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    session: tuple[int, int] = (0, -1),
    replica_id: int = -1,
) -> FetchRequest:
    """A fetch of partitions 0, 1, … from the given offsets, by name (up to version 12) or by id."""
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                topic=topic if isinstance(topic, str) else "",
                topic_id=NO_UUID if isinstance(topic, str) else topic,
                partitions=[
                    FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=leader_epoch,
                        last_fetched_epoch=last_fetched_epoch,
                    )
                    for index, offset in enumerate(offsets)
                ],
            )
        ]
        if offsets
        else [],
    )


def fetched(client: Client, topic: str, offset: int, **options: int) -> PartitionData:
    """Fetch partition 0 at once, without waiting."""
    request = a_fetch(topic, offset, **options)  # type: ignore[arg-type]  # only ints are given here
    answer = client.call(request, 12, FetchResponse)
    return answer.responses[0].partitions[0]


def records_of(data: PartitionData) -> list[Record]:
    """The records that an answer carries, from the start of its first batch on."""
    assert data.records is not None
    return [record for batch in whole_batches(data.records) for record in read_records(batch)]

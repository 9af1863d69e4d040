"""Several brokers on simulated disks, and one image of the cluster that is decreed rather than decided.

Requests between them travel in frames and arrive when the world `runs`. The ISR that a leader proposes
becomes part of the image at once, if it is about the partition as it is.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

from everlog.broker.broker import Broker
from everlog.broker.exchange import Parts
from everlog.broker.membership import Membership, NodeWorld
from everlog.broker.replicas import Replica
from everlog.broker.session import Outlet, Session
from everlog.log.directory import LogDirectory
from everlog.log.partition import World
from everlog.metadata.delta import Changes
from everlog.metadata.image import (
    EMPTY_IMAGE,
    LOST_DIRECTORY,
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
    topic_resource,
)
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId, Instant, LeaderEpoch, Offset, Uuid
from everlog.model.settings import broker_settings
from everlog.peers.address import Address, Unreachable
from everlog.sim.alarm import SimAlarm
from everlog.sim.aside import SimAside
from everlog.sim.chance import SimRandom
from everlog.sim.clock import SimClock
from everlog.sim.disk import SimFiles
from everlog.wire.message import Message
from everlog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from everlog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from tests.unit.broker.simulated import DATA, Client

LISTENER = "PLAINTEXT"


class _NoPeers:
    """Stands for connections that nobody opens here: brokers reach each other by lines."""

    def forget(self, address: Address) -> None:
        pass


class _Answers:
    """The far end of a connection between brokers."""

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()

    def send(self, parts: Parts) -> None:
        self.frames.append(b"".join(part if isinstance(part, bytes) else part.read() for part in parts))

    def close(self) -> None:
        raise AssertionError("a broker was not understood by another")

    def pause(self, reason: str) -> None:
        raise AssertionError(reason)

    def resume(self, reason: str) -> None:
        raise AssertionError(reason)


class Line:
    """One broker's way to another: frames in order, answers in order."""

    def __init__(self, world: "SeveralBrokers", start: int, end: int) -> None:
        self._world = world
        self._start, self._end = start, end
        self._outlet = _Answers()
        self._session: Session | None = None
        self._asked: deque[Callable[[object], None]] = deque()
        self.requests: deque[bytes] = deque()
        self.holds_answers = False
        """Whether answers are kept from arriving."""

    def ask_frame(self, pieces: Sequence[bytes], timeout_ms: int, done: Callable[[object], None]) -> None:
        self._asked.append(done)
        self.requests.append(b"".join(pieces))

    def cut(self) -> None:
        asked, self._asked = self._asked, deque()
        self.requests.clear()
        self._outlet = _Answers()
        if self._session is not None:
            self._session.closed()
            self._session = None
        for done in asked:
            done(Unreachable("cut"))

    def step(self) -> bool:
        """Let one thing arrive; returns whether there was one."""
        if not self._world.connected(self._start, self._end):
            if not self._asked:
                return False
            self.cut()
            return True
        if self.requests:
            host = self._world.hosts[self._end]
            if self._session is None:
                self._session = host.open_session(cast(Outlet, self._outlet), LISTENER, "192.0.2.1")
            frame = bytearray(self.requests.popleft())
            self._session.receive(memoryview(frame)[4:])
            host.broker.settle()
            return True
        if self._outlet.frames and not self.holds_answers:
            answer = memoryview(bytearray(self._outlet.frames.popleft()))[4:]
            self._asked.popleft()(answer)
            return True
        return False


class Host:
    """One machine: a disk, and the broker that runs on it."""

    def __init__(self, world: "SeveralBrokers", number: int, overrides: dict[str, str]) -> None:
        self.world = world
        self.number = number
        self.files = SimFiles()
        self.overrides = overrides
        self.start(10 + number)

    def start(self, epoch: int) -> None:
        """Start on what is on the disk, in an epoch that the others may not have heard of yet."""
        self.is_up = True
        self.epoch = epoch
        self.aside = SimAside()
        self.alarm = SimAlarm()
        given = {
            "node.id": str(self.number),
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "log.dirs": DATA,
            "log.initial.task.delay.ms": "1000000000",
            **self.overrides,
        }
        clock = self.world.clock
        random = SimRandom(f"broker {self.number}")
        self.directory = LogDirectory(World(self.files, clock, random), DATA)
        self.directory.load()
        # What decides is not what these tests are about: the channel takes proposals and nothing else.
        member = Membership("cluster", epoch, self.world.image, cast(Any, self), None, cast(Any, _NoPeers()))
        world = NodeWorld(self.files, clock, random, self.aside, self.alarm, cast(Any, None))
        self.broker = Broker(broker_settings(given), member, [self.directory], world)
        cast(Any, self.broker).peer = self._peer

    def _peer(self, other: int, lane: str) -> Line:
        return self.world.line(self.number, other)

    @property
    def node(self) -> "Host":
        return self

    def open_session(self, outlet: Outlet, listener_name: str, peer_host: str) -> Session:
        return Session(cast(Any, self.broker), outlet, listener_name, peer_host, 1000, self.broker)

    def settle(self) -> None:
        self.broker.settle()

    def client(self) -> Client:
        return Client(cast(Any, self), LISTENER)

    def replica(self, topic: str = "orders", partition: int = 0) -> Replica:
        found = self.broker.replicas.get(topic, partition)
        assert found is not None
        return found

    def ask(
        self, request: Message, version: int, done: Callable[[Message | Refused], None], timeout_ms: int
    ) -> None:
        """The channel to the controller."""
        if isinstance(request, AssignReplicasToDirsRequest):
            assert [one.id for one in request.directories] == [LOST_DIRECTORY], request
            self.world.take_out(self.number)
            done(AssignReplicasToDirsResponse())
            return
        assert isinstance(request, AlterPartitionRequest)
        self.world.proposals.append((self.number, request, done))

    def stop(self, *, cleanly: bool = True) -> None:
        """End the process; without `cleanly` what was not synced may still be on the disk."""
        if cleanly:
            self.directory.close(SimAside(), broker_epoch=self.epoch)
        self.is_up = False


class SeveralBrokers:
    """The brokers 1 to `count`."""

    def __init__(self, count: int = 3, **overrides: str) -> None:
        self.clock = SimClock()
        numbers = range(1, count + 1)
        self.image = replace(
            EMPTY_IMAGE,
            brokers=MappingProxyType({BrokerId(one): _broker(one, 10 + one) for one in numbers}),
        )
        self.cuts: set[tuple[int, int]] = set()
        self.proposals: list[tuple[int, AlterPartitionRequest, Callable[[Message | Refused], None]]] = []
        self.hold_proposals = False
        self.slow_disks: set[int] = set()
        """Brokers whose syncs do not end."""
        self._lines: dict[tuple[int, int], Line] = {}
        settings = {key.replace("_", "."): value for key, value in overrides.items()}
        self.hosts: dict[int, Host] = {}
        for one in numbers:
            self.hosts[one] = Host(self, one, settings)

    def __getitem__(self, number: int) -> Host:
        return self.hosts[number]

    # --- the image

    def create_topic(
        self, name: str = "orders", replicas: tuple[int, ...] = (1, 2, 3), **configs: str
    ) -> Uuid:
        """Make a topic with one partition, led by the first of its replicas, all in sync."""
        topic_id = Uuid(name.encode().ljust(16, b"\x07")[:16])
        partition = PartitionImage(replicas, replicas, replicas[0], LeaderEpoch(0), 0, ())
        topic = TopicImage(name, topic_id, (partition,))
        resource = topic_resource(name)
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self._decree(
            replace(
                self.image,
                topics=MappingProxyType({**self.image.topics, name: topic}),
                topics_by_id=MappingProxyType({**self.image.topics_by_id, topic_id: topic}),
                configs=MappingProxyType({**self.image.configs, resource: named}),
            ),
            Changes(topics=(name,), configs=(resource,)),
        )
        return topic_id

    def partition(self, name: str = "orders") -> PartitionImage:
        return self.image.topics[name].partitions[0]

    def change(self, name: str = "orders", *, tell: Sequence[int] | None = None, **fields: object) -> None:
        """Change a partition; a leader that is named begins a new epoch. `tell` is who hears of it."""
        partition = self.partition(name)
        if "leader" in fields:
            fields.setdefault("leader_epoch", partition.leader_epoch + 1)
        changed = replace(
            partition, partition_epoch=partition.partition_epoch + 1, **cast(dict[str, Any], fields)
        )
        topic = replace(self.image.topics[name], partitions=(changed,))
        self._decree(
            replace(
                self.image,
                topics=MappingProxyType({**self.image.topics, name: topic}),
                topics_by_id=MappingProxyType({**self.image.topics_by_id, topic.id: topic}),
            ),
            Changes(topics=(name,)),
            tell,
        )

    def take_out(self, number: int, name: str = "orders") -> None:
        """A replica is not to be counted on: another one that is in sync leads, if there is one."""
        isr = tuple(one for one in self.partition(name).isr if one != number)
        if isr:
            self.change(name, isr=isr, leader=isr[0])

    def tell(self, *numbers: int, name: str = "orders") -> None:
        """Let brokers hear of the image as it is."""
        for number in numbers:
            self.hosts[number].broker.image_changed(self.image, Changes(topics=(name,)))

    def register(self, number: int, epoch: int, rack: str | None = None) -> None:
        """A broker has a new registration, which all hear of."""
        host = self.hosts[number]
        host.epoch = epoch
        brokers = {**self.image.brokers, BrokerId(number): _broker(number, epoch, rack)}
        self._decree(
            replace(self.image, brokers=MappingProxyType(brokers)), Changes(brokers=(BrokerId(number),))
        )
        host.broker.replication.registered(epoch)

    def _decree(self, image: ClusterImage, changes: Changes, tell: Sequence[int] | None = None) -> None:
        self.image = replace(image, end_offset=Offset(self.image.end_offset + 1))
        for host in self.hosts.values():
            if host.is_up and (tell is None or host.number in tell):
                host.broker.image_changed(self.image, changes)

    # --- the network

    def line(self, start: int, end: int) -> Line:
        return self._lines.setdefault((start, end), Line(self, start, end))

    def connected(self, start: int, end: int) -> bool:
        return (
            self.hosts[start].is_up and self.hosts[end].is_up and not {(start, end), (end, start)} & self.cuts
        )

    def cut(self, number: int) -> None:
        """Nothing goes between a broker and the others any more."""
        self.cuts |= {(number, other) for other in self.hosts if other != number}

    # --- time

    def run(self, ms: int = 0) -> None:
        """Let everything arrive that is under way, and then so much time pass."""
        end = Instant(self.clock.now() + ms)
        self._settle()
        while True:
            up = [host for host in self.hosts.values() if host.is_up and host.alarm.deadline is not None]
            nearest = min((cast(Instant, host.alarm.deadline) for host in up), default=None)
            if nearest is None or nearest > end:
                break
            self.clock.advance(max(0, nearest - self.clock.now()))
            for host in up:
                deadline = host.alarm.deadline
                if deadline is not None and deadline <= self.clock.now():
                    host.alarm.deadline = None
                    host.broker.tick(self.clock.now())
            self._settle()
        self.clock.advance(end - self.clock.now())

    def _settle(self) -> None:
        for _ in range(10_000):
            moved = sum(line.step() for line in list(self._lines.values())) > 0
            for host in self.hosts.values():
                if host.is_up and host.aside.waiting and host.number not in self.slow_disks:
                    host.aside.run_all()
                    moved = True
                if host.is_up and (host.alarm.deadline or self.clock.now() + 1) <= self.clock.now():
                    host.alarm.deadline = None
                    host.broker.tick(self.clock.now())
                    moved = True
            if self.proposals and not self.hold_proposals:
                self.answer_proposal()
                moved = True
            if not moved:
                return
        raise AssertionError("the brokers never come to rest")

    # --- who is in sync

    def answer_proposal(self) -> None:
        """Take the oldest proposal, if it is about partitions as they are."""
        number, request, done = self.proposals.pop(0)
        answer = AlterPartitionResponse()
        for topic in request.topics:
            name = self.image.topics_by_id[topic.topic_id].name
            results: list[ResponsePartitionData] = []
            for wanted in topic.partitions:
                partition = self.partition(name)
                if partition.leader != number or partition.leader_epoch != wanted.leader_epoch:
                    code = ErrorCode.FENCED_LEADER_EPOCH
                elif partition.partition_epoch != wanted.partition_epoch:
                    code = ErrorCode.INVALID_UPDATE_VERSION
                elif any(
                    self._is_stale(one.broker_id, one.broker_epoch) for one in wanted.new_isr_with_epochs
                ):
                    code = ErrorCode.INELIGIBLE_REPLICA
                else:
                    code = ErrorCode.NONE
                    isr = tuple(one.broker_id for one in wanted.new_isr_with_epochs)
                    self.change(name, isr=isr, recovering=False)
                    partition = self.partition(name)
                results.append(
                    ResponsePartitionData(
                        partition_index=wanted.partition_index,
                        error_code=code,
                        leader_id=partition.leader,
                        leader_epoch=partition.leader_epoch,
                        isr=list(partition.isr),
                        partition_epoch=partition.partition_epoch,
                    )
                )
            answer.topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=results))
        done(answer)

    def _is_stale(self, number: int, epoch: int) -> bool:
        return epoch not in (-1, self.image.brokers[BrokerId(number)].epoch)


def _broker(number: int, epoch: int, rack: str | None = None) -> BrokerImage:
    return BrokerImage(
        BrokerId(number),
        epoch,
        Uuid(bytes(15) + bytes((number,))),
        (Endpoint(LISTENER, f"broker{number}.test", 9092, 0),),
        rack,
        False,
        False,
        (),
        MappingProxyType({}),
    )

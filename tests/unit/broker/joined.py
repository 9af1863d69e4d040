"""Several brokers on one metadata log, joined by real peers over connections that a test can hold up.

Who leads is decided by the test, as records; commands that brokers send to their controller are decided on
the same log. Followers fetch from their leaders as ever, unless they are told to stand.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from everlog.broker.broker import Broker
from everlog.broker.controller_channel import ControllerChannel
from everlog.broker.exchange import Parts
from everlog.broker.membership import Membership, NodeWorld
from everlog.broker.session import Outlet, Session
from everlog.controller.brokers import InitializeCluster, RegisterBroker, UnfenceBroker
from everlog.controller.decisions import Command, Refusal, Standing
from everlog.controller.producer_ids import AllocateProducerIds
from everlog.controller.topics import CreateTopics, NewTopic
from everlog.log.directory import LogDirectory, make_dir_durably
from everlog.log.partition import World
from everlog.metadata.delta import Changes, apply_with_changes
from everlog.metadata.image import EMPTY_IMAGE, ClusterImage, Endpoint, PartitionImage
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId, Instant, Uuid
from everlog.model.settings import BrokerSettings, broker_settings
from everlog.node.node import Node
from everlog.peers.peers import Peers
from everlog.ports.files import Buffer
from everlog.ports.links import LinkOwner
from everlog.sim.alarm import SimAlarm
from everlog.sim.aside import SimAside
from everlog.sim.chance import SimRandom
from everlog.sim.clock import SimClock
from everlog.sim.disk import SimFiles
from everlog.wire.apis import ApiKey
from everlog.wire.message import Message
from everlog.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from everlog.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from everlog.wire.messages.fence_broker_record import FenceBrokerRecord
from everlog.wire.messages.partition_change_record import PartitionChangeRecord
from tests.unit.broker.handlers.nodes import SimNode
from tests.unit.broker.simulated import DATA

R = TypeVar("R")
PORT = 9092
A_MOMENT_MS = 50
"""More than followers wait when their leader does not know yet that it is one."""
SMALL = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


@dataclass
class Hop:
    """A frame on its way from one broker to another; number 0 stands for the controller."""

    origin: int
    target: int
    is_answer: bool
    key: int
    """The API of the request, or of the last one on the connection."""
    deliver: Callable[[], None]


class _Aside(SimAside):
    """A host's threads: whoever lets them run lets the whole cluster do what is due."""

    def __init__(self, cluster: "JoinedCluster") -> None:
        super().__init__()
        self._cluster = cluster

    def run_all(self) -> None:
        self._cluster.settle()

    def run_own(self) -> bool:
        """Do what this host's threads have to do; returns whether there was anything."""
        had_work = bool(self.waiting or self.ended)
        super().run_all()
        return had_work


class _Link:
    """A connection of one broker to another, as the one that opened it has it."""

    def __init__(self, cluster: "JoinedCluster", origin: "Host", target: "Host", owner: LinkOwner) -> None:
        self.cluster, self.origin, self.target, self.owner = cluster, origin, target, owner
        self.is_open = True
        self.key = -1
        self.session = Session(target.broker, cast(Outlet, _FarEnd(self)), "PLAINTEXT", "192.0.2.1", 100)

    def send(self, frame: Sequence[Buffer]) -> None:
        whole = bytearray(b"".join(frame))
        self.key = int.from_bytes(whole[4:6], "big")

        def deliver() -> None:
            if self.is_open and self.target.is_up:
                self.session.receive(memoryview(whole)[4:])
                self.target.broker.settle()

        self.cluster.post(Hop(self.origin.number, self.target.number, False, self.key, deliver))

    def close(self) -> None:
        self.is_open = False
        self.session.closed()

    def lose(self) -> None:
        if self.is_open:
            self.close()
            self.owner.lost("the connection was lost", refused=False)


class _FarEnd:
    """The same connection, as the broker has it that took it."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    def send(self, parts: Parts) -> None:
        link = self._link
        whole = b"".join(part if isinstance(part, bytes) else part.read() for part in parts)

        def deliver() -> None:
            if link.is_open and link.origin.is_up:
                link.owner.received(memoryview(whole)[4:])
                link.origin.broker.settle()

        link.cluster.post(Hop(link.target.number, link.origin.number, True, link.key, deliver))

    def close(self) -> None:
        self._link.lose()

    def pause(self, reason: str) -> None: ...

    def resume(self, reason: str) -> None: ...


class _Links:
    """Opens connections from one broker."""

    def __init__(self, cluster: "JoinedCluster", origin: "Host") -> None:
        self._cluster, self._origin = cluster, origin
        self.open: list[_Link] = []

    def connect(self, host: str, port: int, owner: LinkOwner) -> _Link:
        target = self._cluster.hosts[int(host.removeprefix("broker-"))]
        link = _Link(self._cluster, self._origin, target, owner)
        self.open.append(link)

        def answer() -> None:
            if not link.is_open:
                return
            if target.is_up:
                owner.opened()
            else:
                link.close()
                owner.lost("nobody listens there", refused=True)

        self._cluster.post(Hop(target.number, self._origin.number, True, -1, answer))
        return link


class _Channel:
    """The way to the controller, which decides on the metadata log that all share."""

    def __init__(self, cluster: "JoinedCluster", origin: "Host") -> None:
        self._cluster, self._origin = cluster, origin

    def ask(
        self, request: Message, version: int, done: Callable[[Message | Refused], None], timeout_ms: int
    ) -> None:
        def decide() -> None:
            answer = self._cluster.controller_answer(request)
            self._cluster.post(Hop(0, self._origin.number, True, key, lambda: done(answer)))

        assert request.KEY is not None, request
        key = request.KEY
        self._cluster.post(Hop(self._origin.number, 0, False, key, decide))


class _Front:
    """As much of a node as a client needs."""

    def __init__(self, host: "Host") -> None:
        self._host = host

    def open_session(self, outlet: Outlet, listener_name: str, peer_host: str) -> Session:
        return Session(self._host.broker, outlet, listener_name, peer_host, 100, self._host.broker)

    def settle(self) -> None:
        self._host.broker.settle()


class Host(SimNode):
    """One broker of the cluster, with a disk and threads of its own."""

    def __init__(self, cluster: "JoinedCluster", settings: BrokerSettings, epoch: int) -> None:
        number = settings.node_id
        self.cluster, self.number = cluster, number
        self.is_up = True
        self.files = SimFiles()
        self.clock = cluster.clock
        self.alarm = SimAlarm()
        self.threads = _Aside(cluster)
        self.aside = self.threads
        self.links = _Links(cluster, self)
        self.unheard: deque[tuple[ClusterImage, Changes]] | None = None
        """What was not told to this broker, while it is behind."""
        random = SimRandom(f"broker {number}")
        make_dir_durably(self.files, DATA)
        directory = LogDirectory(World(self.files, self.clock, random), DATA)
        directory.load()
        world = NodeWorld(self.files, self.clock, random, self.aside, self.alarm, self.links)
        self.peers = Peers(self.links, self.clock, self.alarm, f"broker-{number}")
        # A broker asks its channel, and does nothing else with it.
        channel = cast(ControllerChannel, _Channel(cluster, self))
        member = Membership("cluster", epoch, cluster.image, channel, None, self.peers)
        self.joined = Broker(settings, member, [directory], world)
        self.node = cast(Node, _Front(self))  # A client asks it for a session, and for nothing else.

    @property
    def broker(self) -> Broker:
        return self.joined

    def pass_time(self, ms: int) -> None:
        self.cluster.pass_time(ms)

    def tick(self) -> None:
        self.alarm.deadline = None
        self.joined.tick(self.clock.now())
        self.peers.tick(self.clock.now())
        self.joined.settle()


class JoinedCluster:
    """Brokers 1 to `count`, all alive, with internal topics of one partition; settings with underscores."""

    def __init__(self, overrides: dict[str, str] | None = None, count: int = 3) -> None:
        self.clock = SimClock()
        self.image = EMPTY_IMAGE
        self.hosts: dict[int, Host] = {}
        self.holds: Callable[[Hop], bool] = lambda _hop: False
        """Which frames do not arrive for now; fetches between brokers are not asked about."""
        self.standing: set[int] = set()
        """Brokers that copy nothing for now."""
        self._hops: deque[Hop] = deque()
        self._held: deque[Hop] = deque()
        self._random = SimRandom("controller")
        overrides = overrides or {}
        self._settings = _settings(0, count, overrides)
        self.decide(InitializeCluster())
        for number in range(1, count + 1):
            endpoint = Endpoint("PLAINTEXT", f"broker-{number}", PORT, 0)
            directory = Uuid(number.to_bytes(16, "little"))
            epoch = self.decide(
                RegisterBroker(BrokerId(number), directory, (endpoint,), (directory,), f"rack-{number}")
            )
            assert isinstance(epoch, int), epoch
            self.hosts[number] = Host(self, _settings(number, count, overrides), epoch)
            self.decide(UnfenceBroker(BrokerId(number), epoch))
        for host in self.hosts.values():
            host.connect("PLAINTEXT")
        self.settle()

    def __getitem__(self, number: int) -> Host:
        return self.hosts[number]

    # --- the metadata log

    def decide(self, command: Command[R]) -> R | Refused:
        """Decide on a command as a controller would, and tell all brokers."""
        try:
            decision = command.decide(Standing(self.image, self._settings, self._random))
        except Refused as refusal:
            return refusal
        self.write(*decision.records)
        return decision.reply

    def write(self, *records: Message) -> None:
        """Put records into the metadata log, and tell all brokers that are not behind."""
        self.image, changes = apply_with_changes(self.image, records, 0)
        for host in self.hosts.values():
            if host.unheard is not None:
                host.unheard.append((self.image, changes))
            elif host.is_up:
                host.joined.image_changed(self.image, changes)

    def fall_behind(self, number: int) -> None:
        """Let a broker hear no more of the metadata."""
        self.hosts[number].unheard = deque()

    def catch_up(self, number: int) -> None:
        """Let a broker hear all that it has missed."""
        host = self.hosts[number]
        unheard, host.unheard = host.unheard or deque(), None
        for image, changes in unheard:
            host.joined.image_changed(image, changes)
        self.pass_time(A_MOMENT_MS)

    def controller_answer(self, request: Message) -> Message | Refused:
        """What the controller answers a broker's own request."""
        if isinstance(request, AllocateProducerIdsRequest):
            block = self.decide(AllocateProducerIds(BrokerId(request.broker_id), request.broker_epoch))
            if isinstance(block, Refused):
                return AllocateProducerIdsResponse(error_code=block.code)
            return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)
        if isinstance(request, CreateTopicsRequest):
            topics = tuple(
                NewTopic(
                    one.name,
                    one.num_partitions,
                    one.replication_factor,
                    configs=tuple((config.name, config.value) for config in one.configs),
                )
                for one in request.topics
            )
            made = self.decide(CreateTopics(topics))
            assert not isinstance(made, Refused), made
            return CreateTopicsResponse(
                topics=[
                    CreatableTopicResult(name=name, error_code=one.code, error_message=one.message)
                    if isinstance(one, Refusal)
                    else CreatableTopicResult(name=name)
                    for name, one in made.items()
                ]
            )
        return Refused(ErrorCode.REQUEST_TIMED_OUT, f"{type(request).__name__} is not answered here")

    def create_topic(self, name: str, *leaders: int, replicas: int = 3) -> None:
        """Create a topic with a partition for each leader given."""
        numbers = sorted(self.hosts)
        assignments: list[tuple[int, tuple[int, ...]]] = []
        for index, leader in enumerate(leaders):
            others = [number for number in numbers if number != leader]
            assignments.append((index, (leader, *others[: replicas - 1])))
        made = self.decide(CreateTopics((NewTopic(name, assignments=tuple(assignments)),)))
        assert isinstance(made, dict), made
        assert not isinstance(made[name], Refusal), made
        self.pass_time(A_MOMENT_MS)

    def move(self, topic: str, leader: int, partition: int = 0, *, isr: Sequence[int] | None = None) -> None:
        """Give a partition another leader or the same in a new epoch, which followers find; -1 for none."""
        self.write(self.a_move(topic, leader, partition, isr=isr))
        self.pass_time(A_MOMENT_MS)

    def a_move(
        self, topic: str, leader: int, partition: int = 0, *, isr: Sequence[int] | None = None
    ) -> PartitionChangeRecord:
        """The record of such a move."""
        record = PartitionChangeRecord(
            partition_id=partition, topic_id=self.image.topics[topic].id, leader=leader
        )
        record.isr = list(self.partition(topic, partition).isr if isr is None else isr)
        return record

    def fence(self, number: int) -> None:
        """Take a broker out."""
        known = self.image.brokers[BrokerId(number)]
        self.write(FenceBrokerRecord(id=number, epoch=known.epoch))

    def kill(self, number: int) -> None:
        """End a broker's process: it does nothing any more, and its connections are lost."""
        self.hosts[number].is_up = False
        for host in self.hosts.values():
            for link in list(host.links.open):
                if link.is_open and number in (link.origin.number, link.target.number):
                    link.lose()

    def partition(self, topic: str, partition: int = 0) -> PartitionImage:
        return self.image.topics[topic].partitions[partition]

    # --- frames

    def post(self, hop: Hop) -> None:
        self._hops.append(hop)

    def release(self) -> None:
        """Let all that was held up arrive."""
        self.holds = lambda _hop: False
        self.settle()

    def _is_held(self, hop: Hop) -> bool:
        if hop.key == ApiKey.FETCH:
            return (hop.target if hop.is_answer else hop.origin) in self.standing
        return self.holds(hop)

    def settle(self) -> None:
        """Let everything happen that needs no time to pass."""
        self._hops.extendleft(reversed(self._held))
        self._held.clear()
        for _ in range(10_000):
            if not self._step():
                return
        raise AssertionError("the cluster does not settle")

    def _step(self) -> bool:
        busy = False
        while self._hops:
            hop = self._hops.popleft()
            busy = True
            if self._is_held(hop):
                self._held.append(hop)
            else:
                hop.deliver()
        for host in self.hosts.values():
            if not host.is_up:
                continue
            busy |= host.threads.run_own()
            if host.alarm.deadline is not None and host.alarm.deadline <= self.clock.now():
                host.tick()
                busy = True
        return busy

    def pass_time(self, ms: int) -> None:
        """Let time pass, with every alarm on the way rung."""
        end = Instant(self.clock.now() + ms)
        self.settle()
        while True:
            due = [
                host.alarm.deadline
                for host in self.hosts.values()
                if host.is_up and host.alarm.deadline is not None
            ]
            if not due or min(due) > end:
                break
            self.clock.advance(max(0, min(due) - self.clock.now()))
            self.settle()
        self.clock.advance(end - self.clock.now())


def _settings(number: int, count: int, overrides: dict[str, str]) -> BrokerSettings:
    voters = ",".join(f"{voter}@broker-{voter}:9093" for voter in range(1, count + 1))
    return broker_settings(
        {
            "node.id": str(max(1, number)),
            "process.roles": "broker,controller",
            "cluster.id": "MkU3OEVBNTcwNTJENDM2Qg",
            "listeners": f"PLAINTEXT://127.0.0.1:{PORT},CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": DATA,
            **SMALL,
            **{key.replace("_", "."): value for key, value in overrides.items()},
        }
    )

"""A controller on a simulated disk, and the commands that tests give it."""

from dataclasses import dataclass, field
from typing import TypeVar

from everlog.controller.brokers import RegisterBroker, UnfenceBroker
from everlog.controller.controller import Controller
from everlog.controller.decisions import Command
from everlog.controller.keeper import ImageKeeper
from everlog.controller.metadata_log import METADATA_LOG_SETTINGS, MetadataLog
from everlog.log.partition import PartitionLog, World
from everlog.log.recovery import Opening
from everlog.metadata.image import BrokerImage, Endpoint
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import BrokerId, Offset, Uuid
from everlog.model.settings import BrokerSettings, broker_settings
from everlog.model.topics import METADATA_TOPIC, TopicPartition
from everlog.raft.member import RETRY_MS, MemberWorld, QuorumMember
from everlog.raft.messages import ReplicaKey
from everlog.raft.store import QuorumStore
from everlog.raft.voters import VoterSet
from everlog.sim.alarm import SimAlarm
from everlog.sim.aside import SimAside
from everlog.sim.chance import SimRandom
from everlog.sim.clock import SimClock
from everlog.sim.disk import SimFiles

R = TypeVar("R")

ME = BrokerId(1)
DIRECTORY = Uuid(bytes(range(16)))
PATH = f"logs/{METADATA_TOPIC}-0"
ENDPOINT = Endpoint("PLAINTEXT", "127.0.0.1", 9092, 0)


def some_settings(**given: str) -> BrokerSettings:
    """Settings of node 1; keyword arguments with `_` for `.` override."""
    more = {key.replace("_", "."): value for key, value in given.items()}
    return broker_settings({"node.id": "1", "process.roles": "broker,controller", **more})


def a_broker_image(number: int, rack: str | None = None, *, fenced: bool = False) -> BrokerImage:
    """A registered broker with one directory."""
    return BrokerImage(
        BrokerId(number), number, Uuid(bytes(16)), (ENDPOINT,), rack, fenced, False, (DIRECTORY,), {}
    )


@dataclass
class Machine:
    """One node's disk, threads, clock and chance, over any number of starts."""

    files: SimFiles = field(default_factory=SimFiles)
    aside: SimAside = field(default_factory=SimAside)
    clock: SimClock = field(default_factory=SimClock)
    random: SimRandom = field(default_factory=lambda: SimRandom(1))
    keeper: ImageKeeper = field(init=False)
    """That of the newest controller."""
    quorum: QuorumMember = field(init=False)

    def open_log(self) -> PartitionLog:
        """Open the metadata log as after a stop that was not clean."""
        self.files.make_dir(PATH)
        # As whoever makes a log directory does: a name is not durable before its directory is.
        self.files.sync_dir("")
        self.files.sync_dir("logs")
        return PartitionLog(
            World(self.files, self.clock, self.random),
            PATH,
            TopicPartition(METADATA_TOPIC, 0),
            METADATA_LOG_SETTINGS,
            Opening(),
        )

    def controller(self, settings: BrokerSettings | None = None) -> Controller:
        """A controller that leads a quorum of one, from what is on the disk."""
        log = MetadataLog(self.open_log(), self.open_log, self.aside, self.clock)
        me = ReplicaKey(ME, DIRECTORY)
        world = MemberWorld(self.aside, self.clock, SimAlarm(), self.random)
        quorum = QuorumMember(me, VoterSet([me]), log, QuorumStore(self.files, "logs"), world)
        keeper = ImageKeeper(quorum)
        controller = Controller(quorum, keeper, settings or some_settings(), self.random)
        quorum.follow(_Ears(keeper, controller))
        quorum.start()
        self.aside.run_all()
        assert controller.is_active
        self.keeper, self.quorum = keeper, quorum
        return controller

    def disk_is_well_again(self) -> None:
        """Let a member that the disk has failed more than once come back."""
        self.files.faults = []
        self.clock.advance(RETRY_MS)
        self.quorum.tick(self.clock.now())
        self.aside.run_all()


class _Ears:
    """What the quorum tells goes to the keeper first."""

    def __init__(self, keeper: ImageKeeper, controller: Controller) -> None:
        self._keeper = keeper
        self._controller = controller
        self.activated = controller.activated
        self.stood_down = controller.stood_down

    def committed(self, high_watermark: Offset) -> None:
        self._keeper.committed(high_watermark)
        self._controller.committed(high_watermark)


def outcome(machine: Machine, controller: Controller, command: Command[R]) -> R:
    """Submit a command, let the disk work, and return the reply; an error is raised."""
    replies: list[R | Refused | StorageError] = []
    controller.submit(command, replies.append)
    machine.aside.run_all()
    (reply,) = replies
    if isinstance(reply, Refused | StorageError):
        raise reply
    return reply


def started(machine: Machine, settings: BrokerSettings | None = None) -> Controller:
    """A controller that leads, with its own broker registered and unfenced."""
    controller = machine.controller(settings)
    register(machine, controller)
    return controller


def register(machine: Machine, controller: Controller, previous_epoch: int = -1) -> int:
    """Register and unfence the controller's own broker; returns its epoch."""
    epoch = outcome(
        machine,
        controller,
        RegisterBroker(ME, machine.random.uuid(), (ENDPOINT,), (DIRECTORY,), None, previous_epoch),
    )
    outcome(machine, controller, UnfenceBroker(ME, epoch))
    return epoch

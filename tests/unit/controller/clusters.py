"""A cluster as its records make it: commands are decided and applied at once, through the records' bytes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from everlog.controller.brokers import FenceBroker, InitializeCluster, RegisterBroker, UnfenceBroker
from everlog.controller.decisions import Command, Decision, More, Standing
from everlog.controller.elections import least_in_sync
from everlog.controller.partition_changes import Rules
from everlog.controller.topics import CreateTopics, NewTopic, TopicCreated
from everlog.metadata.delta import apply
from everlog.metadata.image import EMPTY_IMAGE, NO_LEADER, ClusterImage, Endpoint, PartitionImage
from everlog.metadata.records import decode_record, encode_record
from everlog.model.ids import BrokerId, LeaderEpoch, Uuid
from everlog.model.settings import BrokerSettings
from everlog.sim.chance import SimRandom
from everlog.wire.message import Message
from tests.unit.controller.builders import some_settings

R = TypeVar("R")


class Cluster:
    """Brokers 1 to N, registered and unfenced, and what commands make of them."""

    def __init__(self, brokers: int = 3, settings: Mapping[str, str] | None = None) -> None:
        self.settings: BrokerSettings = some_settings(**(settings or {}))
        self.random = SimRandom(7)
        self.image: ClusterImage = EMPTY_IMAGE
        self.do(InitializeCluster())
        for number in range(1, brokers + 1):
            self.join(number)

    @property
    def standing(self) -> Standing:
        """What the next command finds."""
        return Standing(self.image, self.settings, self.random)

    def decide(self, command: Command[R]) -> Decision[R]:
        """Decide on a command and change nothing; Refused is raised."""
        return command.decide(self.standing)

    def do(self, command: Command[R]) -> R:
        """Decide on a command and apply its records; Refused is raised."""
        decision = self.decide(command)
        self.apply(decision.records)
        return decision.reply

    def apply(self, records: tuple[Message, ...]) -> None:
        """Apply records as a node does that reads them from the log."""
        read = [decode_record(encode_record(record)) for record in records]
        self.image = apply(self.image, read, 1)

    def register(self, number: int, *, clean: bool = False, **more: object) -> int:
        """Start a process of a broker; returns its epoch."""
        known = self.image.brokers.get(BrokerId(number))
        command = RegisterBroker(
            BrokerId(number),
            self.random.uuid(),
            (Endpoint("PLAINTEXT", "127.0.0.1", 9092 + number, 0),),
            (directory_of(number),),
            previous_epoch=known.epoch if clean and known is not None else -1,
        )
        return self.do(replace(command, **more))  # type: ignore[arg-type]

    def join(self, number: int, *, clean: bool = False) -> int:
        """Start a process of a broker that then serves."""
        epoch = self.register(number, clean=clean)
        self.do(UnfenceBroker(BrokerId(number), epoch))
        return epoch

    def epoch(self, number: int) -> int:
        """A broker's epoch."""
        return self.image.brokers[BrokerId(number)].epoch

    def fence(self, number: int) -> None:
        """Fence a broker, however many decisions that takes."""
        command = FenceBroker(BrokerId(number), self.epoch(number))
        while isinstance(reply := self.do(command), More):
            command = replace(command, since=reply)

    def create(self, name: str, *replicas: tuple[int, ...], **configs: str) -> Uuid:
        """Create a topic with a partition on each tuple of brokers; returns its id."""
        given = tuple((key.replace("_", "."), value) for key, value in configs.items())
        created = self.do(
            CreateTopics((NewTopic(name, assignments=tuple(enumerate(replicas)), configs=given),))
        )[name]
        assert isinstance(created, TopicCreated), created
        return created.id

    def partition(self, name: str = "orders", number: int = 0) -> PartitionImage:
        """A partition as it is."""
        return self.image.topics[name].partitions[number]

    def put(self, name: str = "orders", number: int = 0, **fields: object) -> PartitionImage:
        """Make a partition other than it is, for a test to begin with."""
        topic = self.image.topics[name]
        parts = list(topic.partitions)
        parts[number] = replace(parts[number], **fields)  # type: ignore[arg-type]
        topic = replace(topic, partitions=tuple(parts))
        self.image = replace(
            self.image,
            topics={**self.image.topics, name: topic},
            topics_by_id={**self.image.topics_by_id, topic.id: topic},
        )
        return parts[number]


def directory_of(number: int) -> Uuid:
    """The log directory of a broker."""
    return Uuid(bytes(14) + b"\x01" + bytes((number,)))


def shape(partition: PartitionImage) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Who leads, who is in sync, who is eligible."""
    return partition.leader, partition.isr, partition.eligible_leaders


def check_invariants(cluster: Cluster) -> None:
    """What holds of every partition after every decision (reliability 1.4: 6 and 7)."""
    image = cluster.image
    rules = Rules(cluster.standing)
    for topic in image.topics.values():
        for partition in topic.partitions:
            isr, elr, replicas = set(partition.isr), set(partition.eligible_leaders), set(partition.replicas)
            assert len(isr) == len(partition.isr), partition
            assert len(elr) == len(partition.eligible_leaders), partition
            assert len(replicas) == len(partition.replicas), partition
            assert isr <= replicas, partition
            assert elr <= replicas, partition
            assert not isr & elr, partition
            assert len(partition.directories) == len(partition.replicas), partition
            assert set(partition.adding) | set(partition.removing) <= replicas, partition
            if len(isr) >= least_in_sync(partition, rules.of(topic.name)):
                assert not elr, partition
            for member in isr:
                broker = image.brokers[BrokerId(member)]
                assert not broker.fenced, (partition, broker)
            assert partition.leader == NO_LEADER or partition.leader in isr, partition
            assert partition.leader != NO_LEADER or not isr, partition


def epochs(partition: PartitionImage) -> tuple[LeaderEpoch, int]:
    """The leader epoch and the partition epoch."""
    return partition.leader_epoch, partition.partition_epoch

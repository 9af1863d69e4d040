"""ClusterImage: the whole cluster at one moment of its metadata log, as an immutable value."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from everlog.model.dataclass import dataclass
from everlog.model.ids import BrokerId, LeaderEpoch, Offset, ProducerId, Uuid

K = TypeVar("K")
V = TypeVar("V")

NO_LEADER = BrokerId(-1)
NO_FEATURES_OFFSET = Offset(-1)
UNASSIGNED_DIRECTORY = Uuid(bytes(16))
"""Stands for a replica's directory while its broker has not said which it is."""
LOST_DIRECTORY = Uuid(bytes(15) + b"\x01")
"""Where a broker says that a replica of it lies which it cannot use as it is."""
_RESERVED_DIRECTORIES = 100
_FIRST_BYTES = bytes(15)


def stands_for_none(directory: Uuid) -> bool:
    """Whether an id is of those below 100, which name no directory: unassigned, lost, and what may come."""
    return directory.startswith(_FIRST_BYTES) and directory[-1] < _RESERVED_DIRECTORIES


class ResourceType(IntEnum):
    """What a config belongs to, with the number that requests and records carry."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Whose configs: a topic by name, a broker by number, all brokers by the empty name."""

    type: int
    name: str


ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")


def topic_resource(name: str) -> ConfigResource:
    """The resource of a topic's configs."""
    return ConfigResource(ResourceType.TOPIC, name)


def broker_resource(broker: BrokerId) -> ConfigResource:
    """The resource of one broker's configs."""
    return ConfigResource(ResourceType.BROKER, str(broker))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker is reached under one listener name."""

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """One registered broker."""

    id: BrokerId
    epoch: int
    """The offset of its registration; commands of an earlier life have a lower one."""
    incarnation: Uuid
    """Made anew by each start of the process."""
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    """Whether it may not lead and is not shown to clients."""
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    features: Mapping[str, tuple[int, int]]
    """The lowest and highest level that it supports of each feature."""

    @property
    def active(self) -> bool:
        """Whether it may take replicas and lead them."""
        return not (self.fenced or self.in_controlled_shutdown)

    def endpoint(self, listener_name: str) -> Endpoint | None:
        """Where it is reached under a listener name."""
        for endpoint in self.endpoints:
            if endpoint.name == listener_name:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class ControllerImage:
    """One registered controller."""

    id: int
    incarnation: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]
    """The lowest and highest level that it supports of each feature."""


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """One partition: who holds it and who leads it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    """-1 where there is none."""
    leader_epoch: LeaderEpoch
    partition_epoch: int
    """Counts the changes of this partition; it grows with each."""
    directories: tuple[Uuid, ...]
    """The directory of each replica, in the order of `replicas`."""
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    recovering: bool = False
    eligible_leaders: tuple[int, ...] = ()
    last_known_eligible: tuple[int, ...] = ()
    """Those that would be in sync or eligible, had they not stopped uncleanly: they may have lost records."""

    def directory_of(self, broker: int) -> Uuid:
        """The directory in which one of its replicas lies, as far as it is known."""
        at = self.replicas.index(broker)
        return self.directories[at] if at < len(self.directories) else UNASSIGNED_DIRECTORY


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic; its partitions are numbered from 0 without gaps."""

    name: str
    id: Uuid
    partitions: tuple[PartitionImage, ...]


def _no_items() -> Mapping[K, V]:
    return MappingProxyType({})


def _no_controllers() -> Mapping[int, ControllerImage]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The cluster as all records below `end_offset` made it. Nobody may change the mappings in it."""

    end_offset: Offset
    epoch: int
    """The epoch of the last record applied; -1 before the first."""
    brokers: Mapping[BrokerId, BrokerImage]
    topics: Mapping[str, TopicImage]
    """By name, in the order in which they were created."""
    topics_by_id: Mapping[Uuid, TopicImage]
    """The same topics by id."""
    configs: Mapping[ConfigResource, Mapping[str, str]]
    """What was set, resources without any left out."""
    features: Mapping[str, int]
    features_offset: Offset
    """The offset of the last change of a feature, the features' epoch to clients; -1 if none is on."""
    next_producer_id: ProducerId
    """The first producer id that no block has taken."""
    partition_count: int
    """The partitions of all topics."""
    controllers: Mapping[int, ControllerImage] = field(default_factory=_no_controllers)
    """The controllers that have registered, by number."""

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """What was set for a resource; empty if nothing was."""
        return self.configs.get(resource, _NOTHING_SET)

    def active_brokers(self) -> Iterator[BrokerImage]:
        """The brokers that may take replicas, in the order of their numbers."""
        return (self.brokers[number] for number in sorted(self.brokers) if self.brokers[number].active)


_NOTHING_SET: Mapping[str, str] = MappingProxyType({})

EMPTY_IMAGE = ClusterImage(
    end_offset=Offset(0),
    epoch=-1,
    brokers=_no_items(),
    topics=_no_items(),
    topics_by_id=_no_items(),
    configs=_no_items(),
    features=_no_items(),
    features_offset=NO_FEATURES_OFFSET,
    next_producer_id=ProducerId(0),
    partition_count=0,
)
"""The cluster before its first record."""

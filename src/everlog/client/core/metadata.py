"""The cluster as a client last heard of it: brokers, topics, leaders."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from everlog.client.core.errors import error_code, refusal
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import NO_UUID, Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker and where it listens for clients."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """`host:port`, with an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition's replicas; `leader` is -1 while there is none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic; `error` is not NONE where the broker could not describe it."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: Mapping[int, Partition]
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What is known of a cluster; a value, replaced as a whole by newer answers."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Broker] = field(default_factory=dict[int, Broker])
    topics: Mapping[str, Topic] = field(default_factory=dict[str, Topic])
    """By name; topics that were never asked for are absent."""

    def leader_of(self, place: TopicPartition) -> Broker | None:
        """The broker that leads a partition, or None while that is not known."""
        partition = self.partition(place)
        return None if partition is None else self.brokers.get(partition.leader)

    def partition(self, place: TopicPartition) -> Partition | None:
        """One partition, or None if the topic or the partition is not known."""
        topic = self.topics.get(place.topic)
        return None if topic is None else topic.partitions.get(place.partition)

    def topic_id(self, topic: str) -> Uuid:
        """A topic's id; all zero where it is not known."""
        known = self.topics.get(topic)
        return NO_UUID if known is None else known.topic_id

    def name_of(self, topic_id: Uuid) -> str | None:
        """The name that goes with an id."""
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def led_partitions(self, topic: str) -> list[int]:
        """The partitions of a topic that have a leader, or all of them where none has."""
        partitions = self.topics[topic].partitions
        led = [index for index, partition in partitions.items() if partition.leader in self.brokers]
        return sorted(led or partitions)

    def places(self, topic: str) -> Iterator[TopicPartition]:
        """All partitions of a topic in order."""
        for index in sorted(self.topics[topic].partitions):
            yield TopicPartition(topic, index)

    def with_answer(self, answer: MetadataResponse) -> "ClusterView":
        """Take in an answer: brokers are replaced, the topics that it names are replaced or added.

        A partition keeps what is known where the answer has an older leader epoch: it comes from a broker
        that is behind, and going back would send requests to a leader that is no more (KIP-320).
        """
        if answer.error_code != ErrorCode.NONE:
            raise refusal(answer.error_code, None, "metadata")
        topics = dict(self.topics)
        for topic in answer.topics:
            if topic.name is not None:
                topics[topic.name] = _topic(topic, topics.get(topic.name))
        brokers = {
            broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in answer.brokers
        }
        return ClusterView(answer.cluster_id, answer.controller_id, brokers, topics)

    def with_broker(self, broker: Broker) -> "ClusterView":
        """Take in a broker that another answer named, such as a coordinator."""
        return replace(self, brokers={**self.brokers, broker.node_id: broker})

    def with_new_leader(self, place: TopicPartition, leader: int, leader_epoch: int) -> "ClusterView":
        """Take in the leader that a produce or fetch answer named (KIP-951), if it is news and reachable."""
        partition = self.partition(place)
        if partition is None or leader not in self.brokers or leader_epoch <= partition.leader_epoch:
            return self
        topic = self.topics[place.topic]
        moved = replace(partition, leader=leader, leader_epoch=leader_epoch)
        partitions = {**topic.partitions, place.partition: moved}
        return replace(self, topics={**self.topics, place.topic: replace(topic, partitions=partitions)})


def metadata_request(topics: Iterable[str] | None, *, auto_create: bool = False) -> MetadataRequest:
    """Ask for some topics, for none (brokers only), or with None for all."""
    wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=auto_create)


def topic_problem(view: ClusterView, name: str) -> Refused | None:
    """Why a topic cannot be used, if it cannot."""
    topic = view.topics.get(name)
    if topic is None:
        return refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic", f"topic {name!r}")
    if topic.error is not ErrorCode.NONE:
        said = "no such topic" if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None
        return refusal(topic.error, said, f"topic {name!r}")
    leaderless = sorted(index for index, part in topic.partitions.items() if part.leader not in view.brokers)
    if leaderless or not topic.partitions:
        return refusal(
            ErrorCode.LEADER_NOT_AVAILABLE, f"partitions {leaderless} have no leader", f"topic {name!r}"
        )
    return None


def _topic(answer: MetadataResponseTopic, known: Topic | None) -> Topic:
    assert answer.name is not None
    same = known is not None and known.topic_id == answer.topic_id
    partitions: dict[int, Partition] = {}
    for entry in answer.partitions:
        before = known.partitions.get(entry.partition_index) if known is not None and same else None
        if before is not None and entry.leader_epoch < before.leader_epoch:
            partitions[entry.partition_index] = before
            continue
        partitions[entry.partition_index] = Partition(
            entry.partition_index,
            entry.leader_id,
            entry.leader_epoch,
            tuple(entry.replica_nodes),
            tuple(entry.isr_nodes),
            tuple(entry.offline_replicas),
        )
    return Topic(answer.name, answer.topic_id, answer.is_internal, partitions, error_code(answer.error_code))

"""Delta: an image and records become the next image.

Each mapping that changes is copied once a delta, however many records touch it, so replaying a million
records in a few deltas costs what reading them costs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from everlog.metadata.image import (
    NO_FEATURES_OFFSET,
    BrokerImage,
    ClusterImage,
    ConfigResource,
    ControllerImage,
    Endpoint,
    PartitionImage,
    TopicImage,
    topic_resource,
)
from everlog.model.dataclass import dataclass
from everlog.model.errors import CorruptDataError
from everlog.model.ids import BrokerId, LeaderEpoch, Offset, ProducerId, Uuid
from everlog.wire.message import Message
from everlog.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from everlog.wire.messages.config_record import ConfigRecord
from everlog.wire.messages.feature_level_record import FeatureLevelRecord
from everlog.wire.messages.fence_broker_record import FenceBrokerRecord
from everlog.wire.messages.no_op_record import NoOpRecord
from everlog.wire.messages.partition_change_record import PartitionChangeRecord
from everlog.wire.messages.partition_record import PartitionRecord
from everlog.wire.messages.producer_ids_record import ProducerIdsRecord
from everlog.wire.messages.register_broker_record import RegisterBrokerRecord
from everlog.wire.messages.register_controller_record import RegisterControllerRecord
from everlog.wire.messages.remove_topic_record import RemoveTopicRecord
from everlog.wire.messages.topic_record import TopicRecord
from everlog.wire.messages.unfence_broker_record import UnfenceBrokerRecord
from everlog.wire.messages.unregister_broker_record import UnregisterBrokerRecord

NO_LEADER_CHANGE = -2
UNFENCE, KEEP_FENCING, FENCE = -1, 0, 1
"""What a BrokerRegistrationChangeRecord does to the fence."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between an image and the one before it, so that nobody has to compare them."""

    topics: tuple[str, ...] = ()
    """Topics that are new or have new or changed partitions."""
    deleted: tuple[TopicImage, ...] = ()
    """Topics that are gone, as they were. One that was deleted and made anew is in both."""
    configs: tuple[ConfigResource, ...] = ()
    brokers: tuple[BrokerId, ...] = ()
    features: bool = False


class _OpenTopic:
    """A topic while records are applied to it."""

    __slots__ = ("id", "name", "partitions")

    def __init__(self, name: str, topic_id: Uuid, partitions: Iterable[PartitionImage] = ()) -> None:
        self.name = name
        self.id = topic_id
        self.partitions = list(partitions)


class Delta:
    """Takes in records in their order, then gives the image that they lead to."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._topics: dict[str, TopicImage] | None = None
        self._topics_by_id: dict[Uuid, TopicImage] | None = None
        self._open: dict[Uuid, _OpenTopic] = {}
        """Topics with changes that are not in the two mappings yet."""
        self._deleted: list[TopicImage] = []
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        """Configs of the resources that changed, whole."""
        self._brokers: dict[BrokerId, BrokerImage | None] = {}
        """Brokers that changed; None for those that are gone."""
        self._features: dict[str, int] = {}
        self._features_offset = image.features_offset
        self._controllers = image.controllers
        self._next_producer_id = image.next_producer_id
        self._partition_count = image.partition_count
        self._shared_brokers: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._shared_directories: dict[tuple[Uuid, ...], tuple[Uuid, ...]] = {}

    def replay(self, record: Message, offset: Offset) -> None:
        """Take in one record; CorruptDataError if it cannot follow what came before it."""
        match record:
            case PartitionRecord():
                self._add_partition(record, offset)
            case TopicRecord():
                self._open[record.topic_id] = _OpenTopic(record.name, record.topic_id)
            case ConfigRecord():
                self._set_config(record)
            case PartitionChangeRecord():
                self._change_partition(record, offset)
            case RemoveTopicRecord():
                self._remove_topic(record, offset)
            case RegisterBrokerRecord():
                self._brokers[BrokerId(record.broker_id)] = registered(record)
            case BrokerRegistrationChangeRecord():
                self._change_broker(record, offset)
            case FenceBrokerRecord():
                self._fence_broker(record.id, offset, fenced=True)
            case UnfenceBrokerRecord():
                self._fence_broker(record.id, offset, fenced=False)
            case UnregisterBrokerRecord():
                self._brokers[BrokerId(record.broker_id)] = None
            case FeatureLevelRecord():
                self._features[record.name] = record.feature_level
                self._features_offset = offset
            case RegisterControllerRecord():
                self._controllers = {**self._controllers, record.controller_id: registered_controller(record)}
            case ProducerIdsRecord():
                self._next_producer_id = ProducerId(record.next_producer_id)
            case NoOpRecord():
                pass
            case _:
                # Going on without it could mean going on without a rule that somebody relies on.
                raise CorruptDataError(
                    f"{type(record).__name__} at offset {offset} is no metadata record that we can apply"
                )

    def finish(self, end_offset: Offset, epoch: int) -> tuple[ClusterImage, Changes]:
        """Return the image after all records below `end_offset`, and what changed."""
        image = self._image
        changes = Changes(
            topics=tuple(topic.name for topic in self._open.values()),
            deleted=tuple(self._deleted),
            configs=tuple(self._configs),
            brokers=tuple(self._brokers),
            features=bool(self._features),
        )
        self._close_topics()
        features = self._finish_features()
        return (
            ClusterImage(
                end_offset=end_offset,
                epoch=epoch,
                brokers=self._finish_brokers(),
                topics=image.topics if self._topics is None else self._topics,
                topics_by_id=image.topics_by_id if self._topics_by_id is None else self._topics_by_id,
                configs=self._finish_configs(),
                features=features,
                # A snapshot has no record of a feature that is off, so that nobody could know since when.
                features_offset=self._features_offset if features else NO_FEATURES_OFFSET,
                next_producer_id=self._next_producer_id,
                partition_count=self._partition_count,
                controllers=self._controllers,
            ),
            changes,
        )

    def _topic(self, topic_id: Uuid, record: Message, offset: Offset) -> _OpenTopic:
        topic = self._open.get(topic_id)
        if topic is None:
            by_id = self._image.topics_by_id if self._topics_by_id is None else self._topics_by_id
            found = by_id.get(topic_id)
            if found is None:
                raise CorruptDataError(
                    f"metadata record {type(record).__name__} at offset {offset} is of topic "
                    f"{topic_id.hex()}, which there is not"
                )
            topic = self._open[topic_id] = _OpenTopic(found.name, topic_id, found.partitions)
        return topic

    def _add_partition(self, record: PartitionRecord, offset: Offset) -> None:
        partitions = self._topic(record.topic_id, record, offset).partitions
        if record.partition_id != len(partitions):
            raise CorruptDataError(
                f"PartitionRecord at offset {offset} is of partition {record.partition_id}, "
                f"expected {len(partitions)}"
            )
        # Most partitions stand where many others do: a million of them share a few tuples.
        replicas = self._brokers_named(tuple(record.replicas))
        partitions.append(
            PartitionImage(
                replicas=replicas,
                isr=replicas if record.isr == record.replicas else self._brokers_named(tuple(record.isr)),
                leader=record.leader,
                leader_epoch=LeaderEpoch(record.leader_epoch),
                partition_epoch=record.partition_epoch,
                directories=self._directories_named(tuple(record.directories)),
                removing=tuple(record.removing_replicas),
                adding=tuple(record.adding_replicas),
                recovering=record.leader_recovery_state == 1,
                eligible_leaders=tuple(record.eligible_leader_replicas or ()),
                last_known_eligible=tuple(record.last_known_elr or ()),
            )
        )
        self._partition_count += 1

    def _brokers_named(self, brokers: tuple[int, ...]) -> tuple[int, ...]:
        return self._shared_brokers.setdefault(brokers, brokers)

    def _directories_named(self, directories: tuple[Uuid, ...]) -> tuple[Uuid, ...]:
        return self._shared_directories.setdefault(directories, directories)

    def _change_partition(self, record: PartitionChangeRecord, offset: Offset) -> None:
        partitions = self._topic(record.topic_id, record, offset).partitions
        if not 0 <= record.partition_id < len(partitions):
            raise CorruptDataError(
                f"PartitionChangeRecord at offset {offset} is of partition {record.partition_id}, "
                f"expected 0 to {len(partitions) - 1}"
            )
        partitions[record.partition_id] = changed(partitions[record.partition_id], record)

    def _remove_topic(self, record: RemoveTopicRecord, offset: Offset) -> None:
        topic = self._topic(record.topic_id, record, offset)
        # The open topic may be newer than the mappings; it goes without ever getting there.
        del self._open[topic.id]
        topics, by_id = self._own_topics()
        topics.pop(topic.name, None)
        by_id.pop(topic.id, None)
        self._partition_count -= len(topic.partitions)
        self._deleted.append(TopicImage(topic.name, topic.id, tuple(topic.partitions)))
        self._configs[topic_resource(topic.name)] = {}

    def _set_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        values = self._configs.get(resource)
        if values is None:
            values = self._configs[resource] = dict(self._image.config(resource))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def _broker(self, number: int, offset: Offset) -> BrokerImage:
        broker_id = BrokerId(number)
        broker = (
            self._brokers[broker_id] if broker_id in self._brokers else self._image.brokers.get(broker_id)
        )
        if broker is None:
            raise CorruptDataError(
                f"the metadata record at offset {offset} is of broker {number}, which is not there"
            )
        return broker

    def _change_broker(self, record: BrokerRegistrationChangeRecord, offset: Offset) -> None:
        broker = self._broker(record.broker_id, offset)
        self._brokers[broker.id] = replace(
            broker,
            fenced=broker.fenced if record.fenced == KEEP_FENCING else record.fenced == FENCE,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
            directories=tuple(record.log_dirs) or broker.directories,
        )

    def _fence_broker(self, number: int, offset: Offset, *, fenced: bool) -> None:
        broker = self._broker(number, offset)
        self._brokers[broker.id] = replace(broker, fenced=fenced)

    def _own_topics(self) -> tuple[dict[str, TopicImage], dict[Uuid, TopicImage]]:
        if self._topics is None or self._topics_by_id is None:
            self._topics = dict(self._image.topics)
            self._topics_by_id = dict(self._image.topics_by_id)
        return self._topics, self._topics_by_id

    def _close_topics(self) -> None:
        if not self._open:
            return
        topics, by_id = self._own_topics()
        for topic in self._open.values():
            closed = TopicImage(topic.name, topic.id, tuple(topic.partitions))
            topics[topic.name] = closed
            by_id[topic.id] = closed
        assert len(topics) == len(by_id), (len(topics), len(by_id))

    def _finish_brokers(self) -> dict[BrokerId, BrokerImage]:
        brokers = dict(self._image.brokers)
        for number, broker in self._brokers.items():
            if broker is None:
                brokers.pop(number, None)
            else:
                brokers[number] = broker
        return brokers

    def _finish_configs(self) -> Mapping[ConfigResource, Mapping[str, str]]:
        if not self._configs:
            return self._image.configs
        configs = dict(self._image.configs)
        for resource, values in self._configs.items():
            if values:
                configs[resource] = values
            else:
                configs.pop(resource, None)
        return configs

    def _finish_features(self) -> dict[str, int]:
        features = {**self._image.features, **self._features}
        # Level 0 is how a feature is switched off.
        return {name: level for name, level in features.items() if level}


def apply(image: ClusterImage, records: Iterable[Message], epoch: int) -> ClusterImage:
    """Return the image after `records`, which lie in the log from the image's end on without gaps."""
    return apply_with_changes(image, records, epoch)[0]


def apply_with_changes(
    image: ClusterImage, records: Iterable[Message], epoch: int
) -> tuple[ClusterImage, Changes]:
    """As `apply`, and what changed besides."""
    delta = Delta(image)
    end = image.end_offset
    for record in records:
        delta.replay(record, end)
        end = Offset(end + 1)
    return delta.finish(end, epoch)


def registered(record: RegisterBrokerRecord) -> BrokerImage:
    """The broker that a registration makes."""
    return BrokerImage(
        id=BrokerId(record.broker_id),
        epoch=record.broker_epoch,
        incarnation=record.incarnation_id,
        endpoints=tuple(
            Endpoint(one.name, one.host, one.port, one.security_protocol) for one in record.end_points
        ),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        directories=tuple(record.log_dirs),
        features={
            one.name: (one.min_supported_version, one.max_supported_version) for one in record.features
        },
    )


def registered_controller(record: RegisterControllerRecord) -> ControllerImage:
    """The controller that a registration makes."""
    return ControllerImage(
        id=record.controller_id,
        incarnation=record.incarnation_id,
        endpoints=tuple(
            Endpoint(one.name, one.host, one.port, one.security_protocol) for one in record.end_points
        ),
        features={
            one.name: (one.min_supported_version, one.max_supported_version) for one in record.features
        },
    )


def changed(partition: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """The partition after a change: a named leader, even the same one, begins a new leader epoch."""
    leads_anew = record.leader != NO_LEADER_CHANGE
    return PartitionImage(
        replicas=_else(record.replicas, partition.replicas),
        isr=_else(record.isr, partition.isr),
        leader=record.leader if leads_anew else partition.leader,
        leader_epoch=LeaderEpoch(partition.leader_epoch + 1) if leads_anew else partition.leader_epoch,
        partition_epoch=partition.partition_epoch + 1,
        directories=partition.directories if record.directories is None else tuple(record.directories),
        removing=_else(record.removing_replicas, partition.removing),
        adding=_else(record.adding_replicas, partition.adding),
        recovering=(
            partition.recovering if record.leader_recovery_state == -1 else record.leader_recovery_state == 1
        ),
        eligible_leaders=_else(record.eligible_leader_replicas, partition.eligible_leaders),
        last_known_eligible=_else(record.last_known_elr, partition.last_known_eligible),
    )


def _else(given: list[int] | None, kept: tuple[int, ...]) -> tuple[int, ...]:
    return kept if given is None else tuple(given)

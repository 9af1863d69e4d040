"""An image as the records that lead to it, for snapshots.

Nothing of the image is left out but what only the log can tell: where its features last changed. Whoever
replays the records knows that it was before their end, and says so.
"""

from collections.abc import Iterable, Iterator

from everlog.metadata.delta import Delta
from everlog.metadata.image import (
    EMPTY_IMAGE,
    BrokerImage,
    ClusterImage,
    ControllerImage,
    PartitionImage,
    TopicImage,
)
from everlog.model.ids import Offset
from everlog.wire.message import Message
from everlog.wire.messages.config_record import ConfigRecord
from everlog.wire.messages.feature_level_record import FeatureLevelRecord
from everlog.wire.messages.partition_record import PartitionRecord
from everlog.wire.messages.producer_ids_record import ProducerIdsRecord
from everlog.wire.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from everlog.wire.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from everlog.wire.messages.topic_record import TopicRecord


def image_records(image: ClusterImage) -> Iterator[Message]:
    """The records of an image; whoever replays them from nothing has the same one."""
    for name, level in image.features.items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield _broker(broker)
    for controller in image.controllers.values():
        yield _controller(controller)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        for number, partition in enumerate(topic.partitions):
            yield _partition(topic, number, partition)
    for resource, values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(
                resource_type=resource.type, resource_name=resource.name, name=name, value=value
            )
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)


def image_of(records: Iterable[Message], end_offset: Offset, epoch: int) -> ClusterImage:
    """The image of a snapshot's records, which stand for all entries below `end_offset`."""
    delta = Delta(EMPTY_IMAGE)
    # Each of them says what some entry before the end has made so, and nobody knows which.
    offset = Offset(end_offset - 1)
    for record in records:
        delta.replay(record, offset)
    return delta.finish(end_offset, epoch)[0]


def _broker(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(
                name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
            )
            for one in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
    )


def _controller(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation,
        end_points=[
            ControllerEndpoint(
                name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
            )
            for one in controller.endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in controller.features.items()
        ],
    )


def _partition(topic: TopicImage, number: int, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic.id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=1 if partition.recovering else 0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leaders) or None,
        last_known_elr=list(partition.last_known_eligible) or None,
    )

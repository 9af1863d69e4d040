"""Brokers: how one joins the cluster, and when it may lead."""

from collections.abc import Iterator
from dataclasses import dataclass

from everlog.controller.decisions import Decision, Standing
from everlog.metadata.delta import UNFENCE
from everlog.metadata.features import SUPPORTED_FEATURES
from everlog.metadata.image import BrokerImage, ClusterImage, Endpoint
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId, Uuid
from everlog.wire.message import Message
from everlog.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from everlog.wire.messages.feature_level_record import FeatureLevelRecord
from everlog.wire.messages.partition_change_record import PartitionChangeRecord
from everlog.wire.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord

NOT_CLEAN = -1
"""The previous broker epoch of a broker that did not stop cleanly, or never ran."""


@dataclass(frozen=True, slots=True)
class InitializeCluster:
    """Give a cluster without records its first: the level of the metadata and of other features."""

    def decide(self, standing: Standing) -> Decision[None]:
        """Write each level once; what has one, since an earlier version or a start, is left as it is."""
        records = tuple(
            FeatureLevelRecord(name=name, feature_level=highest)
            for name, (_, highest) in SUPPORTED_FEATURES.items()
            if name not in standing.image.features
        )
        return Decision(records, None)


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """A broker's process has started; the reply is its broker epoch.

    It is fenced until `UnfenceBroker`. One that did not stop cleanly may have lost records that nobody
    had synced, so what it led alone gets a new leader epoch: consumers that had read them can tell.
    """

    broker: BrokerId
    incarnation: Uuid
    endpoints: tuple[Endpoint, ...]
    directories: tuple[Uuid, ...]
    rack: str | None = None
    previous_epoch: int = NOT_CLEAN
    """The broker epoch under which it last stopped cleanly."""

    def decide(self, standing: Standing) -> Decision[int]:
        """Register it under the offset of its registration."""
        epoch = standing.next_offset
        record = RegisterBrokerRecord(
            broker_id=self.broker,
            incarnation_id=self.incarnation,
            broker_epoch=epoch,
            end_points=[
                BrokerEndpoint(
                    name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
                )
                for one in self.endpoints
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ],
            rack=self.rack,
            fenced=True,
            log_dirs=list(self.directories),
        )
        known = standing.image.brokers.get(self.broker)
        records: list[Message] = [record]
        if known is not None and known.epoch != self.previous_epoch:
            records.extend(_led_anew(standing.image, self.broker))
        return Decision(tuple(records), epoch)


@dataclass(frozen=True, slots=True)
class UnfenceBroker:
    """A registered broker has caught up and serves: from now on it may take replicas and lead."""

    broker: BrokerId
    epoch: int

    def decide(self, standing: Standing) -> Decision[None]:
        """Take the fence down; Refused for a broker of another life."""
        known = registration(standing.image, self.broker, self.epoch)
        if not known.fenced:
            return Decision((), None)
        change = BrokerRegistrationChangeRecord(
            broker_id=self.broker, broker_epoch=self.epoch, fenced=UNFENCE
        )
        return Decision((change,), None)


def registration(image: ClusterImage, broker: BrokerId, epoch: int) -> BrokerImage:
    """The broker's registration; Refused if there is none, or a newer life of the broker has one."""
    known = image.brokers.get(broker)
    if known is None:
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
    if known.epoch != epoch:
        raise Refused(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker} gives its epoch as {epoch}, expected {known.epoch}",
        )
    return known


def _led_anew(image: ClusterImage, broker: BrokerId) -> Iterator[PartitionChangeRecord]:
    for topic in image.topics.values():
        for number, partition in enumerate(topic.partitions):
            if partition.leader == broker:
                yield PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=broker)

"""Brokers: how one joins the cluster, when it may lead, and how it leaves (R5-R7, KIP-631, KIP-841, KIP-966).

A broker that is fenced, or on its way out, leads nothing and is in no ISR. Records that take it out of there
come before, or with, the one that fences it, so that this holds after each decision.
"""

from collections.abc import Mapping

from everlog.controller.decisions import Decision, More, Standing
from everlog.controller.elections import Circumstances, with_leader_wanted, without
from everlog.controller.partition_changes import CHANGES_PER_DECISION, Rules, changed_partitions
from everlog.metadata.delta import FENCE, UNFENCE, registered
from everlog.metadata.features import SUPPORTED_FEATURES
from everlog.metadata.image import (
    NO_LEADER,
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    stands_for_none,
)
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId, Uuid, uuid_text
from everlog.wire.message import Message
from everlog.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from everlog.wire.messages.feature_level_record import FeatureLevelRecord
from everlog.wire.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from everlog.wire.messages.unregister_broker_record import UnregisterBrokerRecord

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

    It is fenced until `UnfenceBroker`, and so leaves every ISR. One that did not stop cleanly may have lost
    records that nobody had synced: it is eligible nowhere either, and what it was in sync with gets a new
    leader epoch. The same process may register again, to be told its epoch or to change what it said.
    """

    broker: BrokerId
    incarnation: Uuid
    endpoints: tuple[Endpoint, ...]
    directories: tuple[Uuid, ...]
    rack: str | None = None
    previous_epoch: int = NOT_CLEAN
    """The broker epoch under which it last stopped cleanly."""
    features: Mapping[str, tuple[int, int]] | None = None
    """The lowest and highest level that it can work at of each; None says those of this version."""
    beating: bool = False
    """Whether a process with this number is known to be alive."""

    def decide(self, standing: Standing) -> Decision[int]:
        """Register it under the offset of its registration; Refused where it cannot be one of us."""
        image = standing.image
        known = image.brokers.get(self.broker)
        if known is not None and known.incarnation == self.incarnation:
            return self._amended(known, image)
        if known is not None and self.beating and not known.fenced:
            raise Refused(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"broker {self.broker} is registered and alive with incarnation "
                f"{uuid_text(known.incarnation)}, so that {uuid_text(self.incarnation)} cannot be the same",
            )
        self._check(image)
        epoch = int(standing.next_offset)
        record = self._record(epoch, fenced=True, in_controlled_shutdown=False)
        clean = known is not None and known.epoch == self.previous_epoch
        return Decision((record, *_out_of_sync(standing, self.broker, clean=clean)), epoch)

    def _amended(self, known: BrokerImage, image: ClusterImage) -> Decision[int]:
        self._check(image)
        record = self._record(
            known.epoch, fenced=known.fenced, in_controlled_shutdown=known.in_controlled_shutdown
        )
        return Decision(() if registered(record) == known else (record,), known.epoch)

    def _record(self, epoch: int, *, fenced: bool, in_controlled_shutdown: bool) -> RegisterBrokerRecord:
        features = SUPPORTED_FEATURES if self.features is None else self.features
        return RegisterBrokerRecord(
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
                for name, (lowest, highest) in features.items()
            ],
            rack=self.rack,
            fenced=fenced,
            in_controlled_shutdown=in_controlled_shutdown,
            log_dirs=list(self.directories),
        )

    def _check(self, image: ClusterImage) -> None:
        if not self.directories:
            raise _invalid(f"broker {self.broker} names no log directory, expected one at least")
        if len(set(self.directories)) != len(self.directories):
            raise _invalid(f"broker {self.broker} names a log directory twice")
        if not self.endpoints:
            raise _invalid(f"broker {self.broker} names no listener, expected one at least")
        taken = {one: other.id for other in image.brokers.values() for one in other.directories}
        for directory in self.directories:
            if stands_for_none(directory):
                raise _invalid(
                    f"broker {self.broker} names the reserved log directory {uuid_text(directory)}"
                )
            if taken.get(directory, self.broker) != self.broker:
                raise _invalid(
                    f"broker {self.broker} names log directory {uuid_text(directory)}, "
                    f"which is broker {taken[directory]}'s"
                )
        features = SUPPORTED_FEATURES if self.features is None else self.features
        for name, level in image.features.items():
            lowest, highest = features.get(name, (0, 0))
            if not lowest <= level <= highest:
                raise Refused(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"the cluster is at level {level} of {name}, expected broker {self.broker} to support "
                    f"it, not {lowest} to {highest}",
                )


@dataclass(frozen=True, slots=True)
class UnfenceBroker:
    """A registered broker has caught up and serves: from now on it may take replicas and lead."""

    broker: BrokerId
    epoch: int

    def decide(self, standing: Standing) -> Decision[None]:
        """Take the fence down and let it lead what nobody leads; Refused for a broker of another life."""
        known = registration(standing.image, self.broker, self.epoch)
        return Decision(tuple(unfenced(standing, known)), None)


@dataclass(frozen=True, slots=True)
class FenceBroker:
    """A broker is silent or gone: others lead what it led, and it is in sync with nothing.

    The reply is `MORE` while it is in sync with more partitions than one decision may change: then it is not
    fenced yet and the same is to be asked again. Should the controller change meanwhile, the next one finds a
    broker that does not beat, and fences it.
    """

    broker: BrokerId
    epoch: int
    since: More | None = None
    """The reply to the same command before."""
    limit: int = CHANGES_PER_DECISION

    def decide(self, standing: Standing) -> Decision[More | None]:
        """Fence it; Refused for a broker of another life, nothing for one that is fenced."""
        known = registration(standing.image, self.broker, self.epoch)
        if known.fenced:
            return Decision((), None)
        records, more = taken_out(standing, self.broker, self.limit, self.since)
        if more is not None:
            return Decision(tuple(records), more)
        return Decision((*records, _fencing(known)), None)


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    """Forget a broker that will not come back; partitions that it is to hold keep it among their replicas."""

    broker: BrokerId

    def decide(self, standing: Standing) -> Decision[None]:
        """Forget it; Refused if it is not known, or not fenced: a live one would come back at once."""
        known = standing.image.brokers.get(self.broker)
        if known is None:
            raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {self.broker} is not registered")
        if not known.fenced:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"broker {self.broker} is alive, expected one that has stopped: stop it first",
            )
        # Whoever comes under this number later may have another disk: it is eligible for nothing.
        records = _out_of_sync(standing, self.broker, clean=False)
        gone = UnregisterBrokerRecord(broker_id=self.broker, broker_epoch=known.epoch)
        return Decision((*records, gone), None)


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


def unfenced(standing: Standing, known: BrokerImage) -> list[Message]:
    """The records that take a broker's fence down; none if there is no fence."""
    if not known.fenced:
        return []
    change = BrokerRegistrationChangeRecord(broker_id=known.id, broker_epoch=known.epoch, fenced=UNFENCE)
    active = frozenset(broker.id for broker in standing.image.active_brokers())
    if not known.in_controlled_shutdown:
        active |= {known.id}
    led, _ = changed_partitions(
        standing.image,
        Rules(standing, active),
        with_leader_wanted,
        lambda partition: partition.leader == NO_LEADER,
    )
    return [change, *led]


def fenced(standing: Standing, known: BrokerImage) -> list[Message]:
    """The records that fence a broker, all that it is in sync with included."""
    records, _ = taken_out(standing, known.id)
    return [*records, _fencing(known)]


def taken_out(
    standing: Standing, broker: BrokerId, limit: int | None = None, since: More | None = None
) -> tuple[list[Message], More | None]:
    """The records that take a broker out of ISRs, `limit` at most, and where to go on; None if that is all.

    What it leads comes first: that is what nobody can write to. The end is found only by a walk from the
    beginning, for it may have come back into an ISR behind us.
    """
    gone = (broker,)
    active = frozenset(one.id for one in standing.image.active_brokers() if one.id != broker)
    rules = Rules(standing, active)

    def change(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage | None:
        return without(partition, gone, circumstances)

    records: list[Message] = []
    begin = since.topic if since is not None else None
    whole = begin is None
    if since is None or whole or since.urgent:
        records, stopped = changed_partitions(
            standing.image, rules, change, lambda partition: partition.leader == broker, limit, begin
        )
        if stopped is not None:
            return records, More(stopped, urgent=True)
        begin = None
    left = None if limit is None else limit - len(records)
    rest, stopped = changed_partitions(
        standing.image,
        rules,
        change,
        lambda partition: broker in partition.isr and partition.leader != broker,
        left,
        begin,
    )
    records.extend(rest)
    if stopped is not None:
        return records, More(stopped)
    return records, None if whole else More()


def leads_any(image: ClusterImage, broker: BrokerId) -> bool:
    """Whether a broker leads a partition."""
    return any(
        partition.leader == broker for topic in image.topics.values() for partition in topic.partitions
    )


def _fencing(known: BrokerImage) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=known.id, broker_epoch=known.epoch, fenced=FENCE)


def _out_of_sync(standing: Standing, broker: BrokerId, *, clean: bool) -> list[Message]:
    """The records that take a broker out of each ISR, and if it may have lost records, out of each ELR."""
    if clean:
        return taken_out(standing, broker)[0]
    gone = (broker,)

    def change(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage | None:
        return without(partition, (), circumstances, unclean=gone)

    records, _ = changed_partitions(
        standing.image,
        Rules(standing),
        change,
        lambda partition: broker in partition.isr or broker in partition.eligible_leaders,
    )
    return records


def _invalid(problem: str) -> Refused:
    return Refused(ErrorCode.INVALID_REGISTRATION, problem)

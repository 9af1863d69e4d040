"""Directories: which log directory of its broker holds each replica, and what is lost with one (KIP-858)."""

from collections.abc import Collection

from everlog.controller.brokers import registration
from everlog.controller.decisions import Decision, Standing
from everlog.controller.elections import NOBODY, Circumstances, with_damaged, with_directories, without
from everlog.controller.partition_changes import PartitionRef, Rules, change_record, changed_partitions
from everlog.metadata.image import LOST_DIRECTORY, BrokerImage, PartitionImage, stands_for_none
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode
from everlog.model.ids import BrokerId, Uuid
from everlog.wire.message import Message
from everlog.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirectories:
    """A broker says in which of its directories replicas lie; the reply has a code for each, in order.

    One that it finds damaged it says to lie in `LOST_DIRECTORY`: others lead it from then on, if they can.
    """

    broker: BrokerId
    epoch: int
    replicas: tuple[tuple[Uuid, PartitionRef], ...]
    """The directory and the partition of each."""

    def decide(self, standing: Standing) -> Decision[list[ErrorCode]]:
        """Note each; what lies in a directory that has failed is led by others. Refused for another life."""
        known = registration(standing.image, self.broker, self.epoch)
        rules = Rules(standing)
        records: list[Message] = []
        reply: list[ErrorCode] = []
        now: dict[PartitionRef, PartitionImage] = {}
        for directory, ref in self.replicas:
            topic = standing.image.topics_by_id.get(ref.topic_id)
            if topic is None:
                reply.append(ErrorCode.UNKNOWN_TOPIC_ID)
                continue
            if not 0 <= ref.number < len(topic.partitions):
                reply.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            before = now.get(ref, topic.partitions[ref.number])
            if self.broker not in before.replicas:
                reply.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            reply.append(ErrorCode.NONE)
            if directory == LOST_DIRECTORY:
                after = with_damaged(before, int(self.broker), rules.of(topic.name))
            else:
                after = _placed(before, known, directory, rules.of(topic.name))
            if after is not None:
                records.append(change_record(ref.topic_id, ref.number, before, after))
                now[ref] = after
        return Decision(tuple(records), reply)


def offline_directories(standing: Standing, known: BrokerImage, offline: Collection[Uuid]) -> list[Message]:
    """The records for directories that have failed a broker; none for those that it does not have."""
    failed = [one for one in known.directories if one in offline]
    if not failed:
        return []
    gone = (known.id,)

    def lies_there(partition: PartitionImage) -> bool:
        return known.id in partition.isr and partition.directory_of(known.id) in failed

    def change(partition: PartitionImage, circumstances: Circumstances) -> PartitionImage | None:
        return without(partition, gone, circumstances)

    records, _ = changed_partitions(standing.image, Rules(standing), change, lies_there)
    left = [one for one in known.directories if one not in failed]
    return [
        *records,
        BrokerRegistrationChangeRecord(broker_id=known.id, broker_epoch=known.epoch, log_dirs=left),
    ]


def _placed(
    partition: PartitionImage, known: BrokerImage, directory: Uuid, circumstances: Circumstances
) -> PartitionImage | None:
    places = [directory if one == known.id else partition.directory_of(one) for one in partition.replicas]
    # A directory that the broker does not have is lost, and with it all that it says lies there.
    me = frozenset((int(known.id),))
    lost = NOBODY if directory in known.directories else me
    # Where it lay in one that is lost, what lies in another now was made anew there, or moved just in time:
    # nobody can tell.
    before = partition.directory_of(known.id)
    had_home = before in known.directories or stands_for_none(before)
    renewed = NOBODY if lost or had_home else me
    return with_directories(partition, tuple(places), lost, circumstances, renewed=renewed)

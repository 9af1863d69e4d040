"""The ISR as a leader proposes it (KIP-497, KIP-841, KIP-903).

A proposal counts only if it comes from who leads now and was made against what holds now. Who is fenced, on
its way out, or of another life than the leader knew of is not let in: it may lack what the leader believes
that it has.
"""

from everlog.controller.brokers import registration
from everlog.controller.decisions import Decision, Standing
from everlog.controller.elections import with_isr
from everlog.controller.partition_changes import PartitionRef, Rules, change_record
from everlog.metadata.image import ClusterImage, PartitionImage
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode
from everlog.model.ids import BrokerId
from everlog.wire.message import Message

ANY_EPOCH = -1
"""The broker epoch of a member that the leader does not know, or has no way to say."""


@dataclass(frozen=True, slots=True)
class IsrMember:
    """A broker that is to be in sync, and the epoch under which the leader knows it to be."""

    broker: BrokerId
    epoch: int = ANY_EPOCH


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """The ISR of one partition, as its leader would have it."""

    partition: PartitionRef
    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]
    recovering: bool = False
    """Whether the leader, elected uncleanly, is still at making itself whole."""


@dataclass(frozen=True, slots=True)
class AlterPartitions:
    """Proposals of one leader; the reply has for each, in order, the partition as it is then, or why not.

    A proposal may complete a reassignment, and with it move the lead: then the reply is NEW_LEADER_ELECTED
    and the change is in effect all the same.
    """

    broker: BrokerId
    epoch: int
    proposals: tuple[IsrProposal, ...]

    def decide(self, standing: Standing) -> Decision[list[PartitionImage | ErrorCode]]:
        """Decide on each alone; Refused as a whole for a broker of another life."""
        registration(standing.image, self.broker, self.epoch)
        rules = Rules(standing)
        records: list[Message] = []
        reply: list[PartitionImage | ErrorCode] = []
        now: dict[PartitionRef, PartitionImage] = {}
        for proposal in self.proposals:
            ref = proposal.partition
            topic = standing.image.topics_by_id.get(ref.topic_id)
            if topic is None:
                reply.append(ErrorCode.UNKNOWN_TOPIC_ID)
                continue
            if not 0 <= ref.number < len(topic.partitions):
                reply.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            before = now.get(ref, topic.partitions[ref.number])
            problem = self._problem(proposal, before, standing.image)
            if problem is not None:
                reply.append(problem)
                continue
            isr = tuple(int(member.broker) for member in proposal.isr)
            after = with_isr(before, isr, rules.of(topic.name), recovering=proposal.recovering)
            if after is None:
                reply.append(before)
                continue
            records.append(change_record(ref.topic_id, ref.number, before, after))
            now[ref] = after
            reply.append(after if after.leader == self.broker else ErrorCode.NEW_LEADER_ELECTED)
        return Decision(tuple(records), reply)

    def _problem(
        self, proposal: IsrProposal, partition: PartitionImage, image: ClusterImage
    ) -> ErrorCode | None:
        if (
            proposal.leader_epoch > partition.leader_epoch
            or proposal.partition_epoch > partition.partition_epoch
        ):
            # It has heard of more than we have: another controller must be active.
            return ErrorCode.NOT_CONTROLLER
        if proposal.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if self.broker != partition.leader:
            return ErrorCode.INVALID_REQUEST
        if proposal.partition_epoch < partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        brokers = [member.broker for member in proposal.isr]
        if len(set(brokers)) != len(brokers) or any(one not in partition.replicas for one in brokers):
            return ErrorCode.INVALID_REQUEST
        if self.broker not in brokers:
            return ErrorCode.INVALID_REQUEST
        if proposal.recovering and (len(brokers) > 1 or not partition.recovering):
            # Others have followed nobody yet who is whole; and who is whole does not become less so.
            return ErrorCode.INVALID_REQUEST
        if not all(_eligible(member, image) for member in proposal.isr):
            return ErrorCode.INELIGIBLE_REPLICA
        return None


def _eligible(member: IsrMember, image: ClusterImage) -> bool:
    known = image.brokers.get(member.broker)
    return known is not None and known.active and member.epoch in {ANY_EPOCH, known.epoch}

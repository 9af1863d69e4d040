"""Leaders that somebody asks for: the preferred ones, or any at the price of records (KIP-460)."""

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from itertools import chain

from everlog.controller.decisions import Decision, Refusal, Standing
from everlog.controller.elections import with_leader_wanted, with_preferred_leader, with_recovered_leader
from everlog.controller.leader_recovery import Ends, Said, valid
from everlog.controller.partition_changes import CHANGES_PER_REQUEST, PartitionRef, Rules, change_record
from everlog.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode
from everlog.wire.message import Message


class ElectionType(IntEnum):
    """Which leader is wanted, with the number that ElectLeaders gives it."""

    PREFERRED = 0
    """The first of the replicas, if it is in sync."""
    UNCLEAN = 1
    """Any that is alive where nobody leads, even one that may lack records."""


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Elect leaders of partitions, or of all; the reply has for each what became of it, None if it is done.

    Of all partitions, those that need no election are left out of the reply.
    """

    type: ElectionType
    partitions: tuple[tuple[str, int], ...] | None
    limit: int = CHANGES_PER_REQUEST
    ends: Ends = field(default_factory=dict[PartitionRef, Mapping[int, Said]])
    """What is known of logs of partitions whose eligible replicas all stopped uncleanly."""

    def decide(self, standing: Standing) -> Decision[dict[tuple[str, int], Refusal | None]]:
        """Decide on each partition alone; what is above `limit` is left for another request."""
        image = standing.image
        rules = Rules(standing)
        records: list[Message] = []
        reply: dict[tuple[str, int], Refusal | None] = {}
        for name, number in _all(image) if self.partitions is None else dict.fromkeys(self.partitions):
            topic = image.topics.get(name)
            if topic is None or not 0 <= number < len(topic.partitions):
                reply[name, number] = Refusal(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{number}"
                )
                continue
            before = topic.partitions[number]
            if self._not_needed(before):
                if self.partitions is not None:
                    reply[name, number] = Refusal(
                        ErrorCode.ELECTION_NOT_NEEDED, f"the partition {name}-{number} has its leader"
                    )
                continue
            if len(records) == self.limit:
                reply[name, number] = Refusal(
                    ErrorCode.OPERATION_NOT_ATTEMPTED,
                    f"one request elects {self.limit} leaders at most, expected the rest in another",
                )
                continue
            after = self._elected(
                before, rules, name, self.ends.get(PartitionRef(topic.id, number), {}), image
            )
            if after is None:
                reply[name, number] = self._unavailable(name, number, before)
                continue
            records.append(change_record(topic.id, number, before, after))
            reply[name, number] = None
        return Decision(tuple(records), reply)

    def _not_needed(self, partition: PartitionImage) -> bool:
        if self.type is ElectionType.PREFERRED:
            return partition.leader == partition.replicas[0]
        return partition.leader != NO_LEADER

    def _elected(
        self,
        partition: PartitionImage,
        rules: Rules,
        name: str,
        said: Mapping[int, Said],
        image: ClusterImage,
    ) -> PartitionImage | None:
        if self.type is ElectionType.PREFERRED:
            return with_preferred_leader(partition, rules.of(name))
        circumstances = rules.unclean(name)
        most = with_recovered_leader(partition, valid(image, said), circumstances)
        return most or with_leader_wanted(partition, circumstances)

    def _unavailable(self, name: str, number: int, partition: PartitionImage) -> Refusal:
        if self.type is ElectionType.PREFERRED:
            return Refusal(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"broker {partition.replicas[0]} is not in sync with {name}-{number}, or not alive",
            )
        return Refusal(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"none of the replicas {list(partition.replicas)} of {name}-{number} is alive",
        )


def _all(image: ClusterImage) -> chain[tuple[str, int]]:
    return chain.from_iterable(
        ((name, number) for number in range(len(topic.partitions))) for name, topic in image.topics.items()
    )

"""Reassignment: partitions move from brokers to others, step by step (KIP-455).

First the new ones are added to the replicas, next to those that are to go; when all who are to stay are in
sync, those that are to go are removed. What was asked for last counts: those that an earlier reassignment was
adding and the new one does not want are dropped at once, and cancelling goes back to who held the partition
before.
"""

from collections.abc import Iterator, Sequence

from everlog.controller.decisions import Decision, Refusal, Standing
from everlog.controller.elections import Circumstances, with_replicas
from everlog.controller.partition_changes import (
    CHANGES_PER_REQUEST,
    Rules,
    change_record,
    concerned_partitions,
)
from everlog.controller.partitions import check_placement
from everlog.controller.placement import directories_of
from everlog.metadata.image import ClusterImage, PartitionImage, TopicImage
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Uuid
from everlog.wire.message import Message


@dataclass(frozen=True, slots=True)
class Move:
    """Who is to hold one partition; None goes back to who held it before."""

    topic: str
    number: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class AlterReassignments:
    """Move partitions; the reply says None for each where it is under way or done, in order."""

    moves: tuple[Move, ...]
    allow_factor_change: bool = True
    """Whether a partition may get more or fewer replicas than it has (KIP-860)."""

    def decide(self, standing: Standing) -> Decision[list[Refusal | None]]:
        """Decide on each partition alone; Refused as a whole if there are too many at once."""
        if len(self.moves) > CHANGES_PER_REQUEST:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"{len(self.moves)} partitions are to move, expected {CHANGES_PER_REQUEST} at most at once",
            )
        rules = Rules(standing)
        records: list[Message] = []
        reply: list[Refusal | None] = []
        seen: set[tuple[str, int]] = set()
        for move in self.moves:
            try:
                if (move.topic, move.number) in seen:
                    raise Refused(
                        ErrorCode.INVALID_REQUEST, f"the partition {move.topic}-{move.number} is named twice"
                    )
                seen.add((move.topic, move.number))
                topic, before = _partition(move, standing.image)
                after = self._moved(move, before, standing.image, rules.of(topic.name))
            except Refused as refused:
                reply.append(Refusal(refused.code, str(refused)))
                continue
            if after is not None:
                records.append(change_record(topic.id, move.number, before, after))
            reply.append(None)
        return Decision(tuple(records), reply)

    def _moved(
        self, move: Move, partition: PartitionImage, image: ClusterImage, circumstances: Circumstances
    ) -> PartitionImage | None:
        original = tuple(one for one in partition.replicas if one not in partition.adding)
        if move.replicas is None:
            if not is_moving(partition):
                raise Refused(
                    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                    f"the partition {move.topic}-{move.number} is not being moved",
                )
            return _held_by(move, partition, original, (), image, circumstances)
        check_placement(move.replicas, len(move.replicas), image)
        self._check_factor(move, partition, move.replicas)
        removing = tuple(sorted(one for one in original if one not in move.replicas))
        return _held_by(move, partition, move.replicas, removing, image, circumstances, original)

    def _check_factor(self, move: Move, partition: PartitionImage, replicas: tuple[int, ...]) -> None:
        factor = len(partition.replicas) - len(partition.removing)
        if not self.allow_factor_change and len(replicas) != factor:
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"the partition {move.topic}-{move.number} is to be on {len(replicas)} brokers, "
                f"expected {factor} as now",
            )


def is_moving(partition: PartitionImage) -> bool:
    """Whether a partition is being moved."""
    return bool(partition.adding or partition.removing)


def reassignments(
    image: ClusterImage, wanted: Sequence[tuple[str, Sequence[int]]] | None
) -> Iterator[tuple[str, int, PartitionImage]]:
    """The partitions that are being moved, all or those of the given topics, topic after topic."""
    if wanted is None:
        for topic, number, partition in concerned_partitions(image, is_moving):
            yield topic.name, number, partition
        return
    for name, numbers in wanted:
        known = image.topics.get(name)
        if known is None:
            continue
        for number in dict.fromkeys(numbers):
            if 0 <= number < len(known.partitions) and is_moving(known.partitions[number]):
                yield name, number, known.partitions[number]


def _partition(move: Move, image: ClusterImage) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics.get(move.topic)
    if topic is None or not 0 <= move.number < len(topic.partitions):
        raise Refused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {move.topic}-{move.number}"
        )
    return topic, topic.partitions[move.number]


def _held_by(
    move: Move,
    partition: PartitionImage,
    target: tuple[int, ...],
    removing: tuple[int, ...],
    image: ClusterImage,
    circumstances: Circumstances,
    original: tuple[int, ...] | None = None,
) -> PartitionImage | None:
    replicas = (*target, *removing)
    adding = () if original is None else tuple(sorted(one for one in target if one not in original))
    whole = partition.isr or partition.eligible_leaders
    if whole and not any(one in replicas for one in whole) and not circumstances.unclean_allowed:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"of the partition {move.topic}-{move.number} only {list(whole)} have all records, "
            f"expected one of them to stay, not {list(replicas)} alone",
        )
    return with_replicas(
        partition, replicas, adding, removing, _directories(partition, replicas, image), circumstances
    )


def _directories(
    partition: PartitionImage, replicas: tuple[int, ...], image: ClusterImage
) -> tuple[Uuid, ...]:
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    fresh = directories_of(image, replicas)
    return tuple(known.get(one, new) for one, new in zip(replicas, fresh, strict=True))

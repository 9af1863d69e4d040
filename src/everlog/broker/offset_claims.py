"""What a commit asks for, in a transaction or not: offsets of partitions, and an answer for each."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from everlog.broker.coordinator_errors import commit_error
from everlog.coordinator.group.offsets import NewOffset
from everlog.metadata.image import TopicImage
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Uuid

if TYPE_CHECKING:
    from everlog.broker.broker import Broker


class AskedPartition(Protocol):
    """One offset as both requests have it."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class AnsweredPartition(Protocol):
    """The answer to it."""

    error_code: int


P = TypeVar("P", bound=AnsweredPartition)


class OffsetClaims(Generic[P]):
    """The offsets of one request. `by_id` says whether it names its topics by their ids."""

    def __init__(self, broker: "Broker", make_answer: Callable[[int], P], *, by_id: bool) -> None:
        self._image = broker.image
        self._make_answer = make_answer
        self._by_id = by_id
        self._waiting: list[P] = []
        self.offsets: list[NewOffset] = []
        """Those that may be committed."""

    def add(self, name: str, topic_id: Uuid, partitions: Sequence[AskedPartition]) -> list[P]:
        """Take in one topic, and return the answers to its partitions, to be filled in by `answered`."""
        image = self._image
        topic = image.topics_by_id.get(topic_id) if self._by_id else image.topics.get(name)
        return [self._add(topic, asked) for asked in partitions]

    def _add(self, topic: TopicImage | None, asked: AskedPartition) -> P:
        answer = self._make_answer(asked.partition_index)
        if topic is None or not 0 <= asked.partition_index < len(topic.partitions):
            by_id = topic is None and self._by_id
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return answer
        self._waiting.append(answer)
        self.offsets.append(
            NewOffset(
                topic.name,
                topic.id,
                asked.partition_index,
                asked.committed_offset,
                asked.committed_leader_epoch,
                asked.committed_metadata or "",
            )
        )
        return answer

    def answered(self, reply: list[ErrorCode] | Refused | StorageError) -> None:
        """Fill in what became of the offsets."""
        if isinstance(reply, Refused | StorageError):
            reply = [commit_error(reply)] * len(self._waiting)
        for answer, code in zip(self._waiting, reply, strict=True):
            answer.error_code = code

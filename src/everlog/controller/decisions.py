"""What a command gets to see and what it returns."""

from collections.abc import Sized
from typing import Final, Generic, Protocol, TypeVar

from everlog.metadata.image import ALL_BROKERS, ClusterImage
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.settings import BrokerSettings, Layers
from everlog.ports.random import Random
from everlog.wire.message import Message

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Standing:
    """The cluster as a command finds it: all that was decided before is in the image, committed or not."""

    image: ClusterImage
    settings: BrokerSettings
    random: Random

    @property
    def next_offset(self) -> int:
        """Where the first record of the decision will lie."""
        return self.image.end_offset

    @property
    def layers(self) -> Layers:
        """What brokers were told, as far as it counts for every one of them."""
        return Layers({}, self.image.config(ALL_BROKERS), self.settings.given)


@dataclass(frozen=True, slots=True)
class Decision(Generic[R_co]):
    """Records that make it so, and what to reply once they are committed."""

    records: tuple[Message, ...]
    reply: R_co


@dataclass(frozen=True, slots=True)
class More:
    """The reply to a command that has done a part of its work: ask for the rest with the same command.

    Commands that take a `since` go on there, rather than look at all again that is done.
    """

    topic: str | None = None
    """The topic at which it left off; None asks to look at all again."""
    urgent: bool = False
    """Whether it was still at what comes first."""


MOST_PER_COMMAND: Final = 10_000
"""Topics, or resources, that one command may name: it is decided in one go, while everybody else waits."""


def check_not_too_many(named: Sized, what: str) -> None:
    """Refused as a whole if a command names too many, before any of them is looked at."""
    if len(named) > MOST_PER_COMMAND:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"a request names {len(named)} {what}, expected {MOST_PER_COMMAND} at most",
        )


class Command(Protocol[R_co]):
    """Something asked of the cluster."""

    def decide(self, standing: Standing) -> Decision[R_co]:
        """Say what becomes of it, without changing anything; Refused if none of it can be done."""
        ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one thing among those asked for was not done."""

    code: ErrorCode
    message: str

    @classmethod
    def of(cls, error: Refused | StorageError) -> "Refusal":
        """The refusal that an error stands for; what the disk refused may be tried again."""
        if isinstance(error, Refused):
            return cls(error.code, str(error))
        return cls(ErrorCode.KAFKA_STORAGE_ERROR, "the metadata log cannot be written now")

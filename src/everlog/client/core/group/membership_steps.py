"""What a member of a group, of either protocol, asks of whoever carries it out (C2-C4).

A member decides and does not wait. Its driver does two things, which may go on at the same time: it takes
one `step` after another, which are requests and their answers, and while the application polls it lets it
know of each `Tell`. So a member goes on saying that it lives while the application is busy.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from everlog.client.core.group.types import GroupMetadata
from everlog.client.core.metadata import ClusterView
from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant, Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.message import Message


class Change(Enum):
    """What happens to partitions of this member."""

    REVOKED = "revoked"
    """Another gets them once the application has heard of it."""
    LOST = "lost"
    """Another may have them already."""
    ASSIGNED = "assigned"
    """They are this member's from now on."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Let the application know; then call `told`."""

    change: Change
    places: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class Send:
    """Ask the coordinator; then call `take`, or `failed` if no answer came."""

    request: Message
    answer_type: type[Message]
    patience_ms: int = 0
    """How much longer than other requests it may take: the others have to join too."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Ask for topics, by name or by id; then call `described`."""

    topics: Sequence[str] = ()
    topic_ids: Sequence[Uuid] = ()


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to send until then, or until something else happens."""

    until: Instant | None


Step = Send | Describe | Rest


class Advice(Enum):
    """What an answer asks of the one who talks to the coordinator."""

    GO_ON = "go on"
    WAIT = "wait"
    """The same again, a little later."""
    FIND = "find"
    """Another broker is the coordinator now, or will be."""


ADVICE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Advice.WAIT,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Advice.FIND,
    ErrorCode.NOT_COORDINATOR: Advice.FIND,
}
"""What codes ask for that say nothing about the member."""


class Member(Protocol):
    """One member of a group."""

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """What the application has been told that it has."""
        ...

    @property
    def group_topics(self) -> frozenset[str]:
        """The topics by name that this member must know about."""
        ...

    @property
    def metadata(self) -> GroupMetadata:
        """In whose name to commit."""
        ...

    @property
    def standing(self) -> GroupMetadata:
        """In whose name the application works: this member, or the one it was last."""
        ...

    def subscribe(self, topics: Collection[str], regex: str | None = None) -> None:
        """Want these topics, or whatever matches on the broker; a second call changes what is wanted."""
        ...

    def step(self, now: Instant) -> Step:
        """What to do next."""
        ...

    def take(self, answer: Message, now: Instant) -> Advice:
        """Take in the answer to the last step; Refused for what the application must hear of."""
        ...

    def failed(self, now: Instant) -> None:
        """No answer came to the last step: whether it was carried out is not known."""
        ...

    def described(self, view: ClusterView) -> None:
        """Take in how topics are now, whether or not a step asked for it."""
        ...

    def take_refusal(self, code: ErrorCode) -> None:
        """Take in why offsets were refused, which may tell that this member is none any more."""
        ...

    def to_tell(self) -> Tell | None:
        """What the application must hear of next; None too while it is being told something."""
        ...

    @property
    def has_news(self) -> bool:
        """Whether there is something to tell."""
        ...

    def told(self, tell: Tell) -> None:
        """The application knows."""
        ...

    def leave(self) -> None:
        """Give up all partitions and go; the steps end with a Rest once nobody counts on this member."""
        ...

    def step_aside(self) -> None:
        """Go at once, since the application does not poll; whatever this member has is lost."""
        ...

    def come_back(self) -> None:
        """The application polls again after `step_aside`."""
        ...

    @property
    def is_away(self) -> bool:
        """Whether it has stepped aside."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether it has left, or never joined, and the application has nothing."""
        ...

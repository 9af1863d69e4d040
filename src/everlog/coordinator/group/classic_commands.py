"""What members ask of a classic group, and what they are told.

Commands and replies are values; a reply goes to a callback, which may be much later: a join is answered when
the whole group has joined, a sync when the leader's assignment is kept.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused, StorageError

NO_GENERATION = -1
NOBODY = ""
"""The member id of who has none yet."""


class GroupProtocol(NamedTuple):
    """One way to share the work that a member knows (an assignor), and what it says about itself there."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Become a member, or take part in the next generation."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    """What the member can do, the best first."""
    reason: str | None = None
    needs_member_id: bool = True
    """Whether a newcomer is first given an id, to join with that (KIP-394; version 4 on)."""
    can_skip_assignment: bool = True
    """Whether a leader that came back can be told to assign nothing (KIP-814; version 9 on)."""


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """The generation that a member is in; the leader is also told who else is."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = NOBODY
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NOBODY
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()

    @classmethod
    def refused(cls, code: ErrorCode) -> "Joined":
        """The reply where there is nothing to say but why not."""
        return cls(code)


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """Ask for one's own assignment; the leader brings everybody's."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    """What the member takes the group's protocol to be; None where it does not say (before version 5)."""
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Synced:
    """A member's assignment."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""

    @classmethod
    def refused(cls, code: ErrorCode) -> "Synced":
        """The reply where there is nothing to say but why not."""
        return cls(code)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Say that one is alive."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class Heard:
    """Whether the member may go on as it is."""

    error: ErrorCode = ErrorCode.NONE

    @classmethod
    def refused(cls, code: ErrorCode) -> "Heard":
        """The reply where there is nothing to say but why not."""
        return cls(code)


class Leaver(NamedTuple):
    """Who is to go: by member id, or by instance id alone, as an operator removes a static member."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Let members go at once, where a session time-out would take its time."""

    group_id: str
    leavers: tuple[Leaver, ...]


class Departure(NamedTuple):
    """What became of one who was to go."""

    leaver: Leaver
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Left:
    """What became of each, in the order in which they were named."""

    error: ErrorCode = ErrorCode.NONE
    departures: tuple[Departure, ...] = ()

    @classmethod
    def refused(cls, code: ErrorCode) -> "Left":
        """The reply where there is nothing to say but why not."""
        return cls(code)


class Answer(Protocol):
    """Any of the replies."""

    @classmethod
    def refused(cls: "type[A]", code: ErrorCode) -> "A":
        """The reply where there is nothing to say but why not."""
        ...


A = TypeVar("A", bound=Answer)
T = TypeVar("T")

Reply = Callable[[T], None]
"""Takes a reply once, now or later."""


def code_of(failure: Refused | StorageError) -> ErrorCode:
    """Why something could not be done, as a code."""
    return failure.code if isinstance(failure, Refused) else ErrorCode.KAFKA_STORAGE_ERROR

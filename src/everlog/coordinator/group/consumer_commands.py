"""What members ask of a consumer group with ConsumerGroupHeartbeat, and what they are told."""

from collections.abc import Callable, Collection

from everlog.coordinator.group.consumer_member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NO_PARTITIONS,
    STATIC_LEAVE_EPOCH,
    Partitions,
)
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused, StorageError

_FIRST_WITH_CLIENTS_MEMBER_ID = 1


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """Join, stay, or leave. What is None is as the member said before."""

    group_id: str
    member_id: str
    """Empty where the broker is to make one, which version 0 allows to a member that joins."""
    epoch: int
    """0 to join, -1 to leave, -2 to leave for a while as a static member."""
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """-1 where it is as before."""
    topics: frozenset[str] | None = None
    regex: str | None = None
    """The empty text is no pattern."""
    assignor: str | None = None
    owned: Partitions | None = None
    """The partitions that the member has."""
    api_version: int = 1
    connection: int = 0
    """The number of the connection that it came on; those made later have higher ones."""

    @property
    def joins(self) -> bool:
        """Whether it wants to become a member, or to begin anew as one."""
        return self.epoch == JOIN_EPOCH

    @property
    def leaves(self) -> bool:
        """Whether it goes, for good or for a while."""
        return self.epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)

    @property
    def tells_all(self) -> bool:
        """Whether it tells everything, as after an error, and so must be told everything."""
        subscribes = self.topics is not None or self.regex is not None
        return self.joins or (self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None)

    def check(self, assignors: Collection[str]) -> None:
        """Refuse what no group could make sense of."""
        problem = self._problem()
        if problem is not None:
            raise Refused(ErrorCode.INVALID_REQUEST, problem)
        if self.assignor is not None and self.assignor not in assignors:
            raise Refused(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"the assignor {self.assignor!r} is not served, expected one of {', '.join(assignors)}",
            )

    def _problem(self) -> str | None:
        if not self.group_id:
            return "the group id is empty"
        needs_id = self.api_version >= _FIRST_WITH_CLIENTS_MEMBER_ID or self.epoch not in (
            JOIN_EPOCH,
            STATIC_LEAVE_EPOCH,
        )
        if needs_id and not self.member_id:
            return "the member id is empty"
        if self.instance_id == "" or self.rack_id == "":
            return "the instance id and the rack may be absent, but not empty"
        if self.epoch < STATIC_LEAVE_EPOCH:
            return f"the member epoch is {self.epoch}, expected -2 or more"
        if self.epoch == STATIC_LEAVE_EPOCH and self.instance_id is None:
            return "only a member with an instance id can leave for a while"
        return self._problem_of_joining() if self.joins else None

    def _problem_of_joining(self) -> str | None:
        if self.rebalance_timeout_ms == -1:
            return "a member that joins must say its rebalance time-out"
        if self.owned != NO_PARTITIONS:
            return "a member that joins must say that it has no partitions"
        if self.topics is None and self.regex is None:
            return "a member that joins must say what it subscribes to"
        return None


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """What a member is told."""

    member_id: str
    epoch: int
    assignment: Partitions | None = None
    """All that it may have now; None where that is as before."""
    waits: bool = False
    """Whether it waits for partitions that others are giving up, so that it should ask again soon."""


HeartbeatDone = Callable[[HeartbeatReply | Refused | StorageError], None]

"""One member of a group by the classic protocol: join, sync, heartbeat, leave (C2-C4).

    OUTSIDE --JoinGroup answered--> JOINED --SyncGroup answered--> STABLE --a rebalance--> OUTSIDE

It is an eager member: when the group rebalances it gives up all that it has, joins again and takes what it is
given. Whoever is told to lead shares the partitions out, by the range assignor.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from everlog.client.core.errors import error_code
from everlog.client.core.group_admin import CONSUMER_PROTOCOL, group_refusal
from everlog.client.core.group_offsets import NO_GENERATION, Membership
from everlog.client.core.range_assignor import NAME, assign_ranges
from everlog.client.core.subscription import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant
from everlog.model.topics import TopicPartition
from everlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from everlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from everlog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from everlog.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)


class Phase(Enum):
    """Where a member stands; see the drawing above."""

    OUTSIDE = "outside"
    JOINED = "joined"
    STABLE = "stable"


class Advice(Enum):
    """What an answer asks of the one who talks to the coordinator."""

    GO_ON = "go on"
    AGAIN = "again"
    """Begin again by joining; the coordinator is the right one."""
    WAIT = "wait"
    """The same request, a little later."""
    FIND = "find"
    """Another broker is the coordinator now, or will be."""


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """How a member behaves; the defaults are Kafka's but for the time it may take to join again.

    Ours joins as soon as it hears of a rebalance, so nobody shall wait five minutes for it.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000


_ADVICE = {
    ErrorCode.NONE: Advice.GO_ON,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Advice.WAIT,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Advice.FIND,
    ErrorCode.NOT_COORDINATOR: Advice.FIND,
}


class GroupMember:
    """What one member knows, the requests that it should send, and what the answers do to it."""

    def __init__(
        self, group_id: str, topics: Collection[str], settings: MemberSettings | None = None
    ) -> None:
        self.group_id = group_id
        self.phase = Phase.OUTSIDE
        self.assignment: Sequence[TopicPartition] = ()
        """What it may read; only while STABLE."""
        self._topics = sorted(topics)
        self._settings = settings or MemberSettings()
        self._member_id = ""
        """As the coordinator named us; empty until it has, and again once it has forgotten us."""
        self._generation = NO_GENERATION
        self._followers: dict[str, Sequence[str]] = {}
        """The topics of all members by id, if we lead; else empty."""
        self._shared_out: Mapping[str, int] = {}
        self._heartbeat_at = Instant(0)

    @property
    def membership(self) -> Membership:
        """In whose name to commit."""
        return Membership(self._member_id, self._generation)

    @property
    def topics_to_share_out(self) -> Sequence[str]:
        """The topics whose partitions we must know in order to lead; empty if we follow."""
        return sorted({topic for topics in self._followers.values() for topic in topics})

    def join_request(self) -> JoinGroupRequest:
        """Ask to be a member; the answer comes once all others have joined, or were given up."""
        assert self.phase is Phase.OUTSIDE, self.phase
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.rebalance_timeout_ms,
            member_id=self._member_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocols=[JoinGroupRequestProtocol(name=NAME, metadata=write_subscription(self._topics))],
        )

    def take_join(self, answer: JoinGroupResponse) -> Advice:
        """Take in the answer to a join."""
        code = error_code(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id  # KIP-394: only a second request, with the id, is counted.
            return Advice.AGAIN
        if code is not ErrorCode.NONE:
            return self._advice(code)
        self.phase = Phase.JOINED
        self._member_id = answer.member_id
        self._generation = answer.generation_id
        leads = answer.leader == answer.member_id and not answer.skip_assignment
        self._followers = (
            {member.member_id: read_subscription(member.metadata).topics for member in answer.members}
            if leads
            else {}
        )
        return Advice.GO_ON

    def sync_request(self, partitions: Mapping[str, int]) -> SyncGroupRequest:
        """Ask what we are given, and if we lead say who gets what of so many `partitions` of each topic."""
        assert self.phase is Phase.JOINED, self.phase
        self._shared_out = dict(partitions)
        shares = assign_ranges(self._followers, partitions) if self._followers else {}
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=NAME,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=write_assignment(places))
                for member, places in shares.items()
            ],
        )

    def take_sync(self, answer: SyncGroupResponse, now: Instant) -> Advice:
        """Take in what we are given."""
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            return self._advice(code)
        self.phase = Phase.STABLE
        self.assignment = read_assignment(answer.assignment)
        self._heartbeat_at = Instant(now + self._settings.heartbeat_interval_ms)
        return Advice.GO_ON

    def heartbeat_request(self, now: Instant) -> HeartbeatRequest | None:
        """Say that we live, if it is time to."""
        if self.phase is not Phase.STABLE or now < self._heartbeat_at:
            return None
        return HeartbeatRequest(
            group_id=self.group_id, generation_id=self._generation, member_id=self._member_id
        )

    def take_heartbeat(self, answer: HeartbeatResponse, now: Instant) -> Advice:
        """Take in whether the group is as it was."""
        self._heartbeat_at = Instant(now + self._settings.heartbeat_interval_ms)
        return self._advice(error_code(answer.error_code))

    def take_commit_code(self, number: int) -> Advice:
        """Take in one code of the answer to a commit, which tells of a rebalance too."""
        return self._advice(error_code(number))

    def notice_partitions(self, partitions: Mapping[str, int]) -> None:
        """Hear how many partitions the topics have now; a leader shares out anew if that has changed."""
        if self.phase is Phase.STABLE and self._followers and dict(partitions) != self._shared_out:
            self._step_outside()

    def leave_request(self) -> LeaveGroupRequest | None:
        """Say that we go, so that nobody waits for our session to run out; None if nobody knows us."""
        if not self._member_id:
            return None
        return LeaveGroupRequest(group_id=self.group_id, members=[MemberIdentity(member_id=self._member_id)])

    def _advice(self, code: ErrorCode) -> Advice:
        known = _ADVICE.get(code)
        if known is not None:
            return known
        match code:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._step_outside()
            case ErrorCode.ILLEGAL_GENERATION:
                self._step_outside()
                self._generation = NO_GENERATION
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._step_outside()
                self._generation = NO_GENERATION
                self._member_id = ""
            case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                said = f"its members do not share the assignor {NAME!r}, or do not consume by it"
                raise group_refusal(code, said, self.group_id)
            case _:
                raise group_refusal(code, None, self.group_id)
        return Advice.AGAIN

    def _step_outside(self) -> None:
        self.phase = Phase.OUTSIDE
        self.assignment = ()
        self._followers = {}

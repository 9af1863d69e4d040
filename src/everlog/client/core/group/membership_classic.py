"""One member of a group by the classic protocol: join, sync, heartbeat, leave (C2-C4).

    OUTSIDE --subscribe--> PREPARING --nothing to give up--> JOINING --answered--+--------> SYNCING
                               ^                                   we lead: DESCRIBING -------^ |
                               +-- a rebalance, a new subscription -- STABLE <-- answered ------+

While PREPARING the application gives up partitions: an eager member all of them, a cooperative one those of
topics that it does not want any more (KIP-429). When STABLE it is told what it has got, and what it must give
up; if a cooperative member gave up any, it joins again at once, so that others get it.
"""

from collections.abc import Collection, Sequence
from enum import Enum

from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.errors import error_code, refusal
from everlog.client.core.group.assignors import Assignor, RebalanceProtocol, Shares
from everlog.client.core.group.assignors.table import common_protocol, read_assignors
from everlog.client.core.group.classic_requests import (
    Subscribed,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from everlog.client.core.group.lead import GroupLead
from everlog.client.core.group.membership_steps import (
    ADVICE,
    Advice,
    Change,
    Describe,
    Rest,
    Send,
    Step,
    Tell,
)
from everlog.client.core.group.subscription import read_assignment
from everlog.client.core.group.types import NO_GENERATION, GroupMetadata
from everlog.client.core.metadata import ClusterView
from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant
from everlog.model.topics import TopicPartition
from everlog.wire.message import Message
from everlog.wire.messages.heartbeat import HeartbeatResponse
from everlog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from everlog.wire.messages.leave_group import LeaveGroupResponse
from everlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class Phase(Enum):
    """Where a member stands; see the drawing above."""

    OUTSIDE = "outside"
    PREPARING = "preparing"
    JOINING = "joining"
    DESCRIBING = "describing"
    SYNCING = "syncing"
    STABLE = "stable"
    LEAVING = "leaving"


class ClassicMember:
    """What one member knows, the requests that it should send, and what the answers do to it."""

    def __init__(self, settings: ConsumerSettings) -> None:
        assert settings.group_id is not None
        self.phase = Phase.OUTSIDE
        self.is_away = False
        self._settings = settings
        self._group_id = settings.group_id
        self._assignors: Sequence[Assignor] = read_assignors(settings.partition_assignment_strategy)
        self._is_eager = common_protocol(self._assignors) is RebalanceProtocol.EAGER
        self._topics: frozenset[str] = frozenset()
        self._member_id = ""
        """As the coordinator named us; empty until it has, and again once it has forgotten us."""
        self._generation = NO_GENERATION
        self._assignor: Assignor | None = None
        """The one that all members have in common, once we have joined."""
        self._lead: GroupLead | None = None
        """What the leader of this generation knows, if that is us."""
        self._owned: frozenset[TopicPartition] = frozenset()
        self._target: frozenset[TopicPartition] = frozenset()
        """What we were assigned in this generation; while STABLE, `_owned` is on its way there."""
        self._had: tuple[Sequence[TopicPartition], int] = ((), NO_GENERATION)
        """The last target, and its generation: what sticky assignors go by."""
        self._is_settled = False
        """Whether the application has heard all about this generation."""
        self._has_revoked = False
        """Whether it had to give up anything in it, so that others wait for another round."""
        self._is_lost = False
        """Whether others may have what we own."""
        self._telling: Tell | None = None
        self._join_anew = False
        """Whether what we said when we joined is not so any more."""
        self._reason = ""
        self._heartbeat_at = Instant(0)
        self._stood = self.metadata
        """As whom it was in the group last."""

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """What the application has been told that it has."""
        return self._owned

    @property
    def metadata(self) -> GroupMetadata:
        """In whose name to commit."""
        return GroupMetadata(
            self._group_id, self._generation, self._member_id, self._settings.group_instance_id
        )

    @property
    def standing(self) -> GroupMetadata:
        """In whose name the application works: this member, or the one it was last.

        Offsets without a generation are taken from anybody; those of a member that the group went on without
        must be refused.
        """
        return self._stood if self._generation == NO_GENERATION else self.metadata

    @property
    def is_gone(self) -> bool:
        """Whether it has left, or never joined, and the application has nothing."""
        return self.phase is Phase.OUTSIDE and not self._owned and self._telling is None

    @property
    def group_topics(self) -> frozenset[str]:
        """The topics that all members together want, if we lead; else those that we want."""
        return self._topics if self._lead is None else self._lead.topics

    def subscribe(self, topics: Collection[str], regex: str | None = None) -> None:
        """Want these topics; there are no patterns on the broker in this protocol."""
        assert regex is None, regex
        wanted = frozenset(topics)
        changed, self._topics = wanted != self._topics, wanted
        if self.phase is Phase.OUTSIDE:
            self._prepare("the consumer subscribes")
        elif changed:
            self._join_anew = True
            self._reason = "the subscription has changed"

    def step(self, now: Instant) -> Step:
        """What to do next."""
        if self.phase is Phase.STABLE and self._join_anew and self._telling is None:
            self._prepare(self._reason)
        if self.phase is Phase.PREPARING and self._has_given_up():
            self.phase = Phase.JOINING
            self._is_lost = False
        request: JoinGroupRequest | SyncGroupRequest
        match self.phase:
            case Phase.JOINING:
                self._join_anew = False
                said = Subscribed(self._topics, self._owned, *self._had)
                request = join_request(self._settings, self.metadata, self._assignors, said, self._reason)
                return Send(request, JoinGroupResponse, self._settings.max_poll_interval_ms)
            case Phase.DESCRIBING:
                return Describe(topics=sorted(self.group_topics))
            case Phase.SYNCING:
                assert self._assignor is not None
                shares: Shares = {} if self._lead is None else self._lead.shares
                request = sync_request(self.metadata, self._assignor.name, shares)
                return Send(request, SyncGroupResponse, self._settings.max_poll_interval_ms)
            case Phase.LEAVING if self.is_away or self._has_given_up():
                return self._step_out()
            case _:
                return self._heartbeat(now)

    def take(self, answer: Message, now: Instant) -> Advice:
        """Take in the answer to the last step; Refused for what the application must hear of."""
        match answer:
            case JoinGroupResponse():
                return self._take_join(answer)
            case SyncGroupResponse():
                return self._take_sync(answer, now)
            case HeartbeatResponse():
                self._heartbeat_at = Instant(now + self._settings.heartbeat_interval_ms)
                return self._take_code(error_code(answer.error_code))
            case LeaveGroupResponse():
                self._be_outside()
                return Advice.GO_ON
            case _:
                raise AssertionError(answer)

    def failed(self, now: Instant) -> None:
        """No answer came to the last step; it is sent again, to whoever coordinates then."""
        if self.phase is Phase.LEAVING and (self.is_away or self._has_given_up()):
            self._be_outside()  # The session runs out by itself.
        self._heartbeat_at = Instant(now + self._settings.retry_backoff_ms)

    def described(self, view: ClusterView) -> None:
        """Take in how topics are now; a leader shares out anew if that makes a difference."""
        if self._lead is None:
            return
        if self.phase is Phase.DESCRIBING:
            self._lead.see(view)
            self.phase = Phase.SYNCING
        elif self._lead.has_changed(view):
            self._join_anew = True
            self._reason = "the topics of the group have changed"

    def take_refusal(self, code: ErrorCode) -> None:
        """Take in why offsets were refused, which may tell that this member is none any more."""
        if code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.REBALANCE_IN_PROGRESS,
        ):
            self._take_code(code)

    def to_tell(self) -> Tell | None:
        """What the application must hear of next; None too while it is being told something."""
        if self._telling is None:
            self._telling = self._next_tell()
            return self._telling
        return None

    @property
    def has_news(self) -> bool:
        """Whether there is something to tell."""
        return self._telling is None and self._next_tell() is not None

    def told(self, tell: Tell) -> None:
        """The application knows."""
        assert tell is self._telling, (tell, self._telling)
        self._telling = None
        if tell.change is Change.ASSIGNED:
            self._owned |= frozenset(tell.places)
            if self.phase is Phase.STABLE:
                self._is_settled = True
                if self._has_revoked:
                    self._prepare("others wait for partitions that were given up")
            return
        self._owned -= frozenset(tell.places)
        self._has_revoked |= self.phase is Phase.STABLE

    def leave(self) -> None:
        """Give up all partitions and go; the steps end with a Rest once nobody counts on this member."""
        self._topics = frozenset()
        self._join_anew = False
        self.is_away = False
        if self.phase is not Phase.OUTSIDE:
            self.phase = Phase.LEAVING

    def step_aside(self) -> None:
        """Go at once, since the application does not poll; whatever this member has is lost."""
        if self.phase not in (Phase.OUTSIDE, Phase.LEAVING):
            self.is_away = True
            self._is_lost = True
            self.phase = Phase.LEAVING

    def come_back(self) -> None:
        """The application polls again after `step_aside`."""
        if self.is_away:
            self.is_away = False
            self._prepare("the consumer polls again")

    def _has_given_up(self) -> bool:
        return self._telling is None and not self.has_news

    def _next_tell(self) -> Tell | None:
        if self.is_away:
            return None
        if self._is_lost and self._owned:
            return Tell(Change.LOST, sorted(self._owned))
        match self.phase:
            case Phase.PREPARING:
                gone = (
                    self._owned
                    if self._is_eager
                    else frozenset(place for place in self._owned if place.topic not in self._topics)
                )
            case Phase.LEAVING:
                gone = self._owned
            case Phase.STABLE if not self._is_settled and not self._join_anew:
                gone = self._owned - self._target
                if not gone:
                    return Tell(Change.ASSIGNED, sorted(self._target - self._owned))
            case _:
                return None
        return Tell(Change.REVOKED, sorted(gone)) if gone else None

    def _take_join(self, answer: JoinGroupResponse) -> Advice:
        code = error_code(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id  # KIP-394: only a second request, with the id, is counted.
            return Advice.GO_ON
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return Advice.WAIT
        if code is not ErrorCode.NONE:
            return self._take_code(code)
        self._member_id = answer.member_id
        self._generation = answer.generation_id
        self._stood = self.metadata
        if self.phase is not Phase.JOINING:
            return Advice.GO_ON  # We are on our way out; now there is somebody to leave.
        self._assignor = next((one for one in self._assignors if one.name == answer.protocol_name), None)
        if self._assignor is None:
            said = f"it chose the assignor {answer.protocol_name!r}, which this member does not have"
            raise refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, said, f"group {self._group_id!r}")
        self._lead = None
        self.phase = Phase.SYNCING
        if answer.leader == answer.member_id:
            self._lead = GroupLead(answer.members, self._assignor)
            if not answer.skip_assignment:
                self.phase = Phase.DESCRIBING
        return Advice.GO_ON

    def _take_sync(self, answer: SyncGroupResponse, now: Instant) -> Advice:
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            return self._take_code(code)
        if self.phase is Phase.SYNCING:
            self.phase = Phase.STABLE
            self._target = frozenset(read_assignment(answer.assignment))
            self._had = (sorted(self._target), self._generation)
            self._is_settled = False
            self._has_revoked = False
            self._heartbeat_at = Instant(now + self._settings.heartbeat_interval_ms)
        return Advice.GO_ON

    def _heartbeat(self, now: Instant) -> Step:
        # While it prepares to join again a member still is one, and must not seem dead.
        if self._generation == NO_GENERATION or self.is_away or self.phase is Phase.OUTSIDE:
            return Rest(None)
        if now < self._heartbeat_at:
            return Rest(self._heartbeat_at)
        return Send(heartbeat_request(self.metadata), HeartbeatResponse)

    def _take_code(self, code: ErrorCode) -> Advice:
        known = ADVICE.get(code)
        if known is not None:
            return known
        match code:
            case ErrorCode.NONE:
                return Advice.GO_ON
            case ErrorCode.REBALANCE_IN_PROGRESS:
                if self.phase in (Phase.STABLE, Phase.SYNCING):
                    self._prepare("the group rebalances")
                return Advice.GO_ON
            case ErrorCode.ILLEGAL_GENERATION:
                self._lose("the generation has passed")
                return Advice.GO_ON
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
                self._lose("the coordinator does not know this member")
                return Advice.GO_ON
            case ErrorCode.FENCED_INSTANCE_ID:
                self._lose("another member has the instance id")
                instance = f"another member has the instance id {self._settings.group_instance_id!r} now"
                raise refusal(code, instance, f"group {self._group_id!r}")
            case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                names = ", ".join(repr(assignor.name) for assignor in self._assignors)
                said = f"its members share none of the assignors {names}, or do not consume by them"
                raise refusal(code, said, f"group {self._group_id!r}")
            case _:
                raise refusal(code, None, f"group {self._group_id!r}")

    def _prepare(self, reason: str) -> None:
        self._reason = reason
        self.phase = Phase.PREPARING
        self._lead = None
        self._join_anew = False

    def _lose(self, reason: str) -> None:
        self._generation = NO_GENERATION
        self._is_lost = True
        if self.phase is not Phase.LEAVING and self.phase is not Phase.OUTSIDE:
            self._prepare(reason)

    def _step_out(self) -> Step:
        is_static = self._settings.group_instance_id is not None
        if not self._member_id or is_static:
            # A static member keeps its partitions over a restart; its session runs out if it stays away.
            self._be_outside()
            return Rest(None)
        reason = (
            f"the consumer has not polled for {self._settings.max_poll_interval_ms} ms"
            if self.is_away
            else "the consumer unsubscribes or closes"
        )
        return Send(leave_request(self.metadata, reason), LeaveGroupResponse)

    def _be_outside(self) -> None:
        self._generation = NO_GENERATION
        self._member_id = ""
        if self.phase is not Phase.LEAVING:
            return  # The application has come back meanwhile.
        assert self._is_lost or not self._owned, self._owned
        self.phase = Phase.OUTSIDE
        self._lead = None
        self._had = ((), NO_GENERATION)
        if self._join_anew and not self.is_away:
            self._prepare(self._reason)

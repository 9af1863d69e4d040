"""A member of a group of the classic protocol: join, sync, heartbeat, leave."""

from collections.abc import Mapping
from struct import pack

from everlog.model.errors import ErrorCode
from everlog.sim.history import Kind, Membership, Outcome
from everlog.sim.script import TIMEOUT_MS, Lost, Script
from everlog.sim.workloads.actor import LOADING, Actor, Topic, error_name
from everlog.sim.workloads.membership import FENCED, Holdings
from everlog.sim.workloads.routing import GROUP, M
from everlog.wire.codec import decode_value, encode_value
from everlog.wire.message import Message
from everlog.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from everlog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from everlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from everlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from everlog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from everlog.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_VERSION = 0


class ClassicMember:
    """One member; partitions are shared by range, and given up before each new join."""

    def __init__(self, actor: Actor, group: str, topics: list[Topic], session_ms: int) -> None:
        self._actor = actor
        self._group = group
        self._topics = topics
        self._session_ms = session_ms
        self._member_id = ""
        self._generation = -1
        self._holdings = Holdings(actor)
        self._joined = False
        self._heard_at = 0
        """When the last request was sent that the coordinator answered well, in milliseconds."""

    @property
    def membership(self) -> Membership:
        """Who it is, as its requests say."""
        return Membership(self._group, self._member_id, self._generation, "classic")

    @property
    def owned(self) -> Mapping[str, int]:
        """The partitions that it may work on now, and since when it has them."""
        return self._holdings.since if self._joined else {}

    def keep(self) -> Script[None]:
        """Join if need be, and let the coordinator know that it lives if that is due."""
        if not self._joined:
            yield from self._join()
        elif self._now_ms() - self._heard_at >= self._session_ms // 4:
            yield from self._heartbeat()

    def doubt(self, error: int) -> None:
        """Take note of an error that says that the group has moved on."""
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._release()
        else:
            self._holdings.lose()
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._member_id = ""
        self._joined = False

    def leave(self) -> Script[None]:
        """Give everything up."""
        self._release()
        self._joined = False
        if self._member_id:
            request = LeaveGroupRequest(
                group_id=self._group, members=[MemberIdentity(member_id=self._member_id)]
            )
            try:
                yield from self._ask(LeaveGroupResponse, request, 5)
            except Lost:
                return

    def _release(self) -> None:
        in_time = self._now_ms() - self._heard_at <= self._session_ms
        self._holdings.release(self._holdings.partitions, in_time=in_time)

    def _ask(self, kind: type[M], request: Message, version: int, timeout_ms: int = TIMEOUT_MS) -> Script[M]:
        return self._actor.routing.ask_coordinator(
            kind, request, version, self._group, GROUP, "group", timeout_ms
        )

    def _now_ms(self) -> int:
        return self._actor.now() // 1000

    def _heartbeat(self) -> Script[None]:
        request = HeartbeatRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member_id
        )
        sent_at = self._now_ms()
        try:
            answer = yield from self._ask(HeartbeatResponse, request, 4, self._session_ms)
        except Lost:
            if self._now_ms() - self._heard_at > self._session_ms:
                self.doubt(ErrorCode.NETWORK_EXCEPTION)
            return
        if answer.error_code == ErrorCode.NONE:
            self._heard_at = sent_at
        elif answer.error_code in FENCED:
            self.doubt(answer.error_code)
        elif answer.error_code not in LOADING:
            self._actor.setting.complain(self._actor.name, f"Heartbeat: {error_name(answer.error_code)}")

    def _join(self) -> Script[None]:
        # Whoever joins owns nothing until it is told again: others may have been given it meanwhile.
        self._release()
        topics = [topic.name for topic in self._topics]
        metadata = pack(">h", _VERSION) + encode_value(ConsumerProtocolSubscription(topics=topics), _VERSION)
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._session_ms * 2,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        start = self._actor.now()
        try:
            answer = yield from self._ask(JoinGroupResponse, request, 9, self._session_ms * 4)
        except Lost:
            yield from self._actor.pause(100)
            return
        if answer.error_code == ErrorCode.NONE:
            self._member_id, self._generation = answer.member_id, answer.generation_id
            self._actor.note(Kind.GATHER, Outcome.OK, start, membership=self.membership)
            yield from self._sync(answer)
        elif answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
        else:
            self._refused("JoinGroup", answer.error_code)
            yield from self._actor.pause(100)

    def _sync(self, joined: JoinGroupResponse) -> Script[None]:
        members = [member.member_id for member in joined.members]
        leads = joined.leader == self._member_id
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=self._assign(sorted(members)) if leads else [],
        )
        start = self._actor.now()
        try:
            answer = yield from self._ask(SyncGroupResponse, request, 5, self._session_ms * 4)
        except Lost:
            yield from self._actor.pause(100)
            return
        if answer.error_code != ErrorCode.NONE:
            self._refused("SyncGroup", answer.error_code)
            yield from self._actor.pause(100)
            return
        self._actor.note(Kind.JOIN, Outcome.OK, start, membership=self.membership)
        given = decode_value(ConsumerProtocolAssignment, _VERSION, answer.assignment[2:])
        partitions = frozenset(
            f"{each.topic}-{index}" for each in given.assigned_partitions for index in each.partitions
        )
        self._holdings.take(partitions, self.membership)
        self._joined = True
        self._heard_at = start // 1000

    def _refused(self, what: str, error: int) -> None:
        if error in FENCED:
            self.doubt(error)
        elif error not in LOADING:
            self._actor.setting.complain(self._actor.name, f"{what} answered {error_name(error)}")

    def _assign(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        given: dict[str, list[TopicPartition]] = {member: [] for member in members}
        for topic in self._topics:
            for at, member in enumerate(members):
                mine = list(range(at, topic.partitions, len(members)))
                if mine:
                    given[member].append(TopicPartition(topic=topic.name, partitions=mine))
        return [
            SyncGroupRequestAssignment(
                member_id=member,
                assignment=pack(">h", _VERSION)
                + encode_value(ConsumerProtocolAssignment(assigned_partitions=parts), _VERSION),
            )
            for member, parts in given.items()
        ]

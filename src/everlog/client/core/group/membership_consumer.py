"""One member of a group by the consumer protocol, in which the coordinator assigns (KIP-848; C2-C4).

There is one request, the heartbeat. It says what has changed: the subscription, and what the member has. The
answer says what it is to have, if that has changed. The member then gives up what is not its any more, takes
what was added, and says so at once; only then can others get what it gave up. Nobody waits for all.

    OUTSIDE --subscribe--> JOINING --answered--> MEMBER --fenced--> LOST --application told--> JOINING
"""

from collections.abc import Collection, Iterable
from enum import Enum

from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.errors import error_code, refusal
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
from everlog.client.core.group.types import NO_GENERATION, GroupMetadata
from everlog.client.core.metadata import ClusterView
from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant, Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.message import Message
from everlog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2

Place = tuple[Uuid, int]
"""A partition by its topic's id: a topic made anew under the same name is another."""


FORGOTTEN = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,  # The last member was forgotten, and the group with it.
)
"""Codes by which a coordinator says that we are not the member that we think we are."""


class Phase(Enum):
    """Where a member stands; see the drawing above."""

    OUTSIDE = "outside"
    JOINING = "joining"
    MEMBER = "member"
    LOST = "lost"
    LEAVING = "leaving"


class ConsumerMember:
    """What one member knows, the heartbeats that it should send, and what the answers do to it."""

    def __init__(self, settings: ConsumerSettings, member_id: str) -> None:
        assert settings.group_id is not None
        self.phase = Phase.OUTSIDE
        self.is_away = False
        self._settings = settings
        self._group_id = settings.group_id
        self._member_id = member_id
        """Made by us, and ours for as long as this client lives (KIP-1082)."""
        self._epoch = NO_GENERATION
        self._topics: frozenset[str] = frozenset()
        self._regex: str | None = None
        self._names: dict[Uuid, str] = {}
        self._undescribed: frozenset[Uuid] = frozenset()
        """Topics that we are to have partitions of, and do not know; asked for once in each heartbeat."""
        self._owned: frozenset[Place] = frozenset()
        self._target: frozenset[Place] = frozenset()
        self._is_settled = True
        """Whether the application has all of the target that we know by name, and nothing else."""
        self._must_tell_everything = False
        """Whether the coordinator may have missed what we said last."""
        self._said: frozenset[Place] | None = None
        """What we last said that we have; None if we must say it."""
        self._is_subscription_new = False
        self._is_lost = False
        self._telling: Tell | None = None
        self._told_of: frozenset[Place] = frozenset()
        """The partitions that the application is being told of."""
        self._heartbeat_at = Instant(0)
        self._stood = self.metadata
        """As whom it was in the group last."""

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """What the application has been told that it has."""
        return frozenset(self._named(self._owned))

    @property
    def metadata(self) -> GroupMetadata:
        """In whose name to commit."""
        return GroupMetadata(self._group_id, self._epoch, self._member_id, self._settings.group_instance_id)

    @property
    def standing(self) -> GroupMetadata:
        """In whose name the application works: this member, or the one it was last.

        Offsets without a generation are taken from anybody; those of a member that the group went on without
        must be refused.
        """
        return self.metadata if self._epoch > JOIN_EPOCH else self._stood

    @property
    def is_gone(self) -> bool:
        """Whether it has left, or never joined, and the application has nothing."""
        return self.phase is Phase.OUTSIDE and not self._owned and self._telling is None

    @property
    def group_topics(self) -> frozenset[str]:
        """The topics that we want by name."""
        return self._topics

    def subscribe(self, topics: Collection[str], regex: str | None = None) -> None:
        """Want these topics, and those that a pattern of RE2 matches on the broker."""
        wanted = frozenset(topics)
        changed = (wanted, regex) != (self._topics, self._regex)
        self._topics, self._regex = wanted, regex
        if self.phase is Phase.OUTSIDE and not self.is_away:
            self.phase = (
                Phase.LOST
            )  # Joins as soon as the application knows of what it has lost, if anything.
        self._is_subscription_new |= changed

    def step(self, now: Instant) -> Step:
        """What to do next."""
        match self.phase:
            case Phase.LEAVING if self.is_away or self._has_given_up():
                return Send(self._leave_request(), ConsumerGroupHeartbeatResponse)
            case Phase.LOST if self._has_given_up():
                self._join()
            case Phase.OUTSIDE | Phase.LOST:
                return Rest(None)
            case Phase.LEAVING if self._epoch < 0:
                return Rest(None)  # Nobody counts on us any more; the application has yet to hear of it.
            case _:
                pass
        if self._undescribed:
            return Describe(topic_ids=sorted(self._undescribed))
        has_news = self._is_subscription_new or self._must_say_owned() or self.phase is Phase.JOINING
        if now < self._heartbeat_at and not (has_news and self.phase is not Phase.LEAVING):
            return Rest(self._heartbeat_at)
        return Send(self._heartbeat_request(), ConsumerGroupHeartbeatResponse)

    def take(self, answer: Message, now: Instant) -> Advice:
        """Take in the answer to the last heartbeat; Refused for what the application must hear of."""
        assert isinstance(answer, ConsumerGroupHeartbeatResponse), answer
        code = error_code(answer.error_code)
        if answer.member_epoch < 0 and code is ErrorCode.NONE:
            self._be_outside()
            return Advice.GO_ON
        if code is not ErrorCode.NONE:
            self._must_tell_everything = True
            return self._take_code(code, answer.error_message, now)
        self._heartbeat_at = Instant(now + answer.heartbeat_interval_ms)
        self._must_tell_everything = False
        if self.phase is Phase.JOINING:
            self.phase = Phase.MEMBER
        if self.phase is Phase.LOST:
            return Advice.GO_ON  # The answer to a commit has told that we are fenced.
        self._member_id = answer.member_id or self._member_id
        self._epoch = answer.member_epoch
        self._stood = self.metadata
        if self.phase is not Phase.MEMBER:
            return Advice.GO_ON  # On our way out.
        if answer.assignment is not None:
            self._target = frozenset(
                (topic.topic_id, partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            )
            self._is_settled = False
            self._said = None
        self._undescribed = frozenset(topic for topic, _ in self._target if topic not in self._names)
        return Advice.GO_ON

    def failed(self, now: Instant) -> None:
        """No answer came to the last heartbeat: the next one says everything again."""
        if self.phase is Phase.LEAVING and (self.is_away or self._has_given_up()):
            self._be_outside()  # The session runs out by itself.
        self._must_tell_everything = True
        self._heartbeat_at = Instant(now + self._settings.retry_backoff_ms)

    def described(self, view: ClusterView) -> None:
        """Take in what topics are called. One that is not there may be tomorrow, or is gone for good."""
        for topic in view.topics.values():
            if topic.error is ErrorCode.NONE:
                self._names[topic.topic_id] = topic.name
        known = frozenset(topic for topic in self._undescribed if topic in self._names)
        self._undescribed = frozenset()
        if known:
            self._is_settled = False

    def take_refusal(self, code: ErrorCode) -> None:
        """Take in why offsets were refused, which may tell that this member is none any more."""
        if code in FORGOTTEN:
            self._lose()

    def to_tell(self) -> Tell | None:
        """What the application must hear of next; None too while it is being told something."""
        if self._telling is not None:
            return None
        found = self._next_tell()
        if found is None:
            return None
        change, self._told_of = found
        self._telling = Tell(change, sorted(self._named(self._told_of)))
        return self._telling

    @property
    def has_news(self) -> bool:
        """Whether there is something to tell."""
        return self._telling is None and self._next_tell() is not None

    def told(self, tell: Tell) -> None:
        """The application knows."""
        assert tell is self._telling, (tell, self._telling)
        self._telling = None
        if tell.change is Change.ASSIGNED:
            self._owned |= self._told_of
            # If the target has changed meanwhile there is more to tell.
            self._is_settled = self._owned == self._within_reach()
        else:
            self._owned -= self._told_of

    def leave(self) -> None:
        """Give up all partitions and go; the steps end with a Rest once nobody counts on this member."""
        self._topics, self._regex = frozenset(), None
        self._is_subscription_new = False
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
            self._is_lost = True
            self.phase = Phase.LOST

    def _has_given_up(self) -> bool:
        return self._telling is None and not self.has_news

    def _next_tell(self) -> tuple[Change, frozenset[Place]] | None:
        if self.is_away:
            return None
        if self._is_lost and self._owned:
            return Change.LOST, self._owned
        if self.phase is Phase.LEAVING and self._owned:
            return Change.REVOKED, self._owned
        if self.phase is not Phase.MEMBER or self._is_settled:
            return None
        reachable = self._within_reach()
        if gone := self._owned - reachable:
            return Change.REVOKED, gone
        return Change.ASSIGNED, reachable - self._owned

    def _within_reach(self) -> frozenset[Place]:
        return frozenset(place for place in self._target if place[0] in self._names)

    def _claimed(self) -> frozenset[Place]:
        """What the application has, or may have before the coordinator reads that.

        A partition that is not named is free for others. One that we were given and have not taken yet may
        be taken while the heartbeat is under way: {} is sent, 0 is taken, {} arrives, and 0 has two owners.
        """
        claimed = self._owned | self._target
        if self._telling is not None and self._telling.change is Change.ASSIGNED:
            claimed |= self._told_of
        return claimed

    def _must_say_owned(self) -> bool:
        return self.phase is Phase.MEMBER and self._is_settled and self._said != self._owned

    def _heartbeat_request(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, member_epoch=self._epoch
        )
        everything = self.phase is Phase.JOINING or self._must_tell_everything
        request.instance_id = self._settings.group_instance_id
        if everything:
            request.rack_id = self._settings.client_rack or None
            request.rebalance_timeout_ms = self._settings.max_poll_interval_ms
            request.server_assignor = self._settings.group_remote_assignor
        if everything or self._is_subscription_new:
            request.subscribed_topic_names = sorted(self._topics)
            request.subscribed_topic_regex = self._regex
            self._is_subscription_new = False
        if everything or self._must_say_owned():
            request.topic_partitions = _by_topic_id(self._claimed())
            if self._is_settled:
                self._said = self._owned
        return request

    def _take_code(self, code: ErrorCode, message: str | None, now: Instant) -> Advice:
        known = ADVICE.get(code)
        if known is not None:
            return known
        if self.phase is Phase.LEAVING and (self.is_away or self._has_given_up()):
            self._be_outside()
            return Advice.GO_ON
        match code:
            case _ if code in FORGOTTEN:
                self._lose()
                return Advice.GO_ON
            case ErrorCode.FENCED_INSTANCE_ID:
                self._lose()
            case _:
                pass
        self._heartbeat_at = now
        raise refusal(code, message, f"group {self._group_id!r}")

    def _join(self) -> None:
        self.phase = Phase.JOINING
        self._epoch = JOIN_EPOCH
        self._is_lost = False
        self._target = self._owned
        self._is_settled = True
        self._said = None

    def _lose(self) -> None:
        self._epoch = NO_GENERATION
        self._is_lost = True
        if self.phase not in (Phase.LEAVING, Phase.OUTSIDE):
            self.phase = Phase.LOST

    def _leave_request(self) -> ConsumerGroupHeartbeatRequest:
        static = self._settings.group_instance_id is not None
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=STATIC_LEAVE_EPOCH if static else LEAVE_EPOCH,
            instance_id=self._settings.group_instance_id,
        )

    def _be_outside(self) -> None:
        if self.phase is not Phase.LEAVING:
            return  # The application has come back meanwhile.
        assert self._is_lost or not self._owned, self._owned
        self.phase = Phase.OUTSIDE
        self._epoch = NO_GENERATION
        self._undescribed = frozenset()
        if self._is_subscription_new and not self.is_away:
            self.phase = Phase.LOST  # From where it joins, once the application knows what it has lost.

    def _named(self, places: Iterable[Place]) -> list[TopicPartition]:
        return [TopicPartition(self._names[topic], partition) for topic, partition in places]


def _by_topic_id(places: Iterable[Place]) -> list[TopicPartitions]:
    topics: dict[Uuid, list[int]] = {}
    for topic, partition in sorted(places):
        topics.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic_id=topic, partitions=indexes) for topic, indexes in topics.items()]

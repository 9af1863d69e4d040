"""A member of a group of the newer protocol (KIP-848): one heartbeat does everything."""

from collections.abc import Mapping

from everlog.model.errors import ErrorCode
from everlog.model.ids import uuid_text
from everlog.sim.history import Kind, Membership, Outcome
from everlog.sim.script import TIMEOUT_MS, Lost, Script
from everlog.sim.workloads.actor import LOADING, Actor, Topic, error_name, split
from everlog.sim.workloads.membership import FENCED, Holdings
from everlog.sim.workloads.routing import GROUP
from everlog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_LEAVE = -1


class ConsumerMember:
    """One member; the coordinator says what it owns, and is told when something was given up."""

    def __init__(self, actor: Actor, group: str, topics: list[Topic], session_ms: int) -> None:
        self._actor = actor
        self._group = group
        self._topics = topics
        self._session_ms = session_ms
        self._member_id = uuid_text(actor.chance.uuid())
        self._epoch = 0
        self._holdings = Holdings(actor)
        self._interval_ms = 0
        self._heard_at = 0
        """When the last heartbeat was sent that was answered well, in milliseconds."""
        self._due_at = 0

    @property
    def membership(self) -> Membership:
        """Who it is, as its requests say."""
        return Membership(self._group, self._member_id, self._epoch, "consumer")

    @property
    def owned(self) -> Mapping[str, int]:
        """The partitions that it may work on now, and since when it has them."""
        return self._holdings.since if self._epoch > 0 else {}

    def keep(self) -> Script[None]:
        """Join if need be, and let the coordinator know that it lives if that is due."""
        if self._epoch == 0 or self._now_ms() >= self._due_at:
            yield from self._heartbeat()

    def doubt(self, error: int) -> None:
        """Take note of an error that says that the group has moved on."""
        if error == ErrorCode.STALE_MEMBER_EPOCH:
            # The epoch was raised and we have not heard of it; the next heartbeat tells.
            self._due_at = 0
            return
        self._holdings.lose()
        self._epoch = 0

    def leave(self) -> Script[None]:
        """Give everything up."""
        self._release(self._holdings.partitions)
        if self._epoch > 0:
            self._epoch = _LEAVE
            try:
                yield from self._ask()
            except Lost:
                pass
            self._epoch = 0

    def _now_ms(self) -> int:
        return self._actor.now() // 1000

    def _release(self, partitions: frozenset[str]) -> None:
        in_time = self._now_ms() - self._heard_at <= self._session_ms
        self._holdings.release(partitions, in_time=in_time)

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        owned: dict[str, list[int]] = {}
        for partition in sorted(self._holdings.partitions):
            name, index = split(partition)
            owned.setdefault(name, []).append(index)
        ids = {topic.name: topic.id for topic in self._topics}
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=self._session_ms * 2,
            subscribed_topic_names=[topic.name for topic in self._topics],
            topic_partitions=[
                TopicPartitions(topic_id=ids[name], partitions=indexes) for name, indexes in owned.items()
            ],
        )

    def _ask(self, timeout_ms: int = TIMEOUT_MS) -> Script[ConsumerGroupHeartbeatResponse]:
        return self._actor.routing.ask_coordinator(
            ConsumerGroupHeartbeatResponse, self._request(), 1, self._group, GROUP, "group", timeout_ms
        )

    def _heartbeat(self) -> Script[None]:
        start = self._actor.now()
        try:
            answer = yield from self._ask(timeout_ms=1_000)
        except Lost:
            yield from self._actor.pause(50)
            return
        error = answer.error_code
        if error == ErrorCode.NONE:
            self._take_in(answer, start)
        elif error in FENCED:
            self.doubt(ErrorCode.FENCED_MEMBER_EPOCH)
            yield from self._actor.pause(50)
        else:
            if error not in LOADING:
                self._actor.setting.complain(self._actor.name, f"heartbeat answered {error_name(error)}")
            yield from self._actor.pause(100)

    def _take_in(self, answer: ConsumerGroupHeartbeatResponse, start: int) -> None:
        raised = answer.member_epoch != self._epoch
        self._epoch = answer.member_epoch
        self._interval_ms = answer.heartbeat_interval_ms
        self._due_at = self._now_ms() + self._interval_ms
        if raised:
            self._actor.note(Kind.JOIN, Outcome.OK, start, membership=self.membership)
        if answer.assignment is None:
            self._heard_at = start // 1000
            return
        assigned = self._assigned(answer.assignment)
        gone = self._holdings.partitions - assigned
        changed = bool(gone or assigned - self._holdings.partitions)
        self._release(gone)
        self._heard_at = start // 1000
        self._holdings.take(assigned, self.membership)
        if changed:
            # Others may wait for what was given up: say so at once.
            self._due_at = 0

    def _assigned(self, assignment: Assignment) -> frozenset[str]:
        names = {topic.id: topic.name for topic in self._topics}
        return frozenset(
            f"{names[each.topic_id]}-{index}"
            for each in assignment.topic_partitions
            for index in each.partitions
        )

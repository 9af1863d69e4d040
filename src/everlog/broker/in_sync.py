"""Proposals of who is in sync, on their way to the controller: several partitions in one AlterPartition (R3).

The leader counts on a proposal until it knows what became of it, so nothing is withdrawn here that the
controller may have taken: a request that was lost is sent again, and one that came too late waits for the
metadata.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from everlog.broker.replicas import Replica
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId, Instant
from everlog.replication.leader import Effect, IsrChanged, LeaderState, ProposalRefused, ProposeIsr
from everlog.wire.message import Message
from everlog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)

if TYPE_CHECKING:
    from everlog.broker.broker import Broker

_log = logging.getLogger(__name__)

_VERSION: Final = 3
_TIMEOUT_MS: Final = 30_000
RETRY_MS: Final = 50
"""How long a proposal waits that the controller would not take, or did not hear."""

MOST_AT_ONCE: Final = 2_000
"""Partitions in one request: others that wait for the controller have their turn between."""

_NOT_TAKEN: Final = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
"""It was looked at as it was meant, and is not in effect: another one may be made."""
_OUTDATED: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
)
"""The controller knows more than this broker: perhaps that an earlier try was taken. Metadata will tell."""

Apply = Callable[[Replica, list[Effect]], None]


class _Proposal:
    """What one leader proposes, in its epoch."""

    __slots__ = ("leading", "proposed", "replica")

    def __init__(self, replica: Replica, leading: LeaderState, proposed: ProposeIsr) -> None:
        self.replica = replica
        self.leading = leading
        self.proposed = proposed

    @property
    def holds(self) -> bool:
        """Whether the leader still waits to hear of it."""
        leading = self.leading
        return (
            self.replica.leading is leading
            and leading.proposed is not None
            and leading.partition_epoch == self.proposed.partition_epoch
        )


class InSyncProposals:
    """All proposals of a broker; one request at a time."""

    def __init__(self, broker: "Broker", apply: Apply) -> None:
        self._broker = broker
        self._apply = apply
        self.broker_epoch = -1
        """Of this broker's registration."""
        self._waiting: list[_Proposal] = []
        self._under_way = False
        self._next_at = Instant(0)
        self._refused: list[tuple[Instant, _Proposal]] = []
        """Leaders that are told a little later, so that they do not ask the same at once."""

    def propose(self, replica: Replica, leading: LeaderState, proposed: ProposeIsr) -> None:
        """Bring a proposal on its way; the leader hears what became of it."""
        self._waiting.append(_Proposal(replica, leading, proposed))
        self._broker.alarm.ring_by(max(self._next_at, self._broker.clock.now()))

    def tick(self, now: Instant) -> None:
        """Send what waits, if nothing is under way."""
        due = [one for at, one in self._refused if at <= now]
        self._refused = [entry for entry in self._refused if entry[0] > now]
        for one in due:
            if one.holds:
                self._apply(one.replica, one.leading.step(ProposalRefused(), now))
        self._waiting = [one for one in self._waiting if one.holds]
        if self._waiting and not self._under_way and self._next_at <= now:
            self._send()
        times = [at for at, _ in self._refused]
        if self._waiting and not self._under_way:
            times.append(self._next_at)
        if times:
            self._broker.alarm.ring_by(min(times))

    def _send(self) -> None:
        sent, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
        self._under_way = True
        topics: dict[bytes, RequestTopicData] = {}
        for one in sent:
            topic_id = one.replica.topic_id
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = RequestTopicData(topic_id=topic_id)
            topic.partitions.append(self._request(one))
        request = AlterPartitionRequest(
            broker_id=self._broker.node_id, broker_epoch=self.broker_epoch, topics=list(topics.values())
        )
        self._broker.channel.ask(request, _VERSION, partial(self._answered, sent), _TIMEOUT_MS)

    def _request(self, one: _Proposal) -> RequestPartitionData:
        me = self._broker.node_id
        return RequestPartitionData(
            partition_index=one.replica.name.partition,
            leader_epoch=one.replica.leader_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=broker, broker_epoch=self.broker_epoch if broker == me else epoch)
                for broker, epoch in one.proposed.isr.items()
            ],
            leader_recovery_state=0,
            partition_epoch=one.proposed.partition_epoch,
        )

    def _answered(self, sent: list[_Proposal], answer: Message | Refused) -> None:
        self._under_way = False
        now = self._broker.clock.now()
        if not isinstance(answer, AlterPartitionResponse) or answer.error_code:
            why = ErrorCode(answer.error_code) if isinstance(answer, AlterPartitionResponse) else answer
            _log.info("who is in sync could not be told to the controller, and will be again: %r", why)
            self._retry(sent, now)
        else:
            told = {
                (bytes(topic.topic_id), partition.partition_index): partition
                for topic in answer.topics
                for partition in topic.partitions
            }
            for one in sent:
                found = told.get((bytes(one.replica.topic_id), one.replica.name.partition))
                if found is None:
                    self._retry([one], now)
                elif one.holds:
                    self._take(one, found, now)
        self.tick(now)
        self._broker.settle()

    def _take(self, one: _Proposal, told: ResponsePartitionData, now: Instant) -> None:
        code = ErrorCode(told.error_code)
        if code is ErrorCode.NONE:
            if told.leader_epoch == one.replica.leader_epoch:
                isr = frozenset(BrokerId(broker) for broker in told.isr)
                self._apply(one.replica, one.leading.step(IsrChanged(isr, told.partition_epoch), now))
        elif code in _NOT_TAKEN:
            self._refused.append((Instant(now + RETRY_MS), one))
        elif code in _OUTDATED:
            _log.info("%s: the controller is ahead of us (%s)", one.replica.name, code.name)
        else:
            self._retry([one], now)

    def _retry(self, proposals: list[_Proposal], now: Instant) -> None:
        self._next_at = Instant(now + RETRY_MS)
        self._waiting += proposals

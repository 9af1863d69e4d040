"""Proposals of who is in sync, on their way to the controller (R3)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from everlog.broker.in_sync import MOST_AT_ONCE, InSyncProposals
from everlog.broker.replicas import Replica
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import BrokerId, Instant, LeaderEpoch, Uuid
from everlog.model.topics import TopicPartition
from everlog.replication.leader import Effect, LeaderState, ProposeIsr
from everlog.sim.alarm import SimAlarm
from everlog.sim.clock import SimClock
from everlog.wire.message import Message
from everlog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)

ORDERS = Uuid(bytes(range(16)))
Done = Callable[[Message | Refused], None]


class Channel:
    """The way to a controller that takes its time."""

    def __init__(self) -> None:
        self.asked: list[tuple[AlterPartitionRequest, Done]] = []

    def ask(self, request: Message, version: int, done: Done, timeout_ms: int) -> None:
        assert isinstance(request, AlterPartitionRequest), (request, version, timeout_ms)
        self.asked.append((request, done))


def test_ten_thousand_proposals_at_once_are_told_in_several_requests_one_after_the_other() -> None:
    """A request has only so many elements, and the controller decides on each in one go."""
    channel = Channel()
    broker: Any = SimpleNamespace(
        node_id=BrokerId(1), channel=channel, alarm=SimAlarm(), clock=SimClock(), settle=lambda: None
    )

    def apply(replica: Replica, _effects: list[Effect]) -> None:
        raise AssertionError(replica)

    proposals = InSyncProposals(broker, apply)
    proposed = ProposeIsr({BrokerId(1): 5, BrokerId(2): 6, BrokerId(3): 7}, 0)
    for number in range(10_000):
        leading = cast(LeaderState, SimpleNamespace(proposed=proposed, partition_epoch=0))
        name = TopicPartition("orders", number)
        replica = SimpleNamespace(name=name, topic_id=ORDERS, leader_epoch=LeaderEpoch(0), leading=leading)
        proposals.propose(cast(Replica, replica), leading, proposed)
    proposals.tick(Instant(0))

    told: list[int] = []
    while len(channel.asked) > len(told):
        request, done = channel.asked[-1]
        told.append(sum(len(topic.partitions) for topic in request.topics))
        done(all_refused(request))

    assert told == [MOST_AT_ONCE] * (10_000 // MOST_AT_ONCE)


def all_refused(request: AlterPartitionRequest) -> AlterPartitionResponse:
    """An answer after which nothing is proposed again."""
    return AlterPartitionResponse(
        topics=[
            ResponseTopicData(
                topic_id=topic.topic_id,
                partitions=[
                    ResponsePartitionData(
                        partition_index=one.partition_index, error_code=ErrorCode.FENCED_LEADER_EPOCH
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

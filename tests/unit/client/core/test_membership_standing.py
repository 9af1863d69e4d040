"""C4, P5: a member that the group went on without commits nothing in a transaction, under no name."""

from everlog.client.core.group.types import GroupMetadata
from everlog.model.errors import ErrorCode
from everlog.model.ids import Instant
from everlog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from everlog.wire.messages.heartbeat import HeartbeatResponse
from everlog.wire.messages.leave_group import LeaveGroupResponse
from tests.unit.client.core import test_membership_classic as classic
from tests.unit.client.core import test_membership_consumer as consumer

NOON = classic.NOON
LATER = Instant(NOON + 60_000)


def test_a_classic_member_that_left_stands_by_the_generation_it_had() -> None:
    member = classic.stable(0)
    assert member.standing == GroupMetadata("g", 1, "me")

    member.step_aside()
    classic.sent(member)
    member.take(LeaveGroupResponse(), NOON)

    assert member.metadata == GroupMetadata("g")
    assert member.standing == GroupMetadata("g", 1, "me")


def test_a_classic_member_that_is_forgotten_stands_by_the_generation_it_had_until_it_joins_again() -> None:
    member = classic.stable(0)
    classic.sent(member, LATER)
    member.take(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), LATER)
    assert member.standing == GroupMetadata("g", 1, "me")

    classic.poll(member)
    classic.become_stable(member, 0, member_id="me again", generation_id=5)

    assert member.standing == GroupMetadata("g", 5, "me again")


def test_a_consumer_member_stands_by_the_epoch_it_had_until_it_joins_again() -> None:
    member = consumer.settled(0)
    epoch = member.metadata.generation

    member.step_aside()
    consumer.sent(member)
    member.take(ConsumerGroupHeartbeatResponse(member_epoch=-1), NOON)
    assert member.standing == GroupMetadata("g", epoch, "me")
    member.come_back()
    consumer.poll(member)
    assert consumer.sent(member).member_epoch == 0
    assert member.standing == GroupMetadata("g", epoch, "me")
    member.take(consumer.answer(9, 0), NOON)

    assert member.standing == GroupMetadata("g", 9, "me")


def test_who_never_joined_stands_for_nobody() -> None:
    assert classic.a_member().standing == GroupMetadata("g")

"""One member of a classic group: every answer and what it makes of it (C2-C4)."""

import pytest

from everlog.client.core.group_offsets import NO_GENERATION
from everlog.client.core.membership import Advice, GroupMember, Phase
from everlog.client.core.range_assignor import assign_ranges
from everlog.client.core.subscription import read_assignment, write_assignment, write_subscription
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Instant
from everlog.model.topics import TopicPartition
from everlog.wire.messages.heartbeat import HeartbeatResponse
from everlog.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from everlog.wire.messages.sync_group import SyncGroupResponse

NOON = Instant(1_000_000)
ZERO, ONE, TWO = (TopicPartition("orders", index) for index in range(3))


def joined(*, leads: bool = False) -> JoinGroupResponse:
    others = [
        JoinGroupResponseMember(member_id=name, metadata=write_subscription(["orders"]))
        for name in ("me", "you")
    ]
    return JoinGroupResponse(
        member_id="me", leader="me" if leads else "you", generation_id=4, members=others if leads else []
    )


def a_stable_member(*, leads: bool = False) -> GroupMember:
    member = GroupMember("billing", ["orders"])
    assert member.take_join(joined(leads=leads)) is Advice.GO_ON
    member.sync_request({"orders": 3} if leads else {})
    assert member.take_sync(SyncGroupResponse(assignment=write_assignment([ZERO, ONE])), NOON) is Advice.GO_ON
    return member


def beat(member: GroupMember, code: ErrorCode) -> Advice:
    return member.take_heartbeat(HeartbeatResponse(error_code=code), NOON)


def test_a_member_joins_a_second_time_with_the_id_that_it_was_told() -> None:
    member = GroupMember("billing", ["orders"])
    assert member.join_request().member_id == ""

    advice = member.take_join(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me"))

    assert (advice, member.phase, member.join_request().member_id) == (Advice.AGAIN, Phase.OUTSIDE, "me")


def test_a_follower_sends_no_assignments_and_takes_what_it_is_given() -> None:
    member = GroupMember("billing", ["orders"])
    member.take_join(joined())

    request = member.sync_request({})
    assert (request.generation_id, request.member_id, request.assignments) == (4, "me", [])
    assert member.topics_to_share_out == []

    member.take_sync(SyncGroupResponse(assignment=write_assignment([TWO])), NOON)
    assert (member.phase, member.assignment) == (Phase.STABLE, (TWO,))


def test_a_leader_shares_out_the_partitions_of_all_members() -> None:
    member = GroupMember("billing", ["orders"])
    member.take_join(joined(leads=True))
    assert member.topics_to_share_out == ["orders"]

    request = member.sync_request({"orders": 3})

    assert {entry.member_id: read_assignment(entry.assignment) for entry in request.assignments} == {
        "me": (ZERO, ONE),
        "you": (TWO,),
    }


def test_a_leader_that_shall_not_assign_does_not() -> None:
    answer = joined(leads=True)
    answer.skip_assignment = True
    member = GroupMember("billing", ["orders"])
    member.take_join(answer)

    assert member.sync_request({"orders": 3}).assignments == []


def test_a_heartbeat_is_due_once_an_interval_while_stable() -> None:
    member = a_stable_member()

    assert member.heartbeat_request(Instant(NOON + 2999)) is None
    request = member.heartbeat_request(Instant(NOON + 3000))
    assert request is not None
    assert (request.generation_id, request.member_id) == (4, "me")
    member.take_heartbeat(HeartbeatResponse(), Instant(NOON + 3000))
    assert member.heartbeat_request(Instant(NOON + 5999)) is None
    assert GroupMember("billing", ["orders"]).heartbeat_request(NOON) is None


def test_a_rebalance_takes_all_partitions_but_leaves_the_right_to_commit() -> None:
    member = a_stable_member()

    assert beat(member, ErrorCode.REBALANCE_IN_PROGRESS) is Advice.AGAIN

    assert (member.phase, member.assignment) == (Phase.OUTSIDE, ())
    assert (member.membership.member_id, member.membership.generation) == ("me", 4)
    assert member.join_request().member_id == "me"


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.ILLEGAL_GENERATION, "me"), (ErrorCode.UNKNOWN_MEMBER_ID, "")]
)
def test_a_member_that_the_group_went_on_without_may_not_commit_any_more(
    code: ErrorCode, member_id: str
) -> None:
    member = a_stable_member()

    assert beat(member, code) is Advice.AGAIN

    assert member.membership.generation == NO_GENERATION
    assert member.join_request().member_id == member_id


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Advice.WAIT),
        (ErrorCode.NOT_COORDINATOR, Advice.FIND),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Advice.FIND),
    ],
)
def test_a_coordinator_that_moves_takes_nothing_from_a_member(code: ErrorCode, advice: Advice) -> None:
    member = a_stable_member()

    assert beat(member, code) is advice
    assert (member.phase, member.assignment) == (Phase.STABLE, (ZERO, ONE))
    assert member.take_commit_code(code) is advice
    assert GroupMember("g", []).take_join(JoinGroupResponse(error_code=code)) is advice


def test_a_sync_that_meets_the_next_rebalance_begins_again() -> None:
    member = GroupMember("billing", ["orders"])
    member.take_join(joined())

    advice = member.take_sync(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), NOON)

    assert (advice, member.phase) == (Advice.AGAIN, Phase.OUTSIDE)


def test_what_cannot_be_mended_is_refused_with_the_group_s_name() -> None:
    member = GroupMember("billing", ["orders"])

    with pytest.raises(Refused, match=r"group 'billing': INCONSISTENT_GROUP_PROTOCOL.*assignor 'range'"):
        member.take_join(JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    with pytest.raises(Refused, match="group 'billing': GROUP_MAX_SIZE_REACHED"):
        member.take_join(JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))


def test_a_leader_shares_out_anew_when_a_topic_has_grown_and_a_follower_leaves_that_to_it() -> None:
    leader, follower = a_stable_member(leads=True), a_stable_member()

    leader.notice_partitions({"orders": 3})
    assert leader.phase is Phase.STABLE
    leader.notice_partitions({"orders": 4})
    follower.notice_partitions({"orders": 4})

    assert (leader.phase, follower.phase) == (Phase.OUTSIDE, Phase.STABLE)


def test_only_a_member_that_is_known_says_farewell() -> None:
    request = a_stable_member().leave_request()

    assert request is not None
    assert [entry.member_id for entry in request.members] == ["me"]
    assert GroupMember("billing", ["orders"]).leave_request() is None


def test_ranges_give_the_first_members_one_more_and_only_topics_they_want() -> None:
    wants = {"b": ["x", "y"], "a": ["x"], "c": ["x"]}

    shares = assign_ranges(wants, {"x": 7, "y": 2})

    assert {member: [str(place) for place in places] for member, places in shares.items()} == {
        "a": ["x-0", "x-1", "x-2"],
        "b": ["x-3", "x-4", "y-0", "y-1"],
        "c": ["x-5", "x-6"],
    }


def test_a_topic_that_does_not_exist_is_nobodys_and_idle_members_have_an_empty_share() -> None:
    assert assign_ranges({"a": ["x"], "b": ["x", "gone"]}, {"x": 1}) == {
        "a": [TopicPartition("x", 0)],
        "b": [],
    }

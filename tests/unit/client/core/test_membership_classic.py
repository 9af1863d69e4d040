"""The rules of the classic protocol, one by one (C2-C4)."""

from typing import Any

import pytest

from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.group.classic_requests import for_version
from everlog.client.core.group.membership_classic import ClassicMember, Phase
from everlog.client.core.group.membership_steps import Advice, Change, Describe, Rest, Send
from everlog.client.core.group.subscription import read_assignment, read_subscription, write_assignment
from everlog.client.core.metadata import ClusterView, Partition, Topic
from everlog.client.core.settings import read_settings
from everlog.model.errors import ConfigError, ErrorCode, Refused
from everlog.model.ids import NO_UUID, Instant
from everlog.model.topics import TopicPartition
from everlog.wire.codec import encode_request
from everlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from everlog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from everlog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from everlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

NOON = Instant(43_200_000)
EAGER: dict[str, Any] = {"partition_assignment_strategy": "range"}
COOPERATIVE: dict[str, Any] = {"partition_assignment_strategy": "cooperative-sticky"}


def places(*indexes: int) -> list[TopicPartition]:
    return [TopicPartition("t", index) for index in indexes]


def a_view(count: int) -> ClusterView:
    partitions = {index: Partition(index, 1, 0, (1,), (1,)) for index in range(count)}
    return ClusterView(topics={"t": Topic("t", NO_UUID, False, partitions)})


def a_member(**options: Any) -> ClassicMember:
    member = ClassicMember(read_settings(ConsumerSettings, {"group_id": "g", **options}))
    member.subscribe(["t"])
    return member


def sent(member: ClassicMember, now: Instant = NOON) -> Any:
    step = member.step(now)
    assert isinstance(step, Send), step
    return step.request


def joined(**given: Any) -> JoinGroupResponse:
    answer: dict[str, Any] = {
        "generation_id": 1,
        "protocol_name": "range",
        "leader": "other",
        "member_id": "me",
        **given,
    }
    return JoinGroupResponse(**answer)


def poll(member: ClassicMember) -> list[tuple[Change, list[TopicPartition]]]:
    """Let the application hear of everything."""
    heard: list[tuple[Change, list[TopicPartition]]] = []
    while (tell := member.to_tell()) is not None:
        heard.append((tell.change, list(tell.places)))
        member.told(tell)
    return heard


def become_stable(member: ClassicMember, *indexes: int, **given: Any) -> list[Any]:
    """A generation in which another leads and we get these partitions."""
    assert isinstance(sent(member), JoinGroupRequest)
    member.take(joined(**given), NOON)
    assert isinstance(sent(member), SyncGroupRequest)
    member.take(SyncGroupResponse(assignment=write_assignment(places(*indexes))), NOON)
    return poll(member)


def stable(*indexes: int, **options: Any) -> ClassicMember:
    member = a_member(**{**EAGER, **options})
    name = member.step(NOON).request.protocols[0].name  # type: ignore[union-attr]
    become_stable(member, *indexes, protocol_name=name)
    return member


def heard(member: ClassicMember, code: ErrorCode, after_ms: int = 3_000) -> Advice:
    """One heartbeat and its answer."""
    now = Instant(NOON + after_ms)
    assert isinstance(sent(member, now), HeartbeatRequest)
    return member.take(HeartbeatResponse(error_code=code), now)


def test_a_newcomer_joins_again_with_the_id_it_is_given() -> None:
    member = a_member()

    assert sent(member).member_id == ""
    member.take(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me"), NOON)

    assert sent(member).member_id == "me"


def test_a_follower_gets_what_the_leader_says_and_then_beats() -> None:
    member = a_member(**EAGER)

    assert become_stable(member, 0, 2) == [(Change.ASSIGNED, places(0, 2))]

    assert member.owned == frozenset(places(0, 2))
    assert member.step(NOON) == Rest(Instant(NOON + 3_000))
    beat = sent(member, Instant(NOON + 3_000))
    assert (beat.generation_id, beat.member_id) == (1, "me")


def test_the_leader_shares_out_what_there_is() -> None:
    member = a_member(**EAGER)
    request = sent(member)
    members = [
        JoinGroupResponseMember(member_id=name, metadata=request.protocols[0].metadata)
        for name in ("me", "you")
    ]
    member.take(joined(leader="me", members=members), NOON)

    assert member.step(NOON) == Describe(topics=["t"])
    member.described(a_view(3))

    shares = {one.member_id: list(read_assignment(one.assignment)) for one in sent(member).assignments}
    assert shares == {"me": places(0, 1), "you": places(2)}


def test_a_leader_joins_again_when_topics_grow_and_a_follower_does_not() -> None:
    leader = a_member(**EAGER)
    metadata = sent(leader).protocols[0].metadata
    members = [JoinGroupResponseMember(member_id="me", metadata=metadata)]
    leader.take(joined(leader="me", members=members), NOON)
    leader.step(NOON)
    leader.described(a_view(1))
    sent(leader)
    leader.take(SyncGroupResponse(assignment=write_assignment(places(0))), NOON)
    poll(leader)
    follower = stable(0)

    for member in (leader, follower):
        member.described(a_view(1))
        assert isinstance(member.step(NOON), Rest)
        member.described(a_view(2))
        member.step(NOON)

    assert leader.phase is Phase.PREPARING
    assert follower.phase is Phase.STABLE


def test_an_eager_member_gives_up_everything_before_it_joins_again() -> None:
    member = stable(0, 1)

    heard(member, ErrorCode.REBALANCE_IN_PROGRESS)

    # It is a member still, and says so while the application is busy.
    assert isinstance(member.step(NOON), Rest)
    assert isinstance(sent(member, Instant(NOON + 9_000)), HeartbeatRequest)
    assert poll(member) == [(Change.REVOKED, places(0, 1))]
    again = sent(member)
    assert isinstance(again, JoinGroupRequest)
    assert read_subscription(again.protocols[0].metadata).owned == ()


def test_a_cooperative_member_keeps_what_it_has_and_says_so() -> None:
    member = stable(0, 1, **COOPERATIVE)

    heard(member, ErrorCode.REBALANCE_IN_PROGRESS)

    assert poll(member) == []
    said = read_subscription(sent(member).protocols[0].metadata)
    assert (list(said.owned), said.generation) == (places(0, 1), 1)
    assert member.owned == frozenset(places(0, 1))


def test_a_cooperative_member_that_gave_up_something_joins_again() -> None:
    member = stable(0, 1, **COOPERATIVE)
    heard(member, ErrorCode.REBALANCE_IN_PROGRESS)

    told = become_stable(member, 0, 2, protocol_name="cooperative-sticky", generation_id=2)

    assert told == [(Change.REVOKED, places(1)), (Change.ASSIGNED, places(2))]
    assert list(read_subscription(sent(member).protocols[0].metadata).owned) == places(0, 2)


def test_a_cooperative_member_that_gave_up_nothing_rests() -> None:
    member = stable(0, **COOPERATIVE)
    heard(member, ErrorCode.REBALANCE_IN_PROGRESS)

    assert become_stable(member, 0, 2, protocol_name="cooperative-sticky") == [(Change.ASSIGNED, places(2))]
    assert isinstance(member.step(NOON), Rest)


def test_a_cooperative_member_gives_up_a_topic_that_it_does_not_want_before_it_joins() -> None:
    member = stable(0, **COOPERATIVE)

    member.subscribe(["u"])
    member.step(NOON)

    assert poll(member) == [(Change.REVOKED, places(0))]
    assert read_subscription(sent(member).protocols[0].metadata).topics == ("u",)


def test_with_a_choice_of_assignors_members_are_eager() -> None:
    member = stable(0, partition_assignment_strategy=("range", "cooperative-sticky"))

    heard(member, ErrorCode.REBALANCE_IN_PROGRESS)

    assert poll(member) == [(Change.REVOKED, places(0))]
    assert [one.name for one in sent(member).protocols] == ["range", "cooperative-sticky"]


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")]
)
@pytest.mark.parametrize("options", [EAGER, COOPERATIVE])
def test_what_a_forgotten_member_has_is_lost(
    code: ErrorCode, member_id: str, options: dict[str, Any]
) -> None:
    member = stable(0, 1, **options)

    heard(member, code)

    assert member.metadata.generation == -1, "nothing can be committed for a generation that has passed"
    assert poll(member) == [(Change.LOST, places(0, 1))]
    again = sent(member)
    assert again.member_id == member_id
    assert read_subscription(again.protocols[0].metadata).owned == ()


def test_partitions_are_lost_even_while_the_application_gives_them_up() -> None:
    member = stable(0, 1)
    heard(member, ErrorCode.REBALANCE_IN_PROGRESS)
    revoked = member.to_tell()
    assert revoked is not None

    heard(member, ErrorCode.UNKNOWN_MEMBER_ID, 9_000)
    assert isinstance(member.step(NOON), Rest), "joins only when the application is done"
    member.told(revoked)

    assert poll(member) == []
    assert become_stable(member, 1) == [(Change.ASSIGNED, places(1))]


def test_a_refused_commit_tells_of_a_rebalance_too() -> None:
    member = stable(0)

    member.take_refusal(ErrorCode.UNKNOWN_MEMBER_ID)

    assert poll(member) == [(Change.LOST, places(0))]


def test_a_commit_refused_for_its_offset_says_nothing_about_the_member() -> None:
    member = stable(0)

    member.take_refusal(ErrorCode.OFFSET_METADATA_TOO_LARGE)

    assert member.phase is Phase.STABLE


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Advice.WAIT),
        (ErrorCode.NOT_COORDINATOR, Advice.FIND),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Advice.FIND),
    ],
)
def test_a_coordinator_that_moves_costs_nothing(code: ErrorCode, advice: Advice) -> None:
    member = stable(0)

    assert heard(member, code) is advice
    assert poll(member) == []
    assert member.owned == frozenset(places(0))


def test_a_static_member_that_was_replaced_hears_of_it() -> None:
    member = stable(0, group_instance_id="one")

    with pytest.raises(Refused, match="instance id 'one'") as refused:
        heard(member, ErrorCode.FENCED_INSTANCE_ID)

    assert refused.value.code is ErrorCode.FENCED_INSTANCE_ID
    assert poll(member) == [(Change.LOST, places(0))]


def test_a_member_that_shares_no_assignor_hears_of_it() -> None:
    member = a_member(**EAGER)
    sent(member)

    with pytest.raises(Refused, match="assignors 'range'"):
        member.take(JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL), NOON)


def test_a_member_leaves_when_it_has_given_up_what_it_has() -> None:
    member = stable(0)

    member.leave()
    assert isinstance(member.step(NOON), Rest)
    assert poll(member) == [(Change.REVOKED, places(0))]

    request = sent(member)
    assert [one.member_id for one in request.members] == ["me"]
    member.take(LeaveGroupResponse(), NOON)
    assert member.is_gone


def test_a_static_member_goes_without_a_word() -> None:
    member = stable(0, group_instance_id="one")

    member.leave()
    poll(member)

    assert member.step(NOON) == Rest(None)
    assert member.is_gone


def test_a_member_whose_application_does_not_poll_leaves_and_comes_back() -> None:
    member = stable(0)

    member.step_aside()
    assert isinstance(sent(member), LeaveGroupRequest)
    member.take(LeaveGroupResponse(), NOON)
    assert member.step(NOON) == Rest(None)
    member.come_back()

    assert poll(member) == [(Change.LOST, places(0))]
    assert sent(member).member_id == ""


def test_a_member_that_comes_back_while_it_leaves_joins() -> None:
    member = stable(0)
    member.step_aside()
    sent(member)

    member.come_back()
    member.take(LeaveGroupResponse(), NOON)

    assert poll(member) == [(Change.LOST, places(0))]
    assert sent(member).member_id == ""


def test_a_subscription_that_changes_while_joining_is_joined_with_next() -> None:
    member = a_member(**EAGER)
    sent(member)
    member.subscribe(["t", "u"])

    member.take(joined(), NOON)
    sent(member)
    member.take(SyncGroupResponse(assignment=write_assignment(places(0))), NOON)

    assert poll(member) == []
    assert read_subscription(sent(member).protocols[0].metadata).topics == ("t", "u")


def test_a_rebalance_during_sync_begins_again_with_a_join() -> None:
    member = a_member(**EAGER)
    sent(member)
    member.take(joined(), NOON)
    sent(member)

    member.take(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), NOON)

    assert isinstance(sent(member), JoinGroupRequest)


def test_a_static_leader_that_came_back_shares_nothing_out_and_watches_from_then_on() -> None:
    member = a_member(**EAGER)
    metadata = sent(member).protocols[0].metadata
    members = [JoinGroupResponseMember(member_id="me", metadata=metadata)]
    member.take(joined(leader="me", skip_assignment=True, members=members), NOON)
    assert sent(member).assignments == []
    member.take(SyncGroupResponse(assignment=write_assignment(places(0))), NOON)
    poll(member)

    member.described(a_view(1))
    assert isinstance(member.step(NOON), Rest)
    member.described(a_view(2))
    member.step(NOON)

    assert member.phase is Phase.PREPARING


def test_the_sticky_assignor_hears_what_a_member_had() -> None:
    member = stable(0, 1, partition_assignment_strategy="sticky")
    heard(member, ErrorCode.REBALANCE_IN_PROGRESS)
    poll(member)

    said = read_subscription(sent(member).protocols[0].metadata)

    assert said.user_data == bytes.fromhex("0000000100017400000002000000000000000100000001")


def test_every_request_fits_every_version() -> None:
    member = a_member(**EAGER, client_rack="r")
    join = sent(member)
    member.take(joined(), NOON)
    sync = sent(member)
    member.take(SyncGroupResponse(assignment=write_assignment(places(0))), NOON)
    poll(member)
    beat = sent(member, Instant(NOON + 9_000))
    member.leave()
    poll(member)
    leave = sent(member)

    for request, newest in ((join, 9), (sync, 5), (beat, 4), (leave, 5)):
        for version in range(newest + 1):
            assert encode_request(for_version(request, version), version, 1, "c")


@pytest.mark.parametrize("given", ["no-such", ("range", "range"), (), 7])
def test_a_wrong_assignor_is_refused_by_name(given: Any) -> None:
    with pytest.raises(ConfigError, match="partition_assignment_strategy"):
        a_member(partition_assignment_strategy=given)

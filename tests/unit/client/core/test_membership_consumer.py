"""The rules of the consumer protocol, one by one (C2-C4)."""

from typing import Any

import pytest

from everlog.client.core.consumer.settings import ConsumerSettings
from everlog.client.core.group.membership_consumer import ConsumerMember
from everlog.client.core.group.membership_steps import Advice, Change, Describe, Rest, Send
from everlog.client.core.metadata import ClusterView, Topic
from everlog.client.core.settings import read_settings
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Instant, Uuid
from everlog.model.topics import TopicPartition
from everlog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

NOON = Instant(43_200_000)
T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)
VIEW = ClusterView(topics={"t": Topic("t", T, False, {}), "u": Topic("u", U, False, {})})


def places(*indexes: int, topic: str = "t") -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indexes]


def a_member(**options: Any) -> ConsumerMember:
    given = {"group_id": "g", "group_protocol": "consumer", **options}
    member = ConsumerMember(read_settings(ConsumerSettings, given), "me")
    member.subscribe(["t"])
    return member


def sent(member: ConsumerMember, now: Instant = NOON) -> ConsumerGroupHeartbeatRequest:
    step = member.step(now)
    assert isinstance(step, Send), step
    assert isinstance(step.request, ConsumerGroupHeartbeatRequest)
    return step.request


def answer(
    epoch: int, *indexes: int, changed: bool = True, topic: Uuid = T
) -> ConsumerGroupHeartbeatResponse:
    given = [TopicPartitions(topic_id=topic, partitions=list(indexes))] if indexes else []
    return ConsumerGroupHeartbeatResponse(
        member_id="me",
        member_epoch=epoch,
        heartbeat_interval_ms=5_000,
        assignment=Assignment(topic_partitions=given) if changed else None,
    )


def refused(code: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


def poll(member: ConsumerMember) -> list[tuple[Change, list[TopicPartition]]]:
    heard: list[tuple[Change, list[TopicPartition]]] = []
    while (tell := member.to_tell()) is not None:
        heard.append((tell.change, list(tell.places)))
        member.told(tell)
    return heard


def owned(request: ConsumerGroupHeartbeatRequest) -> list[int] | None:
    if request.topic_partitions is None:
        return None
    return [index for topic in request.topic_partitions for index in topic.partitions]


def settled(*indexes: int, **options: Any) -> ConsumerMember:
    member = a_member(**options)
    member.described(VIEW)
    sent(member)
    member.take(answer(1, *indexes), NOON)
    poll(member)
    assert owned(sent(member)) == list(indexes)
    member.take(answer(1, changed=False), NOON)
    return member


def test_the_first_heartbeat_says_everything_and_the_next_nothing_but_that_we_live() -> None:
    member = a_member(group_remote_assignor="range", client_rack="r", max_poll_interval_ms=7_000)

    first = sent(member)
    assert (first.member_epoch, first.member_id, first.subscribed_topic_names) == (0, "me", ["t"])
    assert (first.server_assignor, first.rack_id, first.rebalance_timeout_ms) == ("range", "r", 7_000)
    assert owned(first) == []
    member.take(answer(1, changed=False), NOON)

    assert member.step(NOON) == Rest(Instant(NOON + 5_000))
    beat = sent(member, Instant(NOON + 5_000))
    assert (beat.member_epoch, beat.subscribed_topic_names, owned(beat)) == (1, None, None)
    assert (beat.server_assignor, beat.rebalance_timeout_ms) == (None, -1)


def test_a_topic_that_is_not_known_by_its_id_is_asked_for() -> None:
    member = a_member()
    sent(member)
    member.take(answer(1, 0), NOON)

    assert poll(member) == [(Change.ASSIGNED, [])]
    assert member.step(NOON) == Describe(topic_ids=[T])
    member.described(VIEW)

    assert poll(member) == [(Change.ASSIGNED, places(0))]
    assert owned(sent(member)) == [0]


def test_what_moves_is_given_up_first_and_then_acknowledged_at_once() -> None:
    member = settled(0, 1)

    sent(member, Instant(NOON + 5_000))
    member.take(answer(2, 1, 2), NOON)
    revoked = member.to_tell()
    assert revoked is not None
    assert (revoked.change, list(revoked.places)) == (Change.REVOKED, places(0))
    # While the application gives it up we live, and still have it.
    assert owned(sent(member, Instant(NOON + 9_000))) is None
    member.told(revoked)
    assert isinstance(member.step(NOON), Rest), "not before the application has taken what is new"

    assert poll(member) == [(Change.ASSIGNED, places(2))]
    acknowledged = sent(member)
    assert (acknowledged.member_epoch, owned(acknowledged)) == (2, [1, 2])


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_a_fenced_member_has_lost_what_it_has_and_joins_anew(code: ErrorCode) -> None:
    member = settled(0, 1)
    sent(member, Instant(NOON + 5_000))

    assert member.take(refused(code), NOON) is Advice.GO_ON

    assert member.step(NOON) == Rest(None)
    assert poll(member) == [(Change.LOST, places(0, 1))]
    again = sent(member)
    assert (again.member_epoch, owned(again), again.subscribed_topic_names) == (0, [], ["t"])


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ],
)
def test_what_cannot_be_helped_is_told_in_the_words_of_the_broker(code: ErrorCode) -> None:
    member = a_member()
    sent(member)

    with pytest.raises(Refused, match="because") as problem:
        member.take(refused(code, "because"), NOON)

    assert problem.value.code is code


def test_after_a_lost_answer_everything_is_said_again() -> None:
    member = settled(0)
    sent(member, Instant(NOON + 5_000))

    member.failed(NOON)

    again = sent(member, Instant(NOON + 9_000))
    assert (again.member_epoch, owned(again), again.subscribed_topic_names) == (1, [0], ["t"])


def test_what_may_be_taken_while_a_heartbeat_is_under_way_is_not_said_to_be_free() -> None:
    member = settled(0)
    sent(member, Instant(NOON + 5_000))
    member.take(answer(2, 0, 1), NOON)
    member.failed(NOON)

    under_way = sent(member, Instant(NOON + 9_000))
    assert poll(member) == [(Change.ASSIGNED, places(1))]

    assert owned(under_way) == [0, 1]


def test_what_the_application_is_being_given_is_not_free_although_it_is_to_go_again() -> None:
    member = settled(0)
    sent(member, Instant(NOON + 5_000))
    member.take(answer(2, 0, 1), NOON)
    tell = member.to_tell()
    sent(member, Instant(NOON + 9_000))
    member.take(answer(2, 0), NOON)
    member.failed(NOON)

    assert owned(sent(member, Instant(NOON + 19_000))) == [0, 1]

    assert tell is not None
    member.told(tell)
    assert poll(member) == [(Change.REVOKED, places(1)), (Change.ASSIGNED, [])]
    assert owned(sent(member, Instant(NOON + 29_000))) == [0]


def test_what_has_no_name_yet_is_not_said_to_be_free() -> None:
    member = settled(0)
    sent(member, Instant(NOON + 5_000))
    member.take(answer(2, 4, topic=Uuid(b"v" * 16)), NOON)
    member.described(ClusterView())
    assert poll(member) == [(Change.REVOKED, places(0)), (Change.ASSIGNED, [])]

    assert owned(sent(member)) == [4]


def test_a_new_subscription_is_said_at_once() -> None:
    member = settled(0)

    member.subscribe(["u"])

    assert sent(member).subscribed_topic_names == ["u"]
    member.take(answer(2, changed=False), NOON)
    assert isinstance(member.step(NOON), Rest)


def test_a_pattern_goes_to_the_broker() -> None:
    member = a_member()
    member.subscribe((), "t.*")

    request = sent(member)

    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([], "t.*")


def test_a_topic_made_anew_under_the_same_name_is_another() -> None:
    member = settled(0)
    anew = Uuid(b"v" * 16)
    sent(member, Instant(NOON + 5_000))
    member.take(answer(2, 0, topic=anew), NOON)
    member.described(ClusterView(topics={"t": Topic("t", anew, False, {})}))

    assert poll(member) == [(Change.REVOKED, places(0)), (Change.ASSIGNED, places(0))]


@pytest.mark.parametrize(("options", "epoch"), [({}, -1), ({"group_instance_id": "one"}, -2)])
def test_a_member_leaves_when_it_has_given_up_what_it_has(options: dict[str, Any], epoch: int) -> None:
    member = settled(0, **options)

    member.leave()
    assert isinstance(member.step(NOON), Rest)
    assert poll(member) == [(Change.REVOKED, places(0))]

    assert sent(member).member_epoch == epoch
    member.take(ConsumerGroupHeartbeatResponse(member_epoch=epoch), NOON)
    assert member.is_gone


def test_a_member_whose_application_does_not_poll_leaves_and_comes_back() -> None:
    member = settled(0)

    member.step_aside()
    assert sent(member).member_epoch == -1
    member.take(ConsumerGroupHeartbeatResponse(member_epoch=-1), NOON)
    assert member.step(NOON) == Rest(None)
    member.come_back()

    assert poll(member) == [(Change.LOST, places(0))]
    assert sent(member).member_epoch == 0


def test_a_refused_commit_may_tell_that_the_member_is_none_any_more() -> None:
    member = settled(0)

    member.take_refusal(ErrorCode.STALE_MEMBER_EPOCH)
    assert poll(member) == []
    member.take_refusal(ErrorCode.UNKNOWN_MEMBER_ID)

    assert poll(member) == [(Change.LOST, places(0))]


def test_a_fenced_member_that_leaves_says_nothing_before_the_application_knows() -> None:
    member = settled(0)
    sent(member, Instant(NOON + 5_000))
    member.take(refused(ErrorCode.UNKNOWN_MEMBER_ID), NOON)

    member.leave()

    assert member.step(Instant(NOON + 99_000)) == Rest(None)
    assert poll(member) == [(Change.LOST, places(0))]
    assert sent(member).member_epoch == -1


def test_a_member_joins_with_nothing_even_if_the_application_has_not_heard_yet() -> None:
    member = settled(0)
    member.step_aside()
    sent(member)
    member.take(ConsumerGroupHeartbeatResponse(member_epoch=-1), NOON)
    member.leave()

    member.subscribe(["u"])

    assert member.step(NOON) == Rest(None)
    assert poll(member) == [(Change.LOST, places(0))]
    assert owned(sent(member)) == []

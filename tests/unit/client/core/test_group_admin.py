"""Groups of both protocols become one description; errors say what is wrong in words (C2)."""

import pytest

from everlog.client.core.admin.groups import (
    read_classic_group,
    read_consumer_group,
    read_group_deleted,
    read_listed,
)
from everlog.client.core.coordinators import CoordinatorKind, read_coordinator
from everlog.client.core.group.subscription import write_assignment, write_subscription
from everlog.client.core.metadata import Broker
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeResponse,
    Member,
    TopicPartitions,
)
from everlog.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from everlog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from everlog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from everlog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from everlog.wire.messages.list_groups import ListGroupsResponse

BROKER = Broker(1, "host-1", 9092)
ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def a_classic_answer(**fields: object) -> DescribeGroupsResponse:
    group = DescribedGroup(group_id="billing", group_state="Stable", protocol_type="consumer")
    for name, value in fields.items():
        setattr(group, name, value)
    return DescribeGroupsResponse(groups=[group])


def a_classic_member() -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id="m-1",
        client_id="c",
        client_host="/10.0.0.1",
        member_metadata=write_subscription(["orders"]),
        member_assignment=write_assignment([ONE, ZERO]),
    )


def test_a_classic_group_is_described_with_what_its_members_read() -> None:
    answer = a_classic_answer(members=[a_classic_member()], protocol_data="range")

    group = read_classic_group(answer, "billing", BROKER)

    assert (group.type, group.state, group.assignor, group.coordinator) == (
        "classic",
        "Stable",
        "range",
        BROKER,
    )
    (member,) = group.members
    assert (member.topics, member.assignment, member.target) == (("orders",), (ZERO, ONE), None)
    assert group.is_active


def test_members_of_a_group_that_does_not_consume_have_no_partitions() -> None:
    answer = a_classic_answer(members=[a_classic_member()], protocol_type="connect")

    (member,) = read_classic_group(answer, "billing", BROKER).members

    assert (member.topics, member.assignment) == ((), ())


@pytest.mark.parametrize(
    "fields",
    [
        {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": "Group billing not found."},
        {"group_state": "Dead"},
    ],
    ids=["version 6", "version 5"],
)
def test_a_group_that_nobody_knows_is_refused_whatever_version_tells_of_it(fields: dict[str, object]) -> None:
    with pytest.raises(Refused, match=r"^group 'billing': GROUP_ID_NOT_FOUND: no such group$") as caught:
        read_classic_group(a_classic_answer(**fields), "billing", BROKER)

    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_group_is_not_active() -> None:
    assert not read_classic_group(a_classic_answer(group_state="Empty"), "billing", BROKER).is_active


def test_a_kip_848_group_is_described_with_epochs_and_targets() -> None:
    def some(*partitions: int) -> Assignment:
        return Assignment(
            topic_partitions=[TopicPartitions(topic_name="orders", partitions=list(partitions))]
        )

    member = Member(
        member_id="m", member_epoch=4, assignment=some(1), target_assignment=some(1, 0), client_id="c"
    )
    described = ConsumerGroup(
        group_id="billing",
        group_state="Reconciling",
        group_epoch=5,
        assignment_epoch=5,
        assignor_name="uniform",
        members=[member],
    )

    group = read_consumer_group(ConsumerGroupDescribeResponse(groups=[described]), "billing", BROKER)

    assert group is not None
    assert (group.type, group.epoch, group.assignment_epoch, group.assignor) == ("consumer", 5, 5, "uniform")
    assert (group.members[0].epoch, group.members[0].assignment) == (4, (ONE,))
    assert group.members[0].target == (ZERO, ONE)


def test_a_group_that_is_none_of_kip_848_is_left_to_the_other_api() -> None:
    unknown = ConsumerGroup(group_id="billing", error_code=ErrorCode.GROUP_ID_NOT_FOUND)

    assert read_consumer_group(ConsumerGroupDescribeResponse(groups=[unknown]), "billing", BROKER) is None


def test_a_group_that_may_not_be_seen_is_not_taken_for_a_classic_one() -> None:
    hidden = ConsumerGroup(group_id="billing", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    with pytest.raises(Refused, match="GROUP_AUTHORIZATION_FAILED"):
        read_consumer_group(ConsumerGroupDescribeResponse(groups=[hidden]), "billing", BROKER)


def test_a_broker_that_cannot_list_is_an_error_and_no_empty_list() -> None:
    answer = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    with pytest.raises(Refused, match="groups of broker 3: COORDINATOR_LOAD_IN_PROGRESS"):
        read_listed(answer, 3)


def test_deleting_a_group_with_members_says_to_stop_them() -> None:
    result = DeletableGroupResult(group_id="billing", error_code=ErrorCode.NON_EMPTY_GROUP)

    done = read_group_deleted(DeleteGroupsResponse(results=[result]), "billing")

    assert str(done) == ("group 'billing': NON_EMPTY_GROUP: it has members, expected none: stop them first")


def test_a_group_that_an_answer_leaves_out_was_not_deleted() -> None:
    assert read_group_deleted(DeleteGroupsResponse(), "billing") is not None


def test_a_coordinator_is_read_by_its_key_and_its_error_names_it() -> None:
    found = Coordinator(key="billing", node_id=2, host="host-2", port=9093)
    absent = Coordinator(key="audit", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=None)
    answer = FindCoordinatorResponse(coordinators=[found, absent])

    assert read_coordinator(answer, CoordinatorKind.GROUP, "billing") == Broker(2, "host-2", 9093)
    with pytest.raises(Refused, match="group 'audit': COORDINATOR_NOT_AVAILABLE"):
        read_coordinator(answer, CoordinatorKind.GROUP, "audit")
    with pytest.raises(Refused, match=r"transactional id 'other'.*does not name it"):
        read_coordinator(answer, CoordinatorKind.TRANSACTION, "other")

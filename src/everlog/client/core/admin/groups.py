"""Groups as an administrator sees them: listed, described, deleted (C2, C8).

A group follows the classic protocol, where clients assign partitions among themselves, or the one of KIP-848,
where the coordinator does. Each is described by an API of its own; here both become one Group.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from everlog.client.core.admin.outcomes import outcome
from everlog.client.core.errors import refusal
from everlog.client.core.group.subscription import read_assignment, read_subscription
from everlog.client.core.metadata import Broker
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from everlog.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from everlog.wire.messages.consumer_group_describe import Member as ConsumerMember
from everlog.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from everlog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from everlog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from everlog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

CONSUMER_PROTOCOL = "consumer"
"""The `protocol_type` of groups that consume; others, such as Kafka Connect's, assign their own things."""

STATES = (
    "Empty",
    "Assigning",
    "Reconciling",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
)
TYPES = ("classic", "consumer", "share", "streams")

_MEANINGS = {
    ErrorCode.GROUP_ID_NOT_FOUND: "no such group",
    ErrorCode.NON_EMPTY_GROUP: "it has members, expected none: stop them first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "its members subscribe to the topic, expected none: stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "it has members, expected none: stop them first",
    ErrorCode.INVALID_GROUP_ID: "expected a name that is not empty",
}


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One line of the list of groups; `state` and `type` are empty where the broker is too old to tell."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member of a group, and what it has been given to read."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    rack: str | None = None
    epoch: int | None = None
    """The epoch of KIP-848; None in a classic group, where all members share a generation."""
    topics: Sequence[str] = ()
    regex: str | None = None
    assignment: Sequence[TopicPartition] = ()
    target: Sequence[TopicPartition] | None = None
    """What a member of a KIP-848 group shall have once all others have let go; None in a classic group."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group described."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Broker
    members: Sequence[GroupMember] = ()
    epoch: int | None = None
    assignment_epoch: int | None = None

    @property
    def is_active(self) -> bool:
        """Whether members may be reading and committing, so that its offsets must be left alone."""
        return self.state not in ("Empty", "Dead") or bool(self.members)


def group_refusal(code: int, message: str | None, group_id: str, about: str = "") -> Refused:
    """The exception for an error about a group, in words where the broker has none."""
    meaning = next((text for known, text in _MEANINGS.items() if known == code), None)
    return refusal(code, meaning or message, f"group {group_id!r}{about}")


def list_groups_request(states: Iterable[str] = (), types: Iterable[str] = ()) -> ListGroupsRequest:
    """Ask a broker for the groups it looks after, all or some of them (KIP-518, KIP-848)."""
    return ListGroupsRequest(states_filter=list(states), types_filter=list(types))


def read_listed(response: ListGroupsResponse, coordinator: int) -> list[GroupListing]:
    """The groups of one broker; Refused if it could not list them."""
    if response.error_code != ErrorCode.NONE:
        raise refusal(response.error_code, None, f"groups of broker {coordinator}")
    return [
        GroupListing(entry.group_id, entry.protocol_type, entry.group_state, entry.group_type, coordinator)
        for entry in response.groups
    ]


def describe_consumer_group_request(group_id: str) -> ConsumerGroupDescribeRequest:
    """Ask for a group of KIP-848."""
    return ConsumerGroupDescribeRequest(group_ids=[group_id])


def read_consumer_group(
    response: ConsumerGroupDescribeResponse, group_id: str, coordinator: Broker
) -> Group | None:
    """The group described, or None if it is no KIP-848 group; Refused for any other error."""
    for group in response.groups:
        if group.group_id != group_id or group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            continue
        if group.error_code != ErrorCode.NONE:
            raise group_refusal(group.error_code, group.error_message, group_id)
        return _consumer_group(group, coordinator)
    return None


def describe_classic_group_request(group_id: str) -> DescribeGroupsRequest:
    """Ask for a group of the classic protocol."""
    return DescribeGroupsRequest(groups=[group_id])


def read_classic_group(response: DescribeGroupsResponse, group_id: str, coordinator: Broker) -> Group:
    """The group described; Refused if there is none.

    Before version 6 a broker describes a group that it does not know as dead and without members.
    """
    for group in response.groups:
        if group.group_id != group_id:
            continue
        if group.error_code != ErrorCode.NONE:
            raise group_refusal(group.error_code, group.error_message, group_id)
        if group.group_state == "Dead" and not group.members:
            break
        return _classic_group(group, coordinator)
    raise group_refusal(ErrorCode.GROUP_ID_NOT_FOUND, None, group_id)


def delete_group_request(group_id: str) -> DeleteGroupsRequest:
    """Ask for one group and all of its offsets to be deleted."""
    return DeleteGroupsRequest(groups_names=[group_id])


def read_group_deleted(response: DeleteGroupsResponse, group_id: str) -> Refused | None:
    """What became of the group; None if it is gone."""
    for result in response.results:
        if result.group_id == group_id:
            if result.error_code == ErrorCode.NONE:
                return None
            return group_refusal(result.error_code, result.error_message, group_id)
    return group_refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves it out", group_id)


def remove_members_request(group_id: str, members: Iterable[GroupMember], reason: str) -> LeaveGroupRequest:
    """Ask for members to be taken out of a group; static ones are named by their instance id (KIP-345)."""
    leaving = [
        MemberIdentity(
            member_id="" if member.instance_id else member.member_id,
            group_instance_id=member.instance_id,
            reason=reason,
        )
        for member in members
    ]
    return LeaveGroupRequest(group_id=group_id, members=leaving)


def read_members_removed(
    response: LeaveGroupResponse, group_id: str, members: Iterable[GroupMember]
) -> dict[str, Refused | None]:
    """What became of each member, by its instance id or else its member id; Refused if the group was."""
    if response.error_code != ErrorCode.NONE:
        raise group_refusal(response.error_code, None, group_id)
    codes = {entry.group_instance_id or entry.member_id: entry.error_code for entry in response.members}
    names = [member.instance_id or member.member_id for member in members]
    return {
        name: outcome(None, codes.get(name, ErrorCode.NONE), None, f"member {name!r} of group {group_id!r}")
        for name in names
    }


def _consumer_group(group: ConsumerGroup, coordinator: Broker) -> Group:
    return Group(
        group.group_id,
        "consumer",
        group.group_state,
        CONSUMER_PROTOCOL,
        group.assignor_name,
        coordinator,
        tuple(_consumer_member(member) for member in group.members),
        group.group_epoch,
        group.assignment_epoch,
    )


def _consumer_member(member: ConsumerMember) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.client_id,
        member.client_host,
        member.instance_id,
        member.rack_id,
        member.member_epoch,
        tuple(sorted(member.subscribed_topic_names)),
        member.subscribed_topic_regex or None,
        _places(member.assignment),
        _places(member.target_assignment),
    )


def _places(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )


def _classic_group(group: DescribedGroup, coordinator: Broker) -> Group:
    members = tuple(_classic_member(member, group.protocol_type) for member in group.members)
    return Group(
        group.group_id,
        "classic",
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        coordinator,
        members,
    )


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> GroupMember:
    consumes = protocol_type == CONSUMER_PROTOCOL
    return GroupMember(
        member.member_id,
        member.client_id,
        member.client_host,
        member.group_instance_id,
        topics=read_subscription(member.member_metadata).topics if consumes else (),
        assignment=read_assignment(member.member_assignment) if consumes else (),
    )

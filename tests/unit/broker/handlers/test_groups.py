"""ListGroups, DescribeGroups and DeleteGroups in all their versions (C2)."""

import pytest

from everlog.coordinator.group.group import DescribedGroup, DescribedMember
from everlog.model.errors import ErrorCode
from everlog.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from everlog.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from everlog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.unit.broker.group_calls import a_commit, commit, committed_offset, find_coordinator
from tests.unit.broker.handlers.nodes import SimNode
from tests.unit.coordinator.group.groups import MadeUpGroup


def a_node(*groups: str) -> SimNode:
    """A node on which these groups have committed offsets."""
    node = SimNode()
    node.create_topic("orders")
    find_coordinator(node)
    for group in groups:
        assert commit(node, a_commit(group, "orders", (0, 5))) == [0]
    return node


def put(node: SimNode, group: MadeUpGroup) -> None:
    node.broker.coordinators.group_shard(group.id).groups.put(group)


class Shown(MadeUpGroup):
    def describe(self) -> DescribedGroup:
        member = DescribedMember("m-1", "static", "client", "/192.0.2.7", b"subscription", b"assignment")
        return DescribedGroup("Stable", "consumer", "range", (member,))


class NotClassic(MadeUpGroup):
    def describe(self) -> None:
        return None


@pytest.mark.parametrize("version", range(6))
def test_every_version_lists_groups_of_all_partitions(version: int) -> None:
    node = a_node("a", "b", "c")
    put(node, MadeUpGroup("joined", members=("m",)))

    answer = node.ask(ListGroupsRequest(), version, ListGroupsResponse)

    found = sorted((one.group_id, one.protocol_type) for one in answer.groups)
    assert answer.error_code == 0
    assert found == [("a", ""), ("b", ""), ("c", ""), ("joined", "consumer")]
    states = {one.group_id: (one.group_state, one.group_type) for one in answer.groups}
    assert states["joined"] == ("Stable" if version >= 4 else "", "classic" if version >= 5 else "")
    assert states["a"] == ("Empty" if version >= 4 else "", "classic" if version >= 5 else "")


def test_groups_are_filtered_by_state_and_type_whatever_the_case() -> None:
    node = a_node("a")
    put(node, MadeUpGroup("joined", members=("m",)))
    newer = MadeUpGroup("newer", members=("m",))
    newer.type = "consumer"
    put(node, newer)

    def names(**filters: list[str]) -> list[str]:
        answer = node.ask(ListGroupsRequest(**filters), 5, ListGroupsResponse)
        return sorted(one.group_id for one in answer.groups)

    assert names(states_filter=["STABLE"]) == ["joined", "newer"]
    assert names(states_filter=["empty", "stable"]) == ["a", "joined", "newer"]
    assert names(types_filter=["Classic"]) == ["a", "joined"]
    assert names(types_filter=["consumer"], states_filter=["Empty"]) == []
    assert names(types_filter=["streams"]) == []


def test_nothing_is_listed_while_a_log_is_still_read() -> None:
    node = a_node("a", "b", "c")
    node.start()
    node.connect("PLAINTEXT")

    answer = node.ask(ListGroupsRequest(), 5, ListGroupsResponse)
    assert (answer.error_code, answer.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    node.pass_time(100)

    answer = node.ask(ListGroupsRequest(), 5, ListGroupsResponse)
    assert [one.group_id for one in answer.groups] == ["a", "b", "c"]


@pytest.mark.parametrize("version", range(7))
def test_every_version_describes_a_group_with_its_members(version: int) -> None:
    node = a_node()
    put(node, Shown("g", members=("m-1",)))

    (group,) = node.ask(DescribeGroupsRequest(groups=["g"]), version, DescribeGroupsResponse).groups

    assert (group.error_code, group.group_state) == (0, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == ("m-1", "client", "/192.0.2.7")
    assert (member.member_metadata, member.member_assignment) == (b"subscription", b"assignment")
    assert member.group_instance_id == ("static" if version >= 4 else None)


@pytest.mark.parametrize("version", [5, 6])
def test_a_group_that_is_not_there_is_dead_or_not_found_by_version(version: int) -> None:
    node = a_node("offsets-only")
    put(node, NotClassic("newer", members=("m",)))
    wanted = ["nobody", "newer", "offsets-only"]

    answer = node.ask(DescribeGroupsRequest(groups=wanted), version, DescribeGroupsResponse)

    missing = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0
    found = [(one.group_id, one.error_code, one.group_state) for one in answer.groups]
    assert found == [("nobody", missing, "Dead"), ("newer", missing, "Dead"), ("offsets-only", 0, "Empty")]
    assert (answer.groups[0].error_message is not None) == (version >= 6)


def test_what_may_be_done_with_a_group_is_told_if_asked() -> None:
    node = a_node("g")
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)

    asked = node.ask(request, 5, DescribeGroupsResponse).groups[0]
    not_asked = node.ask(DescribeGroupsRequest(groups=["g"]), 5, DescribeGroupsResponse).groups[0]

    read, delete, describe = 3, 6, 8
    for bit in (read, delete, describe):
        assert asked.authorized_operations >> bit & 1
    assert not_asked.authorized_operations == -(1 << 31)


@pytest.mark.parametrize("version", range(4))
def test_every_version_deletes_empty_groups_and_says_why_not_of_others(version: int) -> None:
    node = a_node("g", "kept")
    put(node, MadeUpGroup("kept", members=("m",)))
    request = DeleteGroupsRequest(groups_names=["g", "kept", "nobody", "g"])

    results = node.ask(request, version, DeleteGroupsResponse).results

    assert [(one.group_id, one.error_code) for one in results] == [
        ("g", 0),
        ("kept", ErrorCode.NON_EMPTY_GROUP),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert (results[1].error_message is not None) == (version >= 3)
    assert (committed_offset(node, "g", "orders"), committed_offset(node, "kept", "orders")) == (-1, 5)


def test_a_deleted_group_does_not_come_back_with_a_restart() -> None:
    node = a_node("g", "kept")
    node.ask(DeleteGroupsRequest(groups_names=["g"]), 2, DeleteGroupsResponse)

    node.start()
    node.connect("PLAINTEXT")
    node.pass_time(100)

    assert [one.group_id for one in node.ask(ListGroupsRequest(), 5, ListGroupsResponse).groups] == ["kept"]

"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in all their versions, on a whole node (C2, C3, C4)."""

import pytest

from everlog.coordinator.machine import Phase
from everlog.coordinator.partitions import OFFSETS_TOPIC, partition_for
from everlog.model.errors import ErrorCode
from everlog.sim.disk import SimFiles
from everlog.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from everlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from everlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from everlog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from everlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.unit.broker.group_calls import find_coordinator
from tests.unit.broker.handlers.nodes import SimNode

DELAY_MS = 3_000
SESSION_MS = 10_000


def a_node(files: SimFiles | None = None) -> SimNode:
    node = SimNode(files)
    find_coordinator(node)
    return node


def a_join(member_id: str = "", instance_id: str | None = None, group: str = "g") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"topics")],
    )


def a_sync(member_id: str, *assignments: tuple[str, bytes], version: int = 5) -> SyncGroupRequest:
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member_id,
        assignments=[
            SyncGroupRequestAssignment(member_id=to, assignment=assignment) for to, assignment in assignments
        ],
    )
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    return request


def joined(node: SimNode, version: int, **given: str) -> JoinGroupResponse:
    """The first generation of a group of one."""
    client = node.client()
    request = a_join(**given)
    if version >= 4 and not given:
        request.member_id = client.call(request, version, JoinGroupResponse).member_id
    client.ask(request, version)
    node.pass_time(DELAY_MS)
    return client.take(JoinGroupResponse)


def stable(node: SimNode) -> str:
    """A group of one with an assignment."""
    member_id = joined(node, 9).member_id
    answer = node.ask(a_sync(member_id, (member_id, b"all")), 5, SyncGroupResponse)
    assert (answer.error_code, answer.assignment) == (0, b"all")
    return member_id


def beat(node: SimNode, member_id: str, generation: int = 1, version: int = 4) -> int:
    request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    return node.ask(request, version, HeartbeatResponse).error_code


@pytest.mark.parametrize("version", range(10))
def test_every_version_joins_a_group(version: int) -> None:
    answer = joined(a_node(), version)

    assert answer.error_code == 0
    assert answer.generation_id == 1
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("test-"), "the client's name"
    assert answer.protocol_name == "range"
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert [(one.member_id, one.metadata) for one in answer.members] == [(answer.member_id, b"topics")]
    assert not answer.skip_assignment


@pytest.mark.parametrize("version", range(10))
def test_from_version_4_on_a_newcomer_is_given_an_id_first(version: int) -> None:
    node = a_node()
    client = node.client()

    client.ask(a_join(), version)

    if version < 4:
        assert client.frames == []
        return
    answer = client.take(JoinGroupResponse)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id
    assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", range(5, 10))
def test_from_version_5_on_static_members_join_at_once_and_come_back(version: int) -> None:
    node = a_node()
    first = joined(node, version, instance_id="i")
    assert [one.group_instance_id for one in first.members] == ["i"]
    sync = a_sync(first.member_id, (first.member_id, b"all"))
    sync.group_instance_id = "i"
    assert node.ask(sync, 5, SyncGroupResponse).error_code == 0

    back = node.ask(a_join(instance_id="i"), version, JoinGroupResponse)

    assert (back.error_code, back.generation_id) == (0, 1)
    assert back.member_id != first.member_id
    assert back.skip_assignment == (version >= 9)
    assert back.leader == (back.member_id if version >= 9 else first.member_id)
    assert node.ask(sync, 5, SyncGroupResponse).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_version_0_takes_the_session_time_out_for_a_rebalance_too() -> None:
    node = a_node()
    joined(node, 0)

    (group,) = node.broker.coordinators.group_shard("g").classic.groups()

    assert [one.rebalance_timeout_ms for one in group.members] == [SESSION_MS]


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_sync_gives_the_assignment(version: int) -> None:
    node = a_node()
    member_id = joined(node, 9).member_id

    answer = node.ask(a_sync(member_id, (member_id, b"all"), version=version), version, SyncGroupResponse)

    assert (answer.error_code, answer.assignment) == (0, b"all")
    named = ("consumer", "range") if version >= 5 else (None, None)
    assert (answer.protocol_type, answer.protocol_name) == named


def test_version_5_of_sync_has_to_name_the_protocol() -> None:
    node = a_node()
    member_id = joined(node, 9).member_id

    answer = node.ask(a_sync(member_id, version=4), 5, SyncGroupResponse)

    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_heartbeat_tells_who_is_alive(version: int) -> None:
    node = a_node()
    member_id = stable(node)

    assert beat(node, member_id, version=version) == 0
    assert beat(node, "stranger", version=version) == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(node, member_id, 2, version=version) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_leave_lets_a_member_go(version: int) -> None:
    node = a_node()
    member_id = stable(node)

    def leave() -> LeaveGroupResponse:
        request = LeaveGroupRequest(group_id="g")
        if version < 3:
            request.member_id = member_id
        else:
            request.members = [MemberIdentity(member_id=member_id)]
        return node.ask(request, version, LeaveGroupResponse)

    left, again = leave(), leave()

    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    if version < 3:
        assert (left.error_code, again.error_code) == (0, unknown)
    else:
        assert [left.error_code, again.error_code] == [0, 0]
        answers = [(one.member_id, one.error_code) for one in (*left.members, *again.members)]
        assert answers == [(member_id, 0), (member_id, unknown)]
    assert beat(node, member_id) == unknown


def test_a_group_without_a_name_is_refused() -> None:
    node = a_node()
    nameless = ErrorCode.INVALID_GROUP_ID

    assert node.ask(a_join(group=""), 9, JoinGroupResponse).error_code == nameless
    sync = SyncGroupRequest(group_id="", protocol_type="consumer", protocol_name="range")
    assert node.ask(sync, 5, SyncGroupResponse).error_code == nameless
    assert node.ask(HeartbeatRequest(), 4, HeartbeatResponse).error_code == nameless
    assert node.ask(LeaveGroupRequest(), 5, LeaveGroupResponse).error_code == nameless


def test_two_members_on_two_connections_share_a_generation() -> None:
    node = a_node()
    clients = [node.client(), node.client()]
    ids = [client.call(a_join(), 9, JoinGroupResponse).member_id for client in clients]
    for client, member_id in zip(clients, ids, strict=True):
        client.ask(a_join(member_id), 9)
    assert [client.frames for client in clients] == [[], []], "both wait"

    node.pass_time(2 * DELAY_MS)
    answers = [client.take(JoinGroupResponse) for client in clients]
    assert {(one.error_code, one.generation_id, one.leader) for one in answers} == {(0, 1, ids[0])}
    clients[1].ask(a_sync(ids[1]), 5)
    assert clients[1].frames == []
    leader = clients[0].call(a_sync(ids[0], (ids[0], b"0"), (ids[1], b"1")), 5, SyncGroupResponse)

    assert leader.assignment == b"0"
    assert clients[1].take(SyncGroupResponse).assignment == b"1"


def test_a_connection_that_goes_away_does_not_take_its_member_along() -> None:
    node = a_node()
    client = node.client()
    member_id = client.call(a_join(), 9, JoinGroupResponse).member_id
    client.ask(a_join(member_id), 9)

    client.session.closed()
    node.pass_time(DELAY_MS)

    assert beat(node, member_id) == 0
    assert client.frames == []


def test_a_group_is_there_again_after_a_restart() -> None:
    node = a_node()
    member_id = stable(node)

    node.start()
    node.connect("PLAINTEXT")

    assert beat(node, member_id) == 0
    node.pass_time(SESSION_MS - 1)
    assert beat(node, member_id) == 0
    assert beat(node, "stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    again = node.ask(a_sync(member_id), 5, SyncGroupResponse)
    assert again.assignment == b"all"


def test_while_the_log_is_read_a_heartbeat_is_let_pass_and_all_else_has_to_wait() -> None:
    node = a_node()
    member_id = stable(node)
    shard = node.broker.coordinators.group_shard("g")
    shard.machine.phase = Phase.LOADING

    assert beat(node, "stranger") == 0
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert node.ask(a_join(), 9, JoinGroupResponse).error_code == loading
    assert node.ask(a_sync(member_id), 5, SyncGroupResponse).error_code == loading
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    assert node.ask(leave, 5, LeaveGroupResponse).error_code == loading


def test_an_assignment_that_cannot_be_written_is_an_error_and_the_group_rebalances() -> None:
    node = a_node()
    member_id = joined(node, 9).member_id
    node.files.quota_bytes = 0

    answer = node.ask(a_sync(member_id, (member_id, b"all")), 5, SyncGroupResponse)

    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    node.files.quota_bytes = None
    client = node.client()
    client.ask(a_join(member_id), 9)
    node.aside.run_all()
    assert client.take(JoinGroupResponse).generation_id == 2


def test_a_member_is_shown_with_where_it_comes_from() -> None:
    node = a_node()
    member_id = stable(node)

    answer = node.ask(DescribeGroupsRequest(groups=["g"]), 5, DescribeGroupsResponse)

    (group,) = answer.groups
    (member,) = group.members
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "test", "/192.0.2.7")
    assert (member.member_metadata, member.member_assignment) == (b"topics", b"all")


def test_the_record_of_a_group_is_in_the_partition_that_its_name_falls_into() -> None:
    node = a_node()
    log = node.replica(OFFSETS_TOPIC, partition_for("g", 50)).log
    before = 0 if log is None else log.end_offset

    stable(node)

    log = node.replica(OFFSETS_TOPIC, partition_for("g", 50)).log
    assert log is not None
    assert log.end_offset == before + 1

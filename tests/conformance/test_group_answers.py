"""Rows C2, C3: what requests about a classic group are answered, which is what Apache Kafka answers.

The same test runs against Apache Kafka with `--broker apache`, and holds there.
"""

import socket
import time
import uuid
from collections.abc import Callable, Generator
from typing import TypeVar

import pytest

from everlog.model.errors import ErrorCode as Code
from everlog.wire.codec import decode_response, encode_request
from everlog.wire.message import Message
from everlog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from everlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from everlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from everlog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from everlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.conformance import raw

pytestmark = pytest.mark.conformance

M = TypeVar("M", bound=Message)

WAIT_S = 15.0
_NOT_YET = (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)


class Connection:
    """A connection to the coordinator; `group` is one that nobody else uses."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.group = group
        self._socket: socket.socket = raw.connected(bootstrap)
        self._socket.settimeout(WAIT_S)
        self._asked: list[tuple[int, int]] = []

    def ask(self, request: Message, version: int) -> None:
        assert request.KEY is not None
        self._asked.append((request.KEY, version))
        self._socket.sendall(encode_request(request, version, 1, "test"))

    def take(self, kind: type[M]) -> M:
        size = int.from_bytes(raw.exactly(self._socket, 4), "big")
        _, answer = decode_response(*self._asked.pop(0), raw.exactly(self._socket, size))
        assert isinstance(answer, kind)
        return answer

    def a_join(
        self, member_id: str = "", instance_id: str | None = None, kind: str = "consumer", name: str = "range"
    ) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=kind,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=b"m")],
        )

    def join(
        self, member_id: str = "", instance_id: str | None = None, version: int = 9
    ) -> JoinGroupResponse:
        """Join, again while the coordinator is being made."""
        end = time.monotonic() + WAIT_S
        while True:
            self.ask(self.a_join(member_id, instance_id), version)
            answer = self.take(JoinGroupResponse)
            if answer.error_code not in _NOT_YET or time.monotonic() > end:
                return answer
            time.sleep(0.2)

    def refusal(self, request: JoinGroupRequest) -> tuple[int, str, str | None]:
        self.ask(request, 9)
        answer = self.take(JoinGroupResponse)
        return answer.error_code, answer.member_id, answer.protocol_type

    def sync(
        self, member_id: str, generation: int, assignment: bytes = b"", *, name: str = "range", **to: str
    ) -> tuple[int, bytes]:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=to.get("instance_id"),
            protocol_type="consumer",
            protocol_name=name,
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)],
        )
        self.ask(request, 5)
        answer = self.take(SyncGroupResponse)
        return answer.error_code, answer.assignment

    def beat(self, member_id: str, generation: int, instance_id: str | None = None) -> int:
        self.ask(
            HeartbeatRequest(
                group_id=self.group,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=instance_id,
            ),
            4,
        )
        return self.take(HeartbeatResponse).error_code

    def leave(self, *leavers: tuple[str, str | None]) -> list[int]:
        members = [MemberIdentity(member_id=one, group_instance_id=instance) for one, instance in leavers]
        self.ask(LeaveGroupRequest(group_id=self.group, members=members), 5)
        answer = self.take(LeaveGroupResponse)
        assert answer.error_code == 0
        return [one.error_code for one in answer.members]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def two(everlog_bootstrap: str) -> Generator[tuple[Connection, Connection]]:
    group = f"g-{uuid.uuid4().hex[:12]}"
    connections = Connection(everlog_bootstrap, group), Connection(everlog_bootstrap, group)
    # Whoever asks for a coordinator has its topic made.
    connections[0].ask(FindCoordinatorRequest(coordinator_keys=[group]), 4)
    connections[0].take(FindCoordinatorResponse)
    yield connections
    for one in connections:
        one.close()


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it does in the end: what was sent on another connection may not have arrived yet."""
    end = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_members_that_come_and_go_are_answered_alike(two: tuple[Connection, Connection]) -> None:
    first, second = two
    unknown = Code.UNKNOWN_MEMBER_ID
    assert first.join("stranger").error_code == unknown
    assert (first.beat("stranger", 1), first.sync("stranger", 1)) == (unknown, (unknown, b""))
    assert first.leave(("stranger", None)) == [unknown]
    inconsistent = (Code.INCONSISTENT_GROUP_PROTOCOL, "", None)
    assert first.refusal(first.a_join(kind="")) == inconsistent

    given = first.join()
    assert given.error_code == Code.MEMBER_ID_REQUIRED
    a = given.member_id
    joined = first.join(a)
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, a)
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert [(one.member_id, one.metadata) for one in joined.members] == [(a, b"m")]
    assert first.sync(a, 1, name="other") == (Code.INCONSISTENT_GROUP_PROTOCOL, b"")
    assert first.sync(a, 7) == (Code.ILLEGAL_GENERATION, b"")
    assert first.beat(a, 1) == 0
    assert first.sync(a, 1, b"all") == (0, b"all")
    assert (first.beat(a, 1), first.beat(a, 0)) == (0, Code.ILLEGAL_GENERATION)
    assert second.refusal(second.a_join(kind="connect")) == inconsistent
    assert second.refusal(second.a_join(name="other")) == inconsistent

    # In one step, as old versions join: it waits until the first has joined again.
    second.ask(second.a_join(), 3)
    assert eventually(lambda: first.beat(a, 1) == Code.REBALANCE_IN_PROGRESS)
    assert first.sync(a, 1) == (Code.REBALANCE_IN_PROGRESS, b"")
    again = first.join(a)
    newcomer = second.take(JoinGroupResponse)
    assert (again.generation_id, newcomer.generation_id, newcomer.leader) == (2, 2, a)
    b = newcomer.member_id
    assert {one.member_id for one in again.members} == {a, b}
    assert first.sync(a, 2, b"some") == (0, b"some")
    assert second.sync(b, 2) == (0, b"")
    assert second.join(b).generation_id == 2, "nothing has changed"
    assert second.leave((b, "no such"), ("", "no such"), ("", None)) == [unknown] * 3
    assert first.leave((a, None), (b, None)) == [0, 0]
    assert first.beat(a, 2) == unknown


@pytest.mark.parametrize("version", [5, 9])
def test_static_members_that_come_back_are_answered_alike(
    version: int, two: tuple[Connection, Connection]
) -> None:
    first, second = two
    old = first.join("", "i", version).member_id
    assert first.sync(old, 1, b"all", instance_id="i") == (0, b"all")

    back = second.join("", "i", version)

    new = back.member_id
    assert (back.error_code, back.generation_id, back.skip_assignment) == (0, 1, version >= 9)
    assert back.leader == (new if version >= 9 else old)
    fenced = Code.FENCED_INSTANCE_ID
    assert first.beat(old, 1, "i") == fenced
    assert first.beat(old, 1) == Code.UNKNOWN_MEMBER_ID
    assert first.join(old, "i", version).error_code == fenced
    assert first.sync(old, 1, instance_id="i") == (fenced, b"")
    assert first.leave((old, "i")) == [fenced]
    assert second.sync(new, 1, instance_id="i") == (0, b"all")
    assert first.leave(("", "i"), ("", "i")) == [0, Code.UNKNOWN_MEMBER_ID]

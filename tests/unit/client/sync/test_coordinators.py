"""Patience with coordinators that load or move, and none where it would not help (C2)."""

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from everlog.client.core.errors import TimedOut, Unreachable
from everlog.client.core.txn_admin import Transaction
from everlog.client.sync.cluster import Cluster
from everlog.client.sync.group_admin import GroupAdmin
from everlog.client.sync.txn_admin import TxnAdmin
from everlog.model.errors import ErrorCode, Refused
from everlog.wire.codec import RequestHeader
from everlog.wire.message import Message
from everlog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from everlog.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from everlog.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from everlog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from everlog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from everlog.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.unit.client.sync.scripted import ScriptedBroker

HANG_UP = "hang up"
Step = ErrorCode | str


class Coordination:
    """A broker that coordinates everything; each call but FindCoordinator first meets the next step."""

    def __init__(self, steps: list[Step], found: list[ErrorCode] | None = None) -> None:
        self.steps = deque(steps)
        self.found = deque(found or [])
        self.port = 0
        self.lookups = 0
        self.calls = 0

    def __call__(self, _header: RequestHeader, request: Message) -> Message | None:
        match request:
            case MetadataRequest():
                return MetadataResponse(
                    brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)]
                )
            case FindCoordinatorRequest():
                self.lookups += 1
                code = self.found.popleft() if self.found else ErrorCode.NONE
                entries = [
                    Coordinator(key=key, node_id=1, host="127.0.0.1", port=self.port, error_code=code)
                    for key in request.coordinator_keys
                ]
                return FindCoordinatorResponse(coordinators=entries)
            case _:
                self.calls += 1
                step = self.steps.popleft() if self.steps else ErrorCode.NONE
                return None if isinstance(step, str) else self._answer(request, step)

    def _answer(self, request: Message, code: ErrorCode) -> Message:
        match request:
            case DeleteGroupsRequest():
                return DeleteGroupsResponse(
                    results=[DeletableGroupResult(group_id="billing", error_code=code)]
                )
            case InitProducerIdRequest():
                return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=2)
            case ListGroupsRequest():
                return ListGroupsResponse(error_code=code, groups=[ListedGroup(group_id="billing")])
            case ConsumerGroupDescribeRequest():
                return ConsumerGroupDescribeResponse(
                    groups=[ConsumerGroup(group_id="billing", error_code=code)]
                )
            case DescribeGroupsRequest():
                group = DescribedGroup(group_id="billing", group_state="Empty", error_code=code)
                return DescribeGroupsResponse(groups=[group])
            case _:
                raise AssertionError(request)


@contextmanager
def a_cluster(script: Coordination, timeout: float = 5.0) -> Generator[Cluster]:
    with ScriptedBroker(script) as broker:
        script.port = broker.port
        with Cluster(f"127.0.0.1:{broker.port}", timeout=timeout) as cluster:
            yield cluster


@pytest.mark.parametrize(
    "step",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        HANG_UP,
    ],
)
def test_a_coordinator_that_loads_moves_or_hangs_up_is_looked_up_and_asked_again(step: Step) -> None:
    script = Coordination([step, step])
    with a_cluster(script) as cluster:
        (done,) = GroupAdmin(cluster).delete(["billing"])

    assert done.error is None
    assert (script.calls, script.lookups) == (3, 3)


def test_a_coordinator_that_is_not_there_yet_is_waited_for() -> None:
    script = Coordination([], found=[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2)
    with a_cluster(script) as cluster:
        (done,) = GroupAdmin(cluster).delete(["billing"])

    assert (done.error, script.lookups) == (None, 3)


def test_a_refusal_is_told_at_once() -> None:
    script = Coordination([ErrorCode.NON_EMPTY_GROUP])
    with a_cluster(script) as cluster:
        (done,) = GroupAdmin(cluster).delete(["billing"])

    assert done.error is not None
    assert (done.error.code, script.calls) == (ErrorCode.NON_EMPTY_GROUP, 1)


def test_one_that_loads_for_ever_is_given_up_with_its_last_word() -> None:
    script = Coordination([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000)
    with (
        a_cluster(script, timeout=0.3) as cluster,
        pytest.raises(TimedOut, match=r"gave up after 0.3 s: group 'billing': COORDINATOR_LOAD_IN_PROGRESS"),
    ):
        GroupAdmin(cluster).delete(["billing"])


def test_where_nobody_listens_there_is_no_waiting() -> None:
    with ScriptedBroker(Coordination([])) as gone:
        port = gone.port

    with (
        Cluster(f"127.0.0.1:{port}", timeout=60.0) as cluster,
        pytest.raises(Unreachable, match="refused the connection"),
    ):
        GroupAdmin(cluster).delete(["billing"])


def test_a_list_waits_for_a_broker_that_loads() -> None:
    script = Coordination([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
    with a_cluster(script) as cluster:
        (listed,) = GroupAdmin(cluster).list_groups()

    assert (listed.group_id, listed.coordinator) == ("billing", 1)


def test_a_group_that_is_none_of_kip_848_is_described_as_a_classic_one() -> None:
    script = Coordination([ErrorCode.GROUP_ID_NOT_FOUND])
    with a_cluster(script) as cluster:
        group = GroupAdmin(cluster).describe("billing")

    assert (group.type, group.state) == ("classic", "Empty")


def test_a_group_that_neither_api_knows_does_not_exist() -> None:
    script = Coordination([ErrorCode.GROUP_ID_NOT_FOUND] * 2)
    with a_cluster(script) as cluster, pytest.raises(Refused, match="no such group"):
        GroupAdmin(cluster).describe("billing")


def test_fencing_waits_until_the_open_transaction_has_been_aborted() -> None:
    script = Coordination([ErrorCode.CONCURRENT_TRANSACTIONS] * 2)
    open_one = Transaction("writer", "Ongoing", 7, 1, 60_000, 0, ())
    with a_cluster(script) as cluster:
        fenced = TxnAdmin(cluster).fence(open_one)

    assert (fenced.producer_id, fenced.producer_epoch, script.calls) == (7, 2, 3)

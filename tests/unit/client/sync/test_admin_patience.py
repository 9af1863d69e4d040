"""An Admin's patience with coordinators and controllers that move, and none where it would not help (C2)."""

from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from everlog.client.core.admin.outcomes import ItemsRefused
from everlog.client.core.errors import TimedOut, Unreachable
from everlog.client.sync.admin import Admin
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.codec import RequestHeader
from everlog.wire.message import Message
from everlog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from everlog.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from everlog.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
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
from everlog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from everlog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from everlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from everlog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from everlog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from everlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
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
        self.asked: list[list[str]] = []
        """What each request about several things has named."""

    def __call__(self, _header: RequestHeader, request: Message) -> Message | None:
        match request:
            case MetadataRequest():
                broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)
                partitions = [MetadataResponsePartition(partition_index=at, leader_id=1) for at in (0, 1)]
                topic = MetadataResponseTopic(name="orders", partitions=partitions)
                return MetadataResponse(brokers=[broker], topics=[topic])
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
            case CreateTopicsRequest():
                # The first of them meets the step; the others are created.
                codes = [code, *[ErrorCode.NONE] * (len(request.topics) - 1)]
                self.asked.append([topic.name for topic in request.topics])
                return CreateTopicsResponse(
                    topics=[
                        CreatableTopicResult(name=topic.name, error_code=each)
                        for topic, each in zip(request.topics, codes, strict=True)
                    ]
                )
            case ListOffsetsRequest():
                (named,) = request.topics
                self.asked.append([str(entry.partition_index) for entry in named.partitions])
                codes = [code, *[ErrorCode.NONE] * (len(named.partitions) - 1)]
                entries = [
                    ListOffsetsPartitionResponse(
                        partition_index=entry.partition_index, error_code=each, offset=7
                    )
                    for entry, each in zip(named.partitions, codes, strict=True)
                ]
                return ListOffsetsResponse(
                    topics=[ListOffsetsTopicResponse(name=named.name, partitions=entries)]
                )
            case DescribeTransactionsRequest():
                state = TransactionState(transactional_id="writer", transaction_timeout_ms=60_000)
                return DescribeTransactionsResponse(transaction_states=[state])
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
def an_admin(script: Coordination, timeout: float = 60.0) -> Generator[Admin]:
    with ScriptedBroker(script) as broker:
        script.port = broker.port
        with Admin(
            f"127.0.0.1:{broker.port}", default_api_timeout_ms=int(timeout * 1000), retry_backoff_ms=1
        ) as admin:
            yield admin


PASSING = [
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
]


@pytest.mark.parametrize("step", PASSING)
def test_a_coordinator_that_loads_or_moves_is_looked_up_and_asked_again(step: Step) -> None:
    script = Coordination([step, step])
    with an_admin(script) as admin:
        admin.delete_groups(["billing"])

    assert (script.calls, script.lookups) == (3, 3)


def test_a_question_whose_answer_is_lost_is_asked_again() -> None:
    script = Coordination([HANG_UP, HANG_UP, ErrorCode.GROUP_ID_NOT_FOUND])
    with an_admin(script) as admin:
        assert admin.describe_group("billing").state == "Empty"

    assert (script.calls, script.lookups) == (4, 3)


def _delete_group(admin: Admin) -> None:
    admin.delete_groups(["billing"])


def _create_topic(admin: Admin) -> None:
    admin.create_topic("orders", wait=False)


@pytest.mark.parametrize("work", [_delete_group, _create_topic])
def test_what_cannot_be_done_twice_is_not_sent_again_when_its_answer_is_lost(
    work: Callable[[Admin], None],
) -> None:
    script = Coordination([HANG_UP])
    with an_admin(script) as admin, pytest.raises(Unreachable):
        work(admin)

    assert script.calls == 1


def test_a_coordinator_that_is_not_there_yet_is_waited_for() -> None:
    script = Coordination([], found=[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2)
    with an_admin(script) as admin:
        admin.delete_groups(["billing"])

    assert script.lookups == 3


def test_a_refusal_is_told_at_once() -> None:
    script = Coordination([ErrorCode.NON_EMPTY_GROUP])
    with an_admin(script) as admin, pytest.raises(ItemsRefused) as refused:
        admin.delete_groups(["billing"])

    assert (refused.value.code, script.calls) == (ErrorCode.NON_EMPTY_GROUP, 1)


def test_a_topic_that_is_not_there_is_an_answer_and_not_asked_about_again() -> None:
    script = Coordination([ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    with an_admin(script) as admin, pytest.raises(ItemsRefused) as refused:
        admin.list_offsets([TopicPartition("orders", 0)])

    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert script.asked == [["0"]]


def test_one_that_loads_for_ever_is_given_up_with_its_last_word() -> None:
    script = Coordination([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 10_000)
    with (
        an_admin(script, timeout=0.3) as admin,
        pytest.raises(TimedOut, match=r"gave up after 0.3 s: group 'billing': COORDINATOR_LOAD_IN_PROGRESS"),
    ):
        admin.delete_groups(["billing"])


def test_where_nobody_listens_there_is_no_waiting() -> None:
    with ScriptedBroker(Coordination([])) as gone:
        port = gone.port

    with (
        Admin(f"127.0.0.1:{port}", default_api_timeout_ms=600_000) as admin,
        pytest.raises(Unreachable, match="refused the connection"),
    ):
        admin.delete_groups(["billing"])


def test_only_what_may_pass_is_asked_for_again() -> None:
    script = Coordination([ErrorCode.NOT_CONTROLLER])
    with an_admin(script) as admin:
        created = admin.create_topics(["one", "two"], wait=False)

    assert sorted(created) == ["one", "two"]
    assert script.asked == [["one", "two"], ["one"]]


def test_a_refusal_of_one_thing_does_not_keep_the_others_from_being_tried_again() -> None:
    script = Coordination([ErrorCode.INVALID_PARTITIONS, ErrorCode.NOT_CONTROLLER])
    with an_admin(script) as admin, pytest.raises(ItemsRefused) as refused:
        admin.create_topics(["one", "two"], wait=False)

    assert (list(refused.value.errors), list(refused.value.done)) == (["one"], ["two"])
    assert script.asked == [["one", "two"]]


def test_what_is_known_of_each_is_told_when_time_is_up() -> None:
    script = Coordination([ErrorCode.NOT_CONTROLLER] * 10_000)
    with an_admin(script, timeout=0.3) as admin, pytest.raises(ItemsRefused) as refused:
        admin.create_topics(["one", "two"], wait=False)

    assert (list(refused.value.errors), list(refused.value.done)) == (["one"], ["two"])


@pytest.mark.parametrize("step", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, HANG_UP])
def test_a_leader_that_moved_is_looked_up_and_the_rest_is_kept(step: Step) -> None:
    script = Coordination([step])
    places = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    with an_admin(script) as admin:
        found = admin.list_offsets(places)

    assert [None if entry is None else entry.offset for entry in found.values()] == [7, 7]
    assert list(found) == places
    assert script.asked == ([["0", "1"], ["0"]] if isinstance(step, ErrorCode) else [["0", "1"]])


def test_a_list_waits_for_a_broker_that_loads() -> None:
    script = Coordination([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
    with an_admin(script) as admin:
        (listed,) = admin.list_groups()

    assert (listed.group_id, listed.coordinator) == ("billing", 1)


def test_a_group_that_is_none_of_kip_848_is_described_as_a_classic_one() -> None:
    script = Coordination([ErrorCode.GROUP_ID_NOT_FOUND])
    with an_admin(script) as admin:
        group = admin.describe_group("billing")

    assert (group.type, group.state) == ("classic", "Empty")


def test_a_group_that_neither_api_knows_does_not_exist() -> None:
    script = Coordination([ErrorCode.GROUP_ID_NOT_FOUND] * 2)
    with an_admin(script) as admin, pytest.raises(Refused, match="no such group"):
        admin.describe_group("billing")


def test_fencing_waits_until_the_open_transaction_has_been_aborted() -> None:
    script = Coordination([ErrorCode.NONE, *[ErrorCode.CONCURRENT_TRANSACTIONS] * 2])
    with an_admin(script) as admin:
        fenced = admin.fence_producer("writer")

    assert (fenced.producer_id, fenced.producer_epoch, script.calls) == (7, 2, 4)

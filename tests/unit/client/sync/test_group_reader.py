"""A member of a group against a scripted coordinator: what it commits, and when it joins again (C2-C5)."""

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from everlog.client.core.fetch_plan import Chunk, FetchLimits
from everlog.client.core.membership import MemberSettings
from everlog.client.core.subscription import write_assignment, write_subscription
from everlog.client.sync.cluster import Cluster
from everlog.client.sync.group_reader import GroupReader
from everlog.model.errors import ErrorCode, Refused
from everlog.model.topics import TopicPartition
from everlog.wire.codec import RequestHeader
from everlog.wire.message import Message
from everlog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from everlog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from everlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from everlog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from everlog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
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
from everlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from everlog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from everlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.unit.client.builders import ORDERS_ID, a_batch
from tests.unit.client.sync.scripted import ScriptedBroker

PLACE = TopicPartition("orders", 0)
EAGER = MemberSettings(heartbeat_interval_ms=0)
QUICK = FetchLimits(max_wait_ms=10)


class World:
    """One broker that holds `orders-0` with six records and coordinates a group of one member."""

    def __init__(self, committed: int = -1) -> None:
        self.port = 0
        self.committed = committed
        self.start, self.end = 0, 6
        self.heartbeats: deque[ErrorCode] = deque()
        self.commits: list[tuple[int, int]] = []
        """Generation and offset of each."""
        self.generation = 0
        self.left: list[str] = []
        self.events: list[str] = []

    def __call__(self, _header: RequestHeader, request: Message) -> Message | None:
        match request:
            case MetadataRequest():
                return self._metadata()
            case FindCoordinatorRequest():
                found = Coordinator(key="billing", node_id=1, host="127.0.0.1", port=self.port)
                return FindCoordinatorResponse(coordinators=[found])
            case JoinGroupRequest():
                return self._join(request)
            case SyncGroupRequest():
                return SyncGroupResponse(assignment=write_assignment([PLACE]))
            case HeartbeatRequest():
                code = self.heartbeats.popleft() if self.heartbeats else ErrorCode.NONE
                return HeartbeatResponse(error_code=code)
            case LeaveGroupRequest():
                self.left.extend(entry.member_id for entry in request.members)
                return LeaveGroupResponse()
            case OffsetFetchRequest():
                return self._offsets()
            case OffsetCommitRequest():
                return self._commit(request)
            case ListOffsetsRequest():
                at = request.topics[0].partitions[0].timestamp
                entry = ListOffsetsPartitionResponse(
                    partition_index=0, offset=self.start if at == -2 else self.end
                )
                return ListOffsetsResponse(
                    topics=[ListOffsetsTopicResponse(name="orders", partitions=[entry])]
                )
            case FetchRequest():
                return self._fetch(request)
            case _:
                raise AssertionError(request)

    def _metadata(self) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=0)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)],
            topics=[MetadataResponseTopic(name="orders", topic_id=ORDERS_ID, partitions=[partition])],
        )

    def _join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        self.events.append("join")
        if not request.member_id:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me")
        self.generation += 1
        member = JoinGroupResponseMember(member_id="me", metadata=write_subscription(["orders"]))
        return JoinGroupResponse(member_id="me", leader="me", generation_id=self.generation, members=[member])

    def _offsets(self) -> OffsetFetchResponse:
        entry = OffsetFetchResponsePartitions(partition_index=0, committed_offset=self.committed)
        topic = OffsetFetchResponseTopics(name="orders", partitions=[entry])
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="billing", topics=[topic])])

    def _commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        offset = request.topics[0].partitions[0].committed_offset
        self.commits.append((request.generation_id_or_member_epoch, offset))
        self.events.append(f"commit {offset}")
        self.committed = offset
        entry = OffsetCommitResponsePartition(partition_index=0)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[entry])])

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        """Two records a time, as two batches of one."""
        at = request.topics[0].partitions[0].fetch_offset
        code = ErrorCode.NONE if self.start <= at <= self.end else ErrorCode.OFFSET_OUT_OF_RANGE
        batches = [a_batch(offset, str(offset)) for offset in range(at, min(at + 2, self.end))]
        data = PartitionData(
            partition_index=0,
            high_watermark=self.end,
            error_code=code,
            records=memoryview(b"" if code else b"".join(batches)),
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=ORDERS_ID, partitions=[data])])


@contextmanager
def a_cluster(world: World) -> Generator[Cluster]:
    with ScriptedBroker(world) as broker:
        world.port = broker.port
        with Cluster(f"127.0.0.1:{broker.port}", timeout=5.0) as cluster:
            yield cluster


def a_reader(cluster: Cluster, *, from_start: bool = True, stop_at_end: bool = False) -> GroupReader:
    return GroupReader(
        cluster,
        "billing",
        ["orders"],
        from_start=from_start,
        stop_at_end=stop_at_end,
        limits=QUICK,
        settings=EAGER,
    )


def offsets(chunks: list[Chunk]) -> list[int]:
    return [record.offset for chunk in chunks for record in chunk.records()]


def test_all_is_read_committed_at_the_end_and_the_group_left() -> None:
    world = World()
    read: list[int] = []
    with a_cluster(world) as cluster, a_reader(cluster, stop_at_end=True) as reader:
        while not reader.finished:
            read += offsets(reader.poll())

    assert read == [0, 1, 2, 3, 4, 5]
    assert (world.commits[-1], world.left) == ((1, 6), ["me"])


def test_a_member_goes_on_from_the_committed_offset() -> None:
    world = World(committed=4)
    with a_cluster(world) as cluster, a_reader(cluster) as reader:
        assert offsets(reader.poll()) == [4, 5]


@pytest.mark.parametrize(("from_start", "first"), [(True, [2, 3]), (False, [])])
@pytest.mark.parametrize("committed", [-1, 1, 99], ids=["none", "before the log", "behind the log"])
def test_an_offset_that_is_not_in_the_log_is_not_gone_on_from(
    committed: int, from_start: bool, first: list[int]
) -> None:
    world = World(committed=committed)
    world.start = 2
    with a_cluster(world) as cluster, a_reader(cluster, from_start=from_start) as reader:
        assert offsets(reader.poll()) == first


def test_what_was_read_is_committed_by_the_old_generation_before_joining_the_next() -> None:
    world = World()
    with a_cluster(world) as cluster, a_reader(cluster) as reader:
        assert offsets(reader.poll()) == [0, 1]
        world.heartbeats.append(ErrorCode.REBALANCE_IN_PROGRESS)
        assert offsets(reader.poll()) == [2, 3]

    assert world.commits[0] == (1, 2)
    assert world.events == ["join", "join", "commit 2", "join", "commit 4"]
    assert world.commits[1] == (2, 4)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_that_was_given_up_commits_nothing_and_reads_again_what_others_may_have(
    code: ErrorCode,
) -> None:
    world = World()
    with a_cluster(world) as cluster, a_reader(cluster) as reader:
        reader.poll()
        world.heartbeats.append(code)
        assert offsets(reader.poll()) == [0, 1]
        assert world.commits == []


def test_an_interrupted_member_commits_what_was_done_with_and_not_what_came_last() -> None:
    def read_and_interrupt(cluster: Cluster) -> None:
        with a_reader(cluster) as reader:
            assert offsets(reader.poll()) == [0, 1]
            assert offsets(reader.poll()) == [2, 3]
            raise KeyboardInterrupt

    world = World()
    with a_cluster(world) as cluster:
        with pytest.raises(KeyboardInterrupt):
            read_and_interrupt(cluster)

        assert (world.commits, world.left) == ([(1, 2)], ["me"])


def test_what_is_rewound_is_not_committed() -> None:
    world = World()
    with a_cluster(world) as cluster, a_reader(cluster) as reader:
        reader.poll()
        reader.rewind({PLACE: 1})

    assert world.commits == [(1, 1)]


def test_a_reader_that_retention_has_overtaken_goes_on_where_the_log_begins() -> None:
    world = World()
    with a_cluster(world) as cluster, a_reader(cluster) as reader:
        assert offsets(reader.poll()) == [0, 1]
        world.start = 5
        read: list[int] = []
        while not read:
            read = [offset for offset in offsets(reader.poll()) if offset >= 5]

    assert read == [5]


def test_a_group_that_will_not_have_us_is_told_and_nothing_is_left_behind() -> None:
    class Closed(World):
        def _join(self, request: JoinGroupRequest) -> JoinGroupResponse:
            return JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)

    world = Closed()
    with (
        a_cluster(world) as cluster,
        pytest.raises(Refused, match="group 'billing': GROUP_MAX_SIZE_REACHED"),
        a_reader(cluster) as reader,
    ):
        reader.poll()

    assert (world.commits, world.left) == ([], [])

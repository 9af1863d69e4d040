"""The quorum on the wire: every word there and back, and what is not meant for us (R8)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from everlog.broker.desk.handlers import (
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch_metadata,
    fetch_snapshot,
    vote,
)
from everlog.broker.exchange import Exchange
from everlog.controller.metadata_log import MetadataLog
from everlog.model.errors import ErrorCode, ProtocolError
from everlog.model.ids import Offset, Uuid
from everlog.peers.address import Address, Unreachable
from everlog.raft.member import MemberWorld, QuorumMember
from everlog.raft.messages import (
    Answer,
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
    FetchSnapshot,
    Noted,
    ReplicaKey,
    Request,
    SnapshotId,
    SnapshotReply,
    Vote,
    VoteReply,
)
from everlog.raft.replica import Timing
from everlog.raft.store import QuorumStore
from everlog.raft.transport import PeerTransport
from everlog.raft.voters import VoterSet
from everlog.raft.wire.answering import (
    begin_response,
    end_response,
    fetch_response,
    read_begin,
    read_end,
    read_fetch,
    read_snapshot_fetch,
    read_vote,
    snapshot_response,
    vote_response,
)
from everlog.raft.wire.asking import Sender, read_answer, request_message
from everlog.records.builder import NewRecord, build_batch
from everlog.sim.alarm import SimAlarm
from everlog.sim.chance import SimRandom
from everlog.wire.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from everlog.wire.message import Message
from everlog.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from everlog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from everlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from everlog.wire.messages.fetch_snapshot import FetchSnapshotRequest
from everlog.wire.messages.vote import RequestPartitionData, RequestTopicData, VoteRequest, VoteResponse
from tests.unit.controller.builders import Machine

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
HERE = Address("127.0.0.1", 9001)
SENDER = Sender(CLUSTER, "CONTROLLER", HERE)
ME = ReplicaKey(3, Uuid(bytes(range(16))))
OTHER = ReplicaKey(2, Uuid(bytes(range(1, 17))))
BATCH = bytes(build_batch([NewRecord(None, b"value", (), 7)], base_offset=10, leader_epoch=4))

SNAPSHOT = SnapshotId(Offset(100), 4)

REQUESTS: list[Request] = [
    Vote(OTHER, 5, 4, Offset(10), True, ME),
    Vote(OTHER, 5, -1, Offset(0), False, ME),
    BeginEpoch(2, 5, ME),
    EndEpoch(2, 5, (3, 1)),
    Fetch(OTHER, 5, Offset(10), 4, Offset(9)),
    Fetch(ReplicaKey(7), 5, Offset(0), -1, Offset(0), wait_ms=3, max_bytes=99),
    FetchSnapshot(OTHER, 5, SNAPSHOT, 77, max_bytes=1000),
]


def sent(message: Message, version: int) -> Any:
    """A request as it comes out at the other end."""
    frame = encode_request(message, version, 1, "test")[4:]
    return decode_request(read_request_header(frame), frame)


def answered(message: Message, version: int) -> Message:
    """An answer as it comes out at the other end."""
    assert message.KEY is not None
    return decode_response(message.KEY, version, encode_response(message, version, 1)[4:])[1]


def read(message: Message, version: int) -> Request | ErrorCode:
    match message:
        case VoteRequest():
            return read_vote(message, CLUSTER, ME)
        case BeginQuorumEpochRequest():
            return read_begin(message, CLUSTER, ME)
        case EndQuorumEpochRequest():
            return read_end(message, CLUSTER)
        case FetchRequest():
            return read_fetch(message, version, CLUSTER)
        case FetchSnapshotRequest():
            return read_snapshot_fetch(message, CLUSTER)
        case _:
            raise AssertionError(message)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_a_request_arrives_as_it_was_meant(request_: Request) -> None:
    message, version = request_message(request_, SENDER)

    assert read(sent(message, version), version) == request_


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_a_request_of_another_cluster_is_refused(request_: Request) -> None:
    message, version = request_message(request_, Sender("another"))

    assert read(sent(message, version), version) is ErrorCode.INCONSISTENT_CLUSTER_ID


def a_fetch_response(answer: FetchReply) -> Message:
    return fetch_response(answer, 18, HERE)


def a_snapshot_response(answer: SnapshotReply) -> Message:
    return snapshot_response(FetchSnapshot(OTHER, 5, SNAPSHOT, 77), answer, HERE)


ANSWERS: list[tuple[Request, Answer, Callable[[Any], Message]]] = [
    (REQUESTS[0], VoteReply(6, 2, True), lambda one: vote_response(one, HERE)),
    (
        REQUESTS[0],
        VoteReply(6, None, False, ErrorCode.INVALID_VOTER_KEY),
        lambda one: vote_response(one, None),
    ),
    (REQUESTS[2], Noted(6, 2), lambda one: begin_response(BeginEpoch(2, 5, ME), one, HERE)),
    (REQUESTS[3], Noted(6, None), lambda one: end_response(EndEpoch(2, 6, ()), one, HERE)),
    (REQUESTS[4], FetchReply(6, 2, Offset(9), batches=[BATCH, BATCH]), a_fetch_response),
    (REQUESTS[4], FetchReply(6, 2, diverging=(3, Offset(8)), batches=[]), a_fetch_response),
    (REQUESTS[4], FetchReply(6, 2, diverging=(-1, Offset(0)), batches=[]), a_fetch_response),
    (REQUESTS[4], FetchReply(6, 2, snapshot=SNAPSHOT, batches=[]), a_fetch_response),
    (REQUESTS[6], SnapshotReply(6, 2, size=99, data=b"12345"), a_snapshot_response),
    (REQUESTS[6], SnapshotReply(6, None, ErrorCode.SNAPSHOT_NOT_FOUND), a_snapshot_response),
    (REQUESTS[4], FetchReply(6, None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, batches=[]), a_fetch_response),
]


@pytest.mark.parametrize(("request_", "answer", "made"), ANSWERS)
def test_an_answer_arrives_as_it_was_meant(
    request_: Request, answer: Answer, made: Callable[[Any], Message]
) -> None:
    version = request_message(request_, SENDER)[1]

    found = read_answer(request_, answered(made(answer), version))

    assert found.answer == answer
    known = answer.leader is not None
    assert found.endpoints == ({2: HERE} if known else {})


@pytest.mark.parametrize(
    ("response", "versions"),
    [
        (vote_response(VoteReply(6, 2, True), None), (0, 1, 2)),
        (begin_response(BeginEpoch(2, 5, ME), Noted(6, 2), None), (0, 1)),
        (end_response(EndEpoch(2, 5, ()), Noted(6, 2), None), (0, 1)),
        (snapshot_response(FetchSnapshot(OTHER, 5, SNAPSHOT, 77), SnapshotReply(6, 2), None), (0, 1)),
        *(
            (fetch_response(FetchReply(6, 2, batches=[BATCH]), version, HERE), (version,))
            for version in range(12, 19)
        ),
    ],
)
def test_older_versions_are_answered_too(response: Message, versions: tuple[int, ...]) -> None:
    for version in versions:
        answered(response, version)


@pytest.mark.parametrize(
    "response",
    [
        vote_response(ErrorCode.INCONSISTENT_CLUSTER_ID, None),
        VoteResponse(),
        VoteResponse(error_code=12_345),
    ],
)
def test_an_answer_that_says_nothing_is_none(response: Message) -> None:
    with pytest.raises(ProtocolError):
        read_answer(REQUESTS[0], answered(response, 2))


def test_a_fetch_answer_that_says_nothing_is_none() -> None:
    for response in (FetchResponse(), FetchResponse(error_code=ErrorCode.INVALID_REQUEST)):
        with pytest.raises(ProtocolError):
            read_answer(REQUESTS[4], answered(response, 18))


def test_requests_about_anything_but_the_metadata_log_are_refused() -> None:
    def of_the_log(**given: int) -> list[RequestTopicData]:
        return [
            RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(**given)])  # type: ignore[arg-type]  # all are numbers
        ]

    topics = [
        [],
        [RequestTopicData(topic_name="__cluster_metadata")],
        [RequestTopicData(topic_name="orders", partitions=[RequestPartitionData()])],
        of_the_log(partition_index=1),
        of_the_log(replica_id=-1),
        of_the_log(last_offset=-1),
    ]
    for one in topics:
        assert read_vote(VoteRequest(topics=one), CLUSTER, ME) is ErrorCode.INVALID_REQUEST
    assert read_begin(BeginQuorumEpochRequest(), CLUSTER, ME) is ErrorCode.INVALID_REQUEST
    assert read_end(EndQuorumEpochRequest(), CLUSTER) is ErrorCode.INVALID_REQUEST
    assert read_fetch(FetchRequest(), 18, CLUSTER) is ErrorCode.INVALID_REQUEST
    assert read_snapshot_fetch(FetchSnapshotRequest(), CLUSTER) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    other = FetchTopic(topic="orders", topic_id=Uuid(bytes(16)), partitions=[FetchPartition()])
    assert read_fetch(FetchRequest(topics=[other]), 18, CLUSTER) is ErrorCode.UNKNOWN_TOPIC_ID
    assert read_fetch(FetchRequest(topics=[other]), 12, CLUSTER) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_name = FetchTopic(topic="__cluster_metadata", partitions=[FetchPartition(fetch_offset=4)])
    assert isinstance(read_fetch(FetchRequest(topics=[by_name]), 12, CLUSTER), Fetch)


def test_a_leader_that_means_another_directory_is_not_followed() -> None:
    begun = request_message(BeginEpoch(2, 5, ReplicaKey(ME.id, OTHER.directory)), SENDER)[0]
    assert isinstance(begun, BeginQuorumEpochRequest)

    assert read_begin(begun, CLUSTER, ME) is ErrorCode.INVALID_VOTER_KEY


# --- members over the wire

HANDLERS: dict[type[Message], Callable[[Any, Any, Any], None]] = {
    VoteRequest: vote.handle,
    BeginQuorumEpochRequest: begin_quorum_epoch.handle,
    EndQuorumEpochRequest: end_quorum_epoch.handle,
    FetchRequest: fetch_metadata.handle,
    FetchSnapshotRequest: fetch_snapshot.handle,
}


@dataclass
class Desk:
    quorum: QuorumMember
    cluster_id: str = CLUSTER


@dataclass
class OneExchange:
    """An exchange whose answer goes through the codec to whoever asked."""

    api_version: int
    done: Callable[[Message], None]

    def answer(self, message: Message) -> None:
        self.done(answered(message, self.api_version))


@dataclass
class Link:
    """A `QuorumPeer` to a member that runs here; requests go through the codec when `carry` says so."""

    net: "Net"
    to: int
    lost: list[Callable[[Unreachable], None]] = field(default_factory=list[Callable[[Unreachable], None]])

    def ask(
        self, request: Message, version: int, timeout_ms: int, done: Callable[[Message | Unreachable], None]
    ) -> None:
        self.net.waiting.append(lambda: self._arrive(sent(request, version), version, done))

    def _arrive(self, request: Message, version: int, done: Callable[[Message | Unreachable], None]) -> None:
        desk = self.net.desks.get(self.to)
        if desk is None:
            done(Unreachable("gone", refused=True))
        else:
            HANDLERS[type(request)](desk, request, cast(Exchange, OneExchange(version, done)))

    def on_lost(self, tell: Callable[[Unreachable], None]) -> None:
        self.lost.append(tell)

    def find_out_if_gone(self, done: Callable[[bool], None]) -> None:
        done(self.to not in self.net.desks)


class Net:
    def __init__(self) -> None:
        self.desks: dict[int, Desk] = {}
        self.waiting: list[Callable[[], None]] = []
        self.links: dict[tuple[Address, str], Link] = {}

    def at(self, address: Address, lane: str = "") -> Link:
        return self.links.setdefault((address, lane), Link(self, address.port - 9000))


def test_members_over_the_wire_agree_and_fail_over_without_a_time_out() -> None:
    net = Net()
    addresses = {number: Address("127.0.0.1", 9000 + number) for number in (1, 2, 3)}
    machines = {number: Machine(random=SimRandom(number)) for number in addresses}

    def settle() -> None:
        for _ in range(10_000):
            for machine in machines.values():
                machine.aside.run_all()
            if not net.waiting:
                return
            net.waiting.pop(0)()

    def pass_time(wait_ms: int) -> None:
        for _ in range(wait_ms // 5):
            for number, machine in machines.items():
                machine.clock.advance(5)
                if number in net.desks:
                    net.desks[number].quorum.tick(machine.clock.now())
            settle()

    for number, machine in machines.items():
        log = MetadataLog(machine.open_log(), machine.open_log, machine.aside, machine.clock)
        transport = PeerTransport(net, Sender(CLUSTER, "C", addresses[number]), Timing(), addresses)
        voters = VoterSet([ReplicaKey(one) for one in addresses], addresses)
        world = MemberWorld(machine.aside, machine.clock, SimAlarm(), machine.random)
        store = QuorumStore(machine.files, "logs")
        member = QuorumMember(ReplicaKey(number), voters, log, store, world, transport)
        transport.on_gone = member.gone
        net.desks[number] = Desk(member)
        member.start()
    pass_time(3_000)
    (old,) = (desk.quorum for desk in net.desks.values() if desk.quorum.is_active)
    end = old.propose([b"one"])
    pass_time(50)
    assert {desk.quorum.high_watermark for desk in net.desks.values()} == {end}

    del net.desks[old.node_id]
    for (address, _), link in list(net.links.items()):
        if address == addresses[old.node_id]:
            for tell in link.lost:
                tell(Unreachable("closed"))
    pass_time(200)

    (new,) = (desk.quorum for desk in net.desks.values() if desk.quorum.is_active)
    assert {desk.quorum.leader for desk in net.desks.values()} == {new.node_id}
    assert new.high_watermark > end

"""Voters come and go one at a time, by the log, over restarts and in snapshots (R8, KIP-853)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from everlog.broker.desk.handlers import add_raft_voter, describe_quorum, remove_raft_voter, update_raft_voter
from everlog.broker.exchange import Exchange
from everlog.controller.metadata_log import MetadataLog
from everlog.model.errors import ErrorCode, StorageError
from everlog.peers.address import Address
from everlog.raft.member import QuorumMember
from everlog.raft.messages import (
    AddVoter,
    Answer,
    ChangeReply,
    Endpoint,
    RemoveVoter,
    ReplicaKey,
    Served,
    UpdateVoter,
)
from everlog.raft.voters import VoterSet
from everlog.sim.chance import SimRandom
from everlog.wire.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from everlog.wire.message import Message
from everlog.wire.messages import add_raft_voter as wire_add
from everlog.wire.messages import describe_quorum as wire_describe
from everlog.wire.messages import remove_raft_voter as wire_remove
from everlog.wire.messages import update_raft_voter as wire_update
from tests.unit.controller.builders import Machine
from tests.unit.raft.test_member import Trio, directory_of

FOURTH = ReplicaKey(4, directory_of(4))
THERE = (Endpoint("CONTROLLER", Address("127.0.0.1", 9004)),)
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


def four(with_snapshots: bool = False) -> tuple[Trio, QuorumMember]:
    """Three that vote, and a fourth that was told where to ask; returns them and their leader."""
    trio = Trio(with_snapshots=with_snapshots, with_directories=True)
    for number in (1, 2, 3):
        trio.start(number)
    trio.pass_time(3_000)
    trio.machines[4] = Machine(random=SimRandom(4))
    trio.start(4, bootstrap=(-2,))
    trio.pass_time(1_000)
    return trio, trio.leader()


def outcome(trio: Trio, member: QuorumMember, change: Served) -> ChangeReply:
    answers: list[Answer] = []
    member.asked(change, answers.append)
    trio.pass_time(500)
    (answer,) = answers
    assert isinstance(answer, ChangeReply)
    return answer


def test_one_that_was_told_whom_to_ask_finds_the_leader_and_follows() -> None:
    trio, leader = four()

    end = leader.propose([b"one"])
    trio.pass_time(100)

    assert trio.wires.members[4].leader == leader.node_id
    assert trio.wires.members[4].high_watermark == end
    assert leader.voters.ids == (1, 2, 3)


def test_a_replica_that_follows_is_made_a_voter_and_counts() -> None:
    trio, leader = four()

    assert outcome(trio, leader, AddVoter(FOURTH, THERE)).error is ErrorCode.NONE

    for member in trio.wires.members.values():
        assert member.voters.ids == (1, 2, 3, 4)
        assert list(member.voters) == [ReplicaKey(number, directory_of(number)) for number in (1, 2, 3, 4)]
        assert member.voters.address(4) == Address("127.0.0.1", 9004)
    before = leader.high_watermark
    for number in (1, 2, 3):
        if number != leader.node_id:
            del trio.wires.members[number]
    leader.propose([b"two of four"])
    trio.pass_time(300)
    assert leader.high_watermark == before, "two of four are no majority"


def test_voters_outlive_restarts_and_are_in_snapshots() -> None:
    trio, leader = four(with_snapshots=True)
    outcome(trio, leader, AddVoter(FOURTH, THERE))
    told: list[StorageError | None] = []
    for _ in range(3):
        leader.propose([b"x"])
        trio.pass_time(100)
        leader.take_snapshot(leader.high_watermark, leader.epoch, [b"y"], told.append)
        trio.pass_time(100)
    assert told == [None] * 3
    assert leader.start_offset > 0

    other = next(number for number in (1, 2, 3) if number != leader.node_id)
    again = trio.start(leader.node_id)
    assert again.voters.ids == (1, 2, 3, 4)
    trio.pass_time(3_000)
    trio.machines[5] = Machine(random=SimRandom(5))
    late = trio.start(5, bootstrap=(-1 - other,))
    trio.pass_time(1_000)

    assert late.voters.ids == (1, 2, 3, 4)


def test_a_voter_that_is_removed_votes_no_more() -> None:
    trio, leader = four()
    gone = next(number for number in (1, 2, 3) if number != leader.node_id)
    key = ReplicaKey(gone, directory_of(gone))

    assert outcome(trio, leader, RemoveVoter(key)).error is ErrorCode.NONE

    assert gone not in leader.voters.ids
    epoch = leader.epoch
    trio.pass_time(5_000)
    assert trio.leader().epoch == epoch, "it disturbs nobody"
    assert trio.wires.members[gone].high_watermark == leader.high_watermark


def test_a_leader_that_is_removed_leads_until_that_is_committed_and_hands_over() -> None:
    trio, leader = four()
    key = ReplicaKey(leader.node_id, directory_of(leader.node_id))

    assert outcome(trio, leader, RemoveVoter(key)).error is ErrorCode.NONE
    trio.pass_time(1_000)

    new = trio.leader()
    assert new is not leader
    assert leader.node_id not in new.voters.ids
    assert trio.heard[leader.node_id].words[-1] != "stood down", "it follows"
    assert leader.leader == new.node_id


def test_changes_that_cannot_be_are_refused() -> None:
    trio, leader = four()
    other = next(number for number in (1, 2, 3) if number != leader.node_id)
    refused: list[tuple[Served, ErrorCode]] = [
        (AddVoter(ReplicaKey(other, directory_of(9)), THERE), ErrorCode.DUPLICATE_VOTER),
        (RemoveVoter(ReplicaKey(9)), ErrorCode.VOTER_NOT_FOUND),
        (RemoveVoter(FOURTH), ErrorCode.VOTER_NOT_FOUND),
        (UpdateVoter(FOURTH, THERE), ErrorCode.VOTER_NOT_FOUND),
    ]
    for change, code in refused:
        assert outcome(trio, leader, change).error is code
    assert outcome(trio, trio.wires.members[other], AddVoter(FOURTH, THERE)).error is (
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


def test_a_voter_with_a_new_disk_is_not_the_voter_that_was_added() -> None:
    trio, leader = four()
    outcome(trio, leader, AddVoter(FOURTH, THERE))

    assert leader.voters.has(FOURTH)
    assert not leader.voters.has(ReplicaKey(4, directory_of(9)))
    assert (
        outcome(trio, leader, RemoveVoter(ReplicaKey(4, directory_of(9)))).error is ErrorCode.VOTER_NOT_FOUND
    )


def test_one_that_does_not_catch_up_in_time_is_not_added() -> None:
    trio, leader = four()
    answers: list[Answer] = []

    leader.asked(AddVoter(ReplicaKey(9), THERE, timeout_ms=300), answers.append)
    trio.pass_time(200)
    assert not answers
    second: list[Answer] = []
    leader.asked(RemoveVoter(ReplicaKey(2, directory_of(2))), second.append)
    trio.pass_time(300)

    assert [one.error for one in [*second, *answers] if isinstance(one, ChangeReply)] == [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REQUEST_TIMED_OUT,
    ]
    assert leader.voters.ids == (1, 2, 3)


def test_the_next_change_waits_for_the_one_before_to_be_committed() -> None:
    trio, leader = four()
    others = [number for number in (1, 2, 3) if number != leader.node_id]
    for number in (*others, 4):
        del trio.wires.members[number]
    answers: list[Answer] = []

    leader.asked(RemoveVoter(ReplicaKey(others[0], directory_of(others[0]))), answers.append)
    leader.asked(RemoveVoter(ReplicaKey(others[1], directory_of(others[1]))), answers.append)

    (second,) = answers
    assert isinstance(second, ChangeReply)
    assert second.error is ErrorCode.REQUEST_TIMED_OUT
    assert len(leader.voters) == 2, "in force, and not committed"


def test_who_asks_about_a_change_is_told_when_the_lead_is_lost() -> None:
    leader = four()[1]
    answers: list[Answer] = []

    leader.asked(AddVoter(ReplicaKey(9), THERE), answers.append)
    leader.resign()

    (answer,) = answers
    assert isinstance(answer, ChangeReply)
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- as requests


@dataclass
class Desk:
    quorum: QuorumMember
    cluster_id: str = CLUSTER


@dataclass
class OneExchange:
    api_version: int
    answers: list[Any]

    def answer(self, message: Message) -> None:
        assert message.KEY is not None
        frame = encode_response(message, self.api_version, 1)[4:]
        self.answers.append(decode_response(message.KEY, self.api_version, frame)[1])


def ask(trio: Trio, member: QuorumMember, handle: Callable[..., None], request: Message, version: int) -> Any:
    frame = encode_request(request, version, 1, "test")[4:]
    exchange = OneExchange(version, [])
    handle(Desk(member), decode_request(read_request_header(frame), frame), cast(Exchange, exchange))
    trio.pass_time(500)
    (answer,) = exchange.answers
    return answer


def test_voters_are_added_moved_and_removed_by_requests() -> None:
    trio, leader = four()
    listener = wire_add.Listener(name="CONTROLLER", host="127.0.0.1", port=9004)
    add = wire_add.AddRaftVoterRequest(
        cluster_id=CLUSTER,
        timeout_ms=1_000,
        voter_id=4,
        voter_directory_id=directory_of(4),
        listeners=[listener],
    )

    added = ask(trio, leader, add_raft_voter.handle, add, 1)
    assert (added.error_code, added.error_message) == (0, None)
    moved = ask(
        trio,
        leader,
        update_raft_voter.handle,
        wire_update.UpdateRaftVoterRequest(
            cluster_id=CLUSTER,
            current_leader_epoch=leader.epoch,
            voter_id=4,
            voter_directory_id=directory_of(4),
            listeners=[wire_update.Listener(name="CONTROLLER", host="::1", port=9014)],
        ),
        0,
    )
    assert moved.error_code == 0
    assert moved.current_leader.leader_id == leader.node_id
    assert leader.voters.address(4) == Address("::1", 9014)
    removed = ask(
        trio,
        leader,
        remove_raft_voter.handle,
        wire_remove.RemoveRaftVoterRequest(
            cluster_id=CLUSTER, voter_id=4, voter_directory_id=directory_of(4)
        ),
        0,
    )
    assert removed.error_code == 0
    assert leader.voters.ids == (1, 2, 3)


def test_requests_that_cannot_be_meant_are_refused() -> None:
    trio, leader = four()
    epoch = leader.epoch
    cases: list[tuple[Message, Callable[..., None], ErrorCode]] = [
        (
            wire_add.AddRaftVoterRequest(cluster_id="other"),
            add_raft_voter.handle,
            ErrorCode.INCONSISTENT_CLUSTER_ID,
        ),
        (
            wire_add.AddRaftVoterRequest(cluster_id=CLUSTER, voter_id=4),
            add_raft_voter.handle,
            ErrorCode.INVALID_REQUEST,
        ),
        (
            wire_add.AddRaftVoterRequest(cluster_id=None, voter_id=-1),
            add_raft_voter.handle,
            ErrorCode.INVALID_REQUEST,
        ),
        (
            wire_remove.RemoveRaftVoterRequest(cluster_id="other"),
            remove_raft_voter.handle,
            ErrorCode.INCONSISTENT_CLUSTER_ID,
        ),
        (
            wire_update.UpdateRaftVoterRequest(cluster_id=CLUSTER, current_leader_epoch=epoch - 1),
            update_raft_voter.handle,
            ErrorCode.FENCED_LEADER_EPOCH,
        ),
        (
            wire_update.UpdateRaftVoterRequest(cluster_id=CLUSTER, current_leader_epoch=epoch),
            update_raft_voter.handle,
            ErrorCode.INVALID_REQUEST,
        ),
    ]
    for request, handle, code in cases:
        assert ask(trio, leader, handle, request, 0).error_code == code


def test_the_quorum_is_described_by_its_leader() -> None:
    trio, leader = four()
    request = wire_describe.DescribeQuorumRequest(
        topics=[
            wire_describe.RequestTopicData(
                topic_name="__cluster_metadata", partitions=[wire_describe.RequestPartitionData()]
            )
        ]
    )

    answer = ask(trio, leader, describe_quorum.handle, request, 2)

    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (
        0,
        leader.node_id,
        leader.epoch,
    )
    assert partition.high_watermark == leader.high_watermark
    assert [one.replica_id for one in partition.current_voters] == [1, 2, 3]
    assert {one.log_end_offset for one in partition.current_voters} == {leader.end_offset}
    assert {one.replica_directory_id for one in partition.current_voters} == {
        directory_of(number) for number in (1, 2, 3)
    }
    assert [one.replica_id for one in partition.observers] == [4]
    wall = trio.machines[leader.node_id].clock.wall()
    for one in (*partition.current_voters, *partition.observers):
        assert wall - 1_000 <= one.last_fetch_timestamp <= wall
        assert wall - 1_000 <= one.last_caught_up_timestamp <= wall
    assert [(node.node_id, node.listeners[0].port) for node in answer.nodes] == [
        (1, 9001),
        (2, 9002),
        (3, 9003),
    ]

    other = next(member for member in trio.wires.members.values() if member is not leader)
    refused = ask(trio, other, describe_quorum.handle, request, 2).topics[0].partitions[0]
    assert (refused.error_code, refused.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader.node_id)
    old = ask(trio, leader, describe_quorum.handle, request, 0)
    assert [one.replica_id for one in old.topics[0].partitions[0].current_voters] == [1, 2, 3]
    nothing = ask(trio, leader, describe_quorum.handle, wire_describe.DescribeQuorumRequest(), 0)
    assert nothing.topics == []


def test_voters_that_are_cut_off_the_log_are_in_force_no_more() -> None:
    machine = Machine()
    log = MetadataLog(machine.open_log(), machine.open_log, machine.aside, machine.clock)
    first, second = VoterSet([FOURTH]), VoterSet([FOURTH, ReplicaKey(5)])
    log.append_voters(1, first)
    end = log.end_offset
    log.append_voters(1, second)
    assert (log.voters, log.previous_voters, log.voters_end) == (second, first, end + 1)

    log.truncate(end)

    assert (log.voters, log.previous_voters, log.voters_end) == (first, None, end)
    again = MetadataLog(machine.open_log(), machine.open_log, machine.aside, machine.clock)
    assert (again.voters, again.voters_end) == (first, end)

"""A member of the quorum on its disk: what a vote must outlive, what happens when the disk fails (R8)."""

import errno
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from everlog.controller.metadata_log import MetadataLog, quorum_timing, static_voters
from everlog.model.errors import ErrorCode, StorageError
from everlog.model.ids import NO_UUID, Instant, LeaderEpoch, Offset, Uuid
from everlog.peers.address import Address
from everlog.raft.member import RETRY_MS, MemberWorld, QuorumMember
from everlog.raft.messages import Answer, Fetch, FetchReply, ReplicaKey, Request, Vote, VoteReply
from everlog.raft.replica import LeaderChange
from everlog.raft.snapshots import SnapshotFiles
from everlog.raft.store import QuorumState, QuorumStore
from everlog.raft.voters import VoterSet
from everlog.records.batch import BatchView
from everlog.records.control import ControlType, control_type
from everlog.records.reader import read_records
from everlog.sim.alarm import SimAlarm
from everlog.sim.chance import SimRandom
from everlog.sim.faults import Crashed, Fault, Kind, Moment
from everlog.sim.platter import Loss
from everlog.wire.codec import decode_value
from everlog.wire.messages.leader_change_message import LeaderChangeMessage
from tests.unit.controller.builders import DIRECTORY, PATH, Machine, some_settings

ME = ReplicaKey(1, DIRECTORY)


@dataclass
class Heard:
    """A listener that writes down what it is told."""

    words: list[object] = field(default_factory=list[object])
    on_committed: Callable[[Offset], object] = lambda _: None

    def committed(self, high_watermark: Offset) -> None:
        self.words.append(int(high_watermark))
        self.on_committed(high_watermark)

    def activated(self, epoch: int) -> None:
        self.words.append(f"leads {epoch}")

    def stood_down(self) -> None:
        self.words.append("stood down")


def a_member(machine: Machine, heard: Heard | None = None) -> tuple[QuorumMember, MetadataLog]:
    """Of a quorum of one, from what is on the disk, not started."""
    log = MetadataLog(machine.open_log(), machine.open_log, machine.aside, machine.clock)
    world = MemberWorld(machine.aside, machine.clock, SimAlarm(), machine.random)
    member = QuorumMember(ME, VoterSet([ME]), log, QuorumStore(machine.files, "logs"), world)
    if heard is not None:
        member.follow(heard)
    return member, log


def leading(machine: Machine, heard: Heard | None = None) -> tuple[QuorumMember, MetadataLog]:
    member, log = a_member(machine, heard)
    member.start()
    machine.aside.run_all()
    assert member.is_active
    return member, log


def pass_time(machine: Machine, member: QuorumMember, wait_ms: int) -> None:
    machine.clock.advance(wait_ms)
    member.tick(machine.clock.now())
    machine.aside.run_all()


def batches(log: MetadataLog) -> list[BatchView]:
    return list(log.batches())


def values(log: MetadataLog) -> list[bytes | None]:
    return [r.value for batch in batches(log) if not batch.is_control for r in read_records(batch)]


def test_a_lead_begins_with_a_leader_change_of_its_epoch() -> None:
    heard = Heard()
    member, log = leading(Machine(), heard)

    (batch,) = batches(log)
    (record,) = read_records(batch)
    assert batch.is_control
    assert batch.leader_epoch == member.epoch == 1
    assert control_type(record.key) is ControlType.LEADER_CHANGE
    assert record.value is not None
    change = decode_value(LeaderChangeMessage, 0, record.value)
    assert change.leader_id == 1
    assert [voter.voter_id for voter in change.voters] == [1]
    assert [voter.voter_id for voter in change.granting_voters] == [1]
    assert heard.words == [1, "leads 1"]
    assert (member.leader, member.leader_address) == (1, None)


def test_a_quorum_of_one_leads_after_two_jobs_of_the_disk_and_no_wait() -> None:
    machine = Machine()
    member, _ = a_member(machine)
    member.start()
    jobs = 0
    while machine.aside.work():
        jobs += 1
        machine.aside.finish()

    assert member.is_active
    assert jobs == 2, "the vote, and the entry that announces the leader"


class Silence:
    """A transport to nodes that do not answer."""

    def address(self, node: int) -> Address | None:
        return None

    def learn(self, addresses: Mapping[int, Address]) -> None:
        pass

    def ask(self, node: int, request: Request, done: Callable[[Answer | None], None]) -> None:
        pass


def test_nobody_rings_while_the_vote_is_being_written() -> None:
    """What is due by then has to wait for the disk anyway; an alarm would ring without a pause."""
    machine, alarm, candidate = Machine(), SimAlarm(), ReplicaKey(2)
    log = MetadataLog(machine.open_log(), machine.open_log, machine.aside, machine.clock)
    world = MemberWorld(machine.aside, machine.clock, alarm, machine.random)
    voters = VoterSet([ME, candidate, ReplicaKey(3)])
    member = QuorumMember(ME, voters, log, QuorumStore(machine.files, "logs"), world, Silence())
    member.start()
    machine.aside.run_all()
    said: list[Answer] = []
    member.asked(Vote(candidate, 7, 9, Offset(99), False, ME), said.append)
    machine.clock.advance(60_000)

    alarm.deadline = None
    member.tick(machine.clock.now())
    assert (alarm.deadline, said) == (None, [])
    machine.aside.run_all()
    assert said == [VoteReply(7, None, granted=True)]
    assert alarm.deadline is not None
    assert alarm.deadline > machine.clock.now(), "it has voted just now, and stands against nobody"


def test_the_vote_is_durable_before_anybody_hears_of_the_lead() -> None:
    machine = Machine()
    heard = Heard()
    member, _ = a_member(machine, heard)

    member.start()
    member.tick(Instant(machine.clock.now() + 5))
    assert machine.aside.waiting == 1
    assert QuorumStore(machine.files, "logs").read() is None
    machine.aside.work()
    assert not heard.words
    machine.aside.run_all()

    kept = QuorumStore(machine.files, "logs").read()
    assert kept == QuorumState(1, voted=1, voted_directory=DIRECTORY)
    assert heard.words == [1, "leads 1"]


def test_epochs_rise_over_restarts_even_if_only_the_log_or_only_the_vote_is_left() -> None:
    machine = Machine()
    assert leading(machine)[0].epoch == 1
    machine.files.unlink("logs/quorum-state")
    assert leading(machine)[0].epoch == 2
    QuorumStore(machine.files, "logs").write(QuorumState(9))
    assert leading(machine)[0].epoch == 10


def test_nothing_is_committed_before_it_is_synced() -> None:
    machine = Machine()
    heard = Heard()
    member, _ = leading(machine, heard)

    assert member.propose([b"one", b"two"]) == 3
    assert (member.end_offset, member.high_watermark) == (3, 1)
    machine.aside.run_all()

    assert (member.high_watermark, heard.words[-1]) == (3, 3)


def test_a_proposal_during_a_sync_waits_for_the_next() -> None:
    machine = Machine()
    member, _ = leading(machine)

    member.propose([b"one"])
    machine.aside.work()
    member.propose([b"two"])
    member.propose([b"three"])
    machine.aside.finish()
    assert member.high_watermark == 2
    assert machine.aside.waiting == 1, "one sync for the two"
    machine.aside.run_all()

    assert member.high_watermark == 4


def test_who_is_told_may_propose_at_once() -> None:
    machine = Machine()
    heard = Heard()
    member, log = leading(machine, heard)
    heard.on_committed = lambda end: end <= 2 and member.propose([b"two"])

    member.propose([b"one"])
    machine.aside.run_all()

    assert values(log) == [b"one", b"two"]
    assert heard.words[2:] == [2, 3]


def test_a_failed_sync_ends_the_lead_and_what_was_not_committed_is_gone() -> None:
    machine = Machine()
    heard = Heard()
    member, log = leading(machine, heard)
    member.propose([b"kept"])
    machine.aside.run_all()
    machine.files.faults = [Fault(Kind.SYNC, errno.EIO, times=1)]

    member.propose([b"one"])
    member.propose([b"two"])
    machine.aside.run_all()

    assert heard.words == [1, "leads 1", 2, "stood down", 3, "leads 2"]
    assert [batch.is_control for batch in batches(log)] == [True, False, True]
    assert values(log) == [b"kept"]
    member.propose([b"three"])
    machine.aside.run_all()
    assert values(log) == [b"kept", b"three"]


def test_what_a_failed_sync_was_about_does_not_come_back() -> None:
    # The page cache has it, and a later sync says that all is well without writing it.
    machine = Machine()
    member, _ = leading(machine)
    machine.files.faults = [Fault(Kind.SYNC, errno.EIO, times=1)]
    member.propose([b"lost"])
    machine.aside.run_all()
    member.propose([b"after"])
    machine.aside.run_all()
    assert member.high_watermark == member.end_offset

    found = Machine(machine.files.after_crash(machine.random, Loss.ALL))
    _, log = leading(found)

    assert values(log) == [b"after"]


def test_a_disk_that_goes_on_failing_is_tried_again_after_a_while() -> None:
    machine = Machine()
    heard = Heard()
    member, log = leading(machine, heard)
    machine.files.faults = [Fault(Kind.SYNC, errno.EIO)]
    member.propose([b"one"])
    machine.aside.run_all()
    assert (heard.words[-1], member.is_active, member.leader, machine.aside.waiting) == (
        "stood down", False, None, 0,
    )  # fmt: skip

    member.tick(Instant(machine.clock.now() + RETRY_MS - 1))
    assert machine.aside.waiting == 0
    pass_time(machine, member, RETRY_MS)
    assert not member.is_active
    machine.files.faults = []
    pass_time(machine, member, RETRY_MS)

    assert member.is_active
    assert not values(log)
    assert heard.words.count("stood down") == 1


def test_the_time_to_try_again_is_not_lost_when_the_alarm_rings_for_others() -> None:
    machine, alarm = Machine(), SimAlarm()
    log = MetadataLog(machine.open_log(), machine.open_log, machine.aside, machine.clock)
    world = MemberWorld(machine.aside, machine.clock, alarm, machine.random)
    member = QuorumMember(ME, VoterSet([ME]), log, QuorumStore(machine.files, "logs"), world)
    member.start()
    machine.aside.run_all()
    machine.files.faults = [Fault(Kind.SYNC, errno.EIO)]
    member.propose([b"one"])
    machine.aside.run_all()
    assert alarm.deadline == machine.clock.now() + RETRY_MS

    alarm.deadline = None
    member.tick(Instant(machine.clock.now() + 1))

    assert alarm.deadline == machine.clock.now() + RETRY_MS


def test_an_epoch_whose_entries_never_reached_the_disk_keeps_no_leader_s_out() -> None:
    """The file of epochs is written before the log is synced: a crash between the two leaves it ahead."""
    ahead, led = Machine(), Machine()
    opened = ahead.open_log()
    opened.begin_epoch(LeaderEpoch(2))
    log = MetadataLog(opened, ahead.open_log, ahead.aside, ahead.clock)
    leaders = MetadataLog(led.open_log(), led.open_log, led.aside, led.clock)
    leaders.append_leader_change(1, LeaderChange(2, (1, 2), (2,)))

    assert log.epoch_end(2) == (-1, 0)
    log.append_fetched(leaders.read(Offset(0), 1_000))

    assert (log.end_offset, log.last_epoch) == (1, 1)


def test_a_first_sync_that_fails_costs_nothing_of_what_an_earlier_run_promised() -> None:
    machine = Machine()
    member, _ = leading(machine)
    member.propose([b"promised"])
    machine.aside.run_all()

    member, _ = a_member(machine)
    machine.files.faults = [Fault(Kind.SYNC, errno.EIO, PATH, times=1)]
    member.start()
    machine.aside.run_all()
    pass_time(machine, member, RETRY_MS)
    assert not member.is_active, "nobody knows what of the log is on the disk"

    assert b"promised" in values(leading(machine)[1])


def test_a_vote_that_cannot_be_written_is_no_lead() -> None:
    machine = Machine()
    heard = Heard()
    member, _ = a_member(machine, heard)
    machine.files.faults = [Fault(Kind.RENAME, errno.EIO, "quorum-state")]

    member.start()
    machine.aside.run_all()
    assert not member.is_active
    assert not heard.words
    machine.files.faults = []
    pass_time(machine, member, RETRY_MS)

    assert member.is_active


def test_a_vote_file_that_cannot_be_read_is_no_start() -> None:
    machine = Machine()
    leading(machine)
    machine.files.flip_bit("logs/quorum-state", 0, 3)
    member, _ = a_member(machine)

    with pytest.raises(StorageError, match="quorum-state"):
        member.start()


def test_a_full_disk_refuses_a_proposal_and_changes_nothing() -> None:
    machine = Machine()
    heard = Heard()
    member, _ = leading(machine, heard)
    machine.files.faults = [Fault(Kind.APPEND, errno.ENOSPC, times=1, after_bytes=7)]

    with pytest.raises(StorageError):
        member.propose([b"one"])

    assert member.is_active
    assert member.end_offset == 1
    member.propose([b"two"])
    machine.aside.run_all()
    assert heard.words == [1, "leads 1", 2]


def test_a_log_that_takes_no_more_appends_is_opened_anew() -> None:
    machine = Machine()
    heard = Heard()
    member, log = leading(machine, heard)
    # Some bytes are written, and cannot be taken away again.
    machine.files.faults = [
        Fault(Kind.APPEND, errno.EIO, PATH, times=1, after_bytes=7),
        Fault(Kind.CUT_BACK, errno.EIO, PATH, times=1),
    ]

    with pytest.raises(StorageError):
        member.propose([b"one"])
    assert not member.is_active
    pass_time(machine, member, 1)

    assert heard.words == [1, "leads 1", "stood down", 2, "leads 2"]
    assert not values(log)


def test_a_full_disk_at_an_election_is_tried_again() -> None:
    machine = Machine()
    member, _ = a_member(machine)
    machine.files.faults = [Fault(Kind.APPEND, errno.ENOSPC, PATH)]

    member.start()
    machine.aside.run_all()
    assert not member.is_active
    machine.files.faults = []
    pass_time(machine, member, RETRY_MS)

    assert member.is_active


def test_one_who_resigns_leads_no_more_and_hears_so() -> None:
    machine = Machine()
    heard = Heard()
    member, _ = leading(machine, heard)

    member.resign()

    assert heard.words == [1, "leads 1", "stood down"]
    assert (member.is_active, member.leader) == (False, None)


def test_batches_are_stamped_with_the_epoch_and_lie_in_a_row() -> None:
    machine = Machine()
    member, _ = leading(machine)
    member.propose([b"a", b"b"])
    member.propose([b"c"])
    machine.aside.run_all()

    found = list(member.batches(Offset(0), Offset(4)))
    assert [(one.base_offset, one.count, one.leader_epoch) for one in found] == [
        (0, 1, 1), (1, 2, 1), (3, 1, 1),
    ]  # fmt: skip
    assert [one.base_offset for one in member.batches(Offset(1), Offset(3))] == [1]
    assert all(one.checksum_holds() for one in found)


def test_a_crash_at_any_operation_of_a_start_never_takes_the_epoch_back() -> None:
    whole = Machine()
    leading(whole)
    leading(whole)
    for number in range(whole.files.operations):
        for moment in Moment:
            machine = Machine()
            machine.files.crash_at(number, moment)
            epochs: list[int] = []
            with suppress(Crashed):
                for _ in range(2):
                    epochs.append(leading(machine)[0].epoch)  # noqa: PERF401  (the first outlives a crash)
            found = Machine(machine.files.after_crash(machine.random))

            assert leading(found)[0].epoch > max(epochs, default=-1), (number, moment)


# --- several


Done = Callable[[Answer | None], None]


class Wires:
    """Carries requests between members, one at a time, when told to."""

    def __init__(self) -> None:
        self.members: dict[int, QuorumMember] = {}
        self.waiting: list[tuple[Wire, int, Request, Done]] = []
        self.ends: dict[int, Wire] = {}

    def carry(self) -> bool:
        if not self.waiting:
            return False
        asker, node, request, done = self.waiting.pop(0)
        member = self.members.get(node if node >= 0 else -1 - node)  # -2 stands for node 1.
        if member is None or asker.number not in self.members or self.ends[asker.number] is not asker:
            done(None)
        else:
            member.asked(request, done)
        return True


@dataclass
class Wire:
    """One member's end of them."""

    wires: Wires
    number: int

    def address(self, node: int) -> Address | None:
        return None

    def learn(self, addresses: Mapping[int, Address]) -> None:
        pass

    def ask(self, node: int, request: Request, done: Done) -> None:
        self.wires.waiting.append((self, node, request, done))


def directory_of(number: int) -> Uuid:
    return Uuid(bytes([number]) * 16)


@dataclass
class Trio:
    """Three members on three machines."""

    machines: dict[int, Machine] = field(
        default_factory=lambda: {number: Machine(random=SimRandom(number)) for number in (1, 2, 3)}
    )
    logs: dict[int, MetadataLog] = field(default_factory=dict[int, MetadataLog])
    heard: dict[int, Heard] = field(default_factory=dict[int, Heard])
    wires: Wires = field(default_factory=Wires)
    with_snapshots: bool = False
    with_directories: bool = False
    static: tuple[int, ...] = (1, 2, 3)

    def start(self, number: int, bootstrap: tuple[int, ...] = ()) -> QuorumMember:
        machine = self.machines[number]
        opened = machine.open_log()
        snapshots = SnapshotFiles(machine.files, PATH) if self.with_snapshots else None
        log = MetadataLog(opened, machine.open_log, machine.aside, machine.clock, snapshots)
        static = () if bootstrap else self.static
        addresses = {one: Address("127.0.0.1", 9000 + one) for one in static}
        voters = VoterSet([ReplicaKey(one) for one in static], addresses)
        world = MemberWorld(machine.aside, machine.clock, SimAlarm(), machine.random)
        wire = Wire(self.wires, number)
        member = QuorumMember(
            ReplicaKey(number, directory_of(number) if self.with_directories else NO_UUID),
            voters,
            log,
            QuorumStore(machine.files, "logs"),
            world,
            wire,
            bootstrap=bootstrap,
        )
        self.wires.ends[number] = wire
        self.logs[number] = log
        self.heard[number] = Heard()
        self.wires.members[number] = member
        member.follow(self.heard[number])
        member.start()
        return member

    def settle(self) -> None:
        for _ in range(1000):
            carried = self.wires.carry()
            for machine in self.machines.values():
                machine.aside.run_all()
            if not carried:
                return

    def pass_time(self, wait_ms: int, step_ms: int = 10) -> None:
        for _ in range(wait_ms // step_ms):
            for number, machine in self.machines.items():
                machine.clock.advance(step_ms)
                if number in self.wires.members:
                    self.wires.members[number].tick(machine.clock.now())
            self.settle()

    def leader(self) -> QuorumMember:
        (one,) = (member for member in self.wires.members.values() if member.is_active)
        return one


def a_trio() -> Trio:
    trio = Trio()
    for number in (1, 2, 3):
        trio.start(number)
    trio.pass_time(3_000)
    return trio


def test_three_members_elect_one_and_have_the_same_log() -> None:
    trio = a_trio()
    leader = trio.leader()

    end = leader.propose([b"one", b"two"])
    trio.pass_time(100)

    for number, member in trio.wires.members.items():
        assert member.leader == leader.node_id
        assert member.leader_address == Address("127.0.0.1", 9000 + leader.node_id)
        assert member.high_watermark == end
        assert values(trio.logs[number]) == [b"one", b"two"]
        assert trio.heard[number].words[-1] == end
        raw = [bytes(batch.raw) for batch in member.batches(Offset(0), end)]
        assert raw == [bytes(batch.raw) for batch in leader.batches(Offset(0), end)]


def test_nothing_is_committed_by_one_of_three() -> None:
    trio = a_trio()
    leader = trio.leader()
    for number in (1, 2, 3):
        if number != leader.node_id:
            del trio.wires.members[number]
    before = leader.high_watermark

    leader.propose([b"alone"])
    trio.pass_time(500)

    assert leader.high_watermark == before


def test_another_leads_when_the_leader_has_gone_and_what_was_committed_stays() -> None:
    trio = a_trio()
    old = trio.leader()
    end = old.propose([b"kept"])
    trio.pass_time(100)
    del trio.wires.members[old.node_id]
    for member in trio.wires.members.values():
        member.gone(old.node_id)
    trio.pass_time(500)

    new = trio.leader()
    assert new.epoch > old.epoch
    assert new.high_watermark > end
    new.propose([b"more"])
    trio.pass_time(100)
    trio.start(old.node_id)
    trio.pass_time(3_000)

    assert all(values(log) == [b"kept", b"more"] for log in trio.logs.values())


def test_a_leader_whose_disk_fails_hands_over_and_follows() -> None:
    trio = a_trio()
    old = trio.leader()
    trio.machines[old.node_id].files.faults = [Fault(Kind.SYNC, errno.EIO, times=1)]

    old.propose([b"may be kept"])
    trio.pass_time(3_000)

    assert trio.leader().node_id != old.node_id
    assert trio.heard[old.node_id].words.count("stood down") == 1
    kept = {tuple(values(log)) for log in trio.logs.values()}
    assert len(kept) == 1


def test_a_follower_on_a_full_disk_catches_up_when_there_is_room() -> None:
    trio = a_trio()
    leader = trio.leader()
    late = next(number for number in (1, 2, 3) if number != leader.node_id)
    trio.machines[late].files.faults = [Fault(Kind.APPEND, errno.ENOSPC, PATH)]
    end = leader.propose([b"one"])
    trio.pass_time(2_000)
    assert leader.high_watermark == end
    assert trio.wires.members[late].end_offset < end

    trio.machines[late].files.faults = []
    trio.pass_time(2_000)

    assert trio.wires.members[late].high_watermark == end
    assert leader.is_active


def test_a_vote_is_not_answered_before_it_is_on_disk() -> None:
    trio = Trio()
    member = trio.start(1)
    machine = trio.machines[1]
    answers: list[Answer] = []

    member.asked(Vote(ReplicaKey(2), 7, 0, Offset(0), False, ReplicaKey(1)), answers.append)
    member.asked(Vote(ReplicaKey(3), 7, 0, Offset(0), False, ReplicaKey(1)), answers.append)
    machine.aside.work()
    assert not answers
    machine.aside.run_all()

    assert [answer.granted for answer in answers if isinstance(answer, VoteReply)] == [True, False]
    kept = QuorumStore(machine.files, "logs").read()
    assert kept is not None
    assert (kept.epoch, kept.voted) == (7, 2)


def test_a_vote_that_cannot_be_kept_is_refused() -> None:
    trio = Trio()
    member = trio.start(1)
    machine = trio.machines[1]
    machine.files.faults = [Fault(Kind.RENAME, errno.EIO, "quorum-state")]
    answers: list[Answer] = []

    member.asked(Vote(ReplicaKey(2), 7, 0, Offset(0), False, ReplicaKey(1)), answers.append)
    machine.aside.run_all()

    assert [answer.granted for answer in answers if isinstance(answer, VoteReply)] == [False]
    member.asked(Fetch(ReplicaKey(2), 7, Offset(0), -1, Offset(0)), answers.append)
    machine.aside.run_all()
    assert isinstance(answers[-1], FetchReply)
    assert answers[-1].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_every_request_is_answered_once_when_fetches_of_a_replica_overtake_each_other() -> None:
    trio = a_trio()
    leader = trio.leader()
    other = next(number for number in (1, 2, 3) if number != leader.node_id)
    fetch = Fetch(ReplicaKey(other), leader.epoch, leader.end_offset, leader.epoch, leader.high_watermark)
    answers: list[Answer] = []

    leader.asked(fetch, answers.append)
    leader.asked(fetch, answers.append)
    leader.propose([b"one"])

    late, new = answers
    assert isinstance(late, FetchReply)
    assert late.error is ErrorCode.REQUEST_TIMED_OUT, "or two nodes with one id chase each other"
    assert isinstance(new, FetchReply)
    assert new.batches


def test_the_voters_and_their_patience_come_from_the_settings() -> None:
    text = "1@localhost:9001,2@[::1]:9002"
    settings = some_settings(
        controller_quorum_voters=text,
        controller_quorum_fetch_timeout_ms="300",
        controller_listener_names="CONTROLLER",
        listeners="PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9001",
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
    )

    voters = static_voters(settings, ME)

    assert voters.ids == (1, 2)
    assert voters.has(ME)
    assert voters.address(2) == Address("::1", 9002)
    assert quorum_timing(settings).fetch_ms == 300
    assert quorum_timing(settings).long_poll_ms == 150, "an answer comes before it is given up"
    assert static_voters(some_settings(), ME) == VoterSet([ME])

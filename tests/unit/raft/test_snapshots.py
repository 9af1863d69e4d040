"""Snapshots of the metadata log: on disk, between replicas, and over crashes (R8, KIP-630)."""

import errno
from contextlib import suppress

import pytest

from everlog.controller.metadata_log import MetadataLog
from everlog.model.errors import CorruptDataError, ErrorCode, StorageError
from everlog.model.ids import Offset
from everlog.raft.control import voters_in
from everlog.raft.member import MemberWorld, QuorumMember
from everlog.raft.messages import (
    Answer,
    Fetch,
    FetchReply,
    FetchSnapshot,
    ReplicaKey,
    SnapshotId,
    SnapshotReply,
)
from everlog.raft.snapshots import SnapshotFiles, check, file_name, snapshot_batches, snapshot_of
from everlog.raft.store import QuorumStore
from everlog.raft.voters import VoterSet
from everlog.records.batch import HEADER_BYTES, batch_at
from everlog.records.crc import crc32c
from everlog.records.reader import read_records
from everlog.sim.alarm import SimAlarm
from everlog.sim.disk import SimFiles
from everlog.sim.faults import Crashed, Fault, Kind, Moment
from tests.unit.controller.builders import DIRECTORY, PATH, Machine
from tests.unit.raft.test_member import Trio, a_trio, values

ME = ReplicaKey(1, DIRECTORY)


def open_metadata_log(machine: Machine) -> MetadataLog:
    log = machine.open_log()
    return MetadataLog(
        log, machine.open_log, machine.aside, machine.clock, SnapshotFiles(machine.files, PATH)
    )


def leading(machine: Machine) -> tuple[QuorumMember, MetadataLog]:
    log = open_metadata_log(machine)
    world = MemberWorld(machine.aside, machine.clock, SimAlarm(), machine.random)
    member = QuorumMember(ME, VoterSet([ME]), log, QuorumStore(machine.files, "logs"), world)
    member.start()
    machine.aside.run_all()
    assert member.is_active
    return member, log


def take(machine: Machine, member: QuorumMember, *records: bytes) -> SnapshotId:
    told: list[StorageError | None] = []
    member.take_snapshot(member.high_watermark, member.epoch, iter(records), told.append)
    machine.aside.run_all()
    assert told == [None]
    assert member.snapshot is not None
    return member.snapshot


def records_of(member: QuorumMember) -> list[bytes | None]:
    return [
        record.value
        for batch in member.snapshot_batches()
        if not batch.is_control
        for record in read_records(batch)
    ]


def test_names_are_kafkas() -> None:
    snapshot = SnapshotId(Offset(1234), 7)

    assert file_name(snapshot) == "00000000000000001234-0000000007.checkpoint"
    assert snapshot_of(file_name(snapshot)) == snapshot
    assert snapshot_of("00000000000000001234.log") is None
    assert snapshot_of(file_name(snapshot) + ".part") is None


def test_a_snapshot_has_its_records_between_a_header_and_a_footer() -> None:
    content = b"".join(snapshot_batches(SnapshotId(Offset(9), 2), [b"%d" % n for n in range(5)], 7))

    check(content)
    for damaged in (content[:-1], content[:-90], content[78:], b"", content[:40] + b"\xff" + content[41:]):
        with pytest.raises(CorruptDataError):
            check(damaged)


def test_a_flipped_bit_is_found_wherever_it_counts() -> None:
    """L10: only a batch's leader epoch lies outside its checksum, and nobody goes by it in a snapshot."""
    snapshot = SnapshotId(Offset(9), 2)
    content = b"".join(snapshot_batches(snapshot, [b"%d" % n for n in range(5)], 7))
    epochs, position = set[int](), 0
    while position < len(content):
        epochs.update(range(position + 12, position + 16))
        position += batch_at(content, position).size

    for at in range(len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 1 << at % 8
        if at in epochs:
            check(bytes(flipped))
            continue
        with pytest.raises(CorruptDataError):
            check(bytes(flipped))


def test_a_control_batch_without_its_record_is_no_snapshot() -> None:
    header = bytearray(next(snapshot_batches(SnapshotId(Offset(1), 1), [], 0)))
    empty = header[:HEADER_BYTES]
    empty[8:12], empty[57:61] = (HEADER_BYTES - 12).to_bytes(4, "big"), bytes(4)
    empty[17:21] = crc32c(empty[21:]).to_bytes(4, "big")

    with pytest.raises(CorruptDataError, match="no record"):
        check(bytes(empty))
    with pytest.raises(CorruptDataError, match="no record"):
        voters_in(batch_at(bytes(empty), 0))


def test_large_snapshots_are_many_batches_with_offsets_in_a_row() -> None:
    records = [b"x" * 100_000 for _ in range(20)]
    content = b"".join(snapshot_batches(SnapshotId(Offset(9), 2), records, 7))

    check(content)
    assert len(content) > 2_000_000


def test_the_log_begins_at_the_last_snapshot_but_one() -> None:
    machine = Machine()
    member, log = leading(machine)
    ends: list[int] = []
    for number in range(4):
        member.propose([b"%d" % number])
        machine.aside.run_all()
        take(machine, member, b"up to %d" % number)
        ends.append(member.high_watermark)

    assert member.start_offset == ends[-2]
    assert records_of(member) == [b"up to 3"]
    assert SnapshotFiles(machine.files, PATH).found() == [
        SnapshotId(Offset(end), member.epoch) for end in ends[-2:]
    ]
    assert values(log) == [b"3"]


def test_the_first_snapshot_takes_nothing_away() -> None:
    machine = Machine()
    member, log = leading(machine)
    member.propose([b"one"])
    machine.aside.run_all()

    take(machine, member, b"one")

    assert member.start_offset == 0
    assert values(log) == [b"one"]


def test_a_restart_finds_the_snapshots_and_the_epoch_before_the_log() -> None:
    machine = Machine()
    member, _ = leading(machine)
    for number in range(2):
        member.propose([b"%d" % number])
        machine.aside.run_all()
        take(machine, member, b"up to %d" % number)
    epoch, end = member.epoch, member.high_watermark

    again, _ = leading(machine)

    assert again.epoch == epoch + 1
    assert again.snapshot == SnapshotId(end, epoch)
    assert again.high_watermark == end + 1
    assert records_of(again) == [b"up to 1"]


def test_a_log_that_ends_before_its_snapshot_begins_there() -> None:
    machine = Machine()
    leading(machine)
    files = SnapshotFiles(machine.files, PATH)
    snapshot = SnapshotId(Offset(100), 5)
    files.write(snapshot, snapshot_batches(snapshot, [b"all"], 7))

    log = open_metadata_log(machine)

    assert (log.start_offset, log.end_offset, log.last_epoch, log.start_epoch) == (100, 100, 5, 5)
    assert log.epoch_end(4) == (-1, 0)
    assert log.epoch_end(7) == (5, 100)
    member, _ = leading(machine)
    assert member.epoch == 6


def test_a_log_without_the_snapshot_that_it_begins_behind_is_no_log() -> None:
    machine = Machine()
    member, _ = leading(machine)
    for number in range(2):
        member.propose([b"%d" % number])
        machine.aside.run_all()
        take(machine, member)
    for snapshot in SnapshotFiles(machine.files, PATH).found():
        machine.files.unlink(f"{PATH}/{file_name(snapshot)}")
    log = machine.open_log()
    log.move_start_to(Offset(2))

    with pytest.raises(StorageError, match="no snapshot"):
        MetadataLog(log, machine.open_log, machine.aside, machine.clock, SnapshotFiles(machine.files, PATH))


def test_a_snapshot_that_the_disk_refuses_costs_nothing() -> None:
    machine = Machine()
    member, log = leading(machine)
    member.propose([b"one"])
    machine.aside.run_all()
    machine.files.faults = [Fault(Kind.APPEND, errno.ENOSPC, ".checkpoint")]
    told: list[StorageError | None] = []

    member.take_snapshot(member.high_watermark, member.epoch, [b"x"], told.append)
    machine.aside.run_all()

    assert isinstance(told[0], StorageError)
    assert member.snapshot is None
    assert member.is_active
    machine.files.faults = []
    take(machine, member, b"y")
    assert values(log) == [b"one"]


def test_a_crash_at_any_operation_of_a_snapshot_loses_nothing() -> None:
    def run(machine: Machine, committed: list[bytes]) -> None:
        member, _ = leading(machine)
        for number in range(3):
            member.propose([b"%d" % number])
            machine.aside.run_all()
            committed.append(b"%d" % number)
            take(machine, member, *committed)

    whole = Machine()
    run(whole, [])
    for number in range(0, whole.files.operations, 2):
        for moment in (Moment.BEFORE, Moment.AFTER):
            machine = Machine()
            machine.files.crash_at(number, moment)
            committed: list[bytes] = []
            with suppress(Crashed):
                run(machine, committed)
            found = Machine(machine.files.after_crash(machine.random))
            member, log = leading(found)

            snapshot = member.snapshot
            state = [] if snapshot is None else records_of(member)
            start = Offset(0) if snapshot is None else snapshot.end
            behind = [
                record.value
                for batch in log.batches(start, member.high_watermark)
                if not batch.is_control
                for record in read_records(batch)
            ]
            assert (state + behind)[: len(committed)] == committed, (number, moment)


# --- between replicas


def a_trio_with_snapshots() -> Trio:
    trio = Trio()
    trio.with_snapshots = True
    for number in (1, 2, 3):
        trio.start(number)
    trio.pass_time(3_000)
    return trio


def one_behind(trio: Trio) -> tuple[QuorumMember, int, list[bytes]]:
    """Stop a follower and take snapshots of what comes then; returns leader, follower, what was committed."""
    leader = trio.leader()
    late = next(number for number in (1, 2, 3) if number != leader.node_id)
    del trio.wires.members[late]
    said: list[bytes] = []
    for number in range(3):
        said.append(b"%d" % number * 300)
        leader.propose([said[-1]])
        trio.pass_time(100)
        take(trio.machines[leader.node_id], leader, *said)
    assert leader.start_offset > 0
    return leader, late, said


def test_one_that_is_too_far_behind_gets_a_snapshot_and_follows() -> None:
    trio = a_trio_with_snapshots()
    leader, late, said = one_behind(trio)

    member = trio.start(late)
    trio.pass_time(3_000)
    end = leader.propose([b"more"])
    trio.pass_time(100)

    assert member.leader == leader.node_id
    assert member.high_watermark == end
    assert member.snapshot == leader.snapshot
    assert leader.snapshot is not None
    assert member.start_offset == leader.snapshot.end
    assert records_of(member) == said
    assert values(trio.logs[late]) == [b"more"]
    assert leader.snapshot.end in trio.heard[late].words


def test_a_snapshot_is_fetched_in_parts() -> None:
    trio = a_trio_with_snapshots()
    leader, late, _ = one_behind(trio)
    assert leader.snapshot is not None
    answers: list[Answer] = []
    behind = Fetch(ReplicaKey(late), leader.epoch, Offset(1), 1, Offset(0))
    leader.asked(behind, answers.append)
    (told,) = answers
    assert isinstance(told, FetchReply)
    assert told.snapshot == leader.snapshot

    content = b""
    for _ in range(100):
        asked = FetchSnapshot(ReplicaKey(late), leader.epoch, leader.snapshot, len(content), max_bytes=100)
        leader.asked(asked, answers.append)
        part = answers[-1]
        assert isinstance(part, SnapshotReply)
        assert len(part.data) <= 100
        content += part.data
        if len(content) == part.size:
            break

    check(content)


def test_parts_that_are_not_there_are_refused() -> None:
    trio = a_trio_with_snapshots()
    leader, late, _ = one_behind(trio)
    assert leader.snapshot is not None
    replica = ReplicaKey(late)
    follower = next(member for member in trio.wires.members.values() if not member.is_active)
    asks = [
        (leader, FetchSnapshot(replica, leader.epoch, SnapshotId(Offset(1), 1), 0)),
        (leader, FetchSnapshot(replica, leader.epoch, leader.snapshot, 10**9)),
        (leader, FetchSnapshot(replica, leader.epoch - 1, leader.snapshot, 0)),
        (follower, FetchSnapshot(replica, leader.epoch, leader.snapshot, 0)),
    ]
    codes: list[ErrorCode] = []
    for member, asked in asks:
        answers: list[Answer] = []
        member.asked(asked, answers.append)
        (answer,) = answers
        assert isinstance(answer, SnapshotReply)
        codes.append(answer.error)

    assert codes == [
        ErrorCode.SNAPSHOT_NOT_FOUND,
        ErrorCode.POSITION_OUT_OF_RANGE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]


def test_a_disk_that_fails_during_an_install_is_tried_again() -> None:
    trio = a_trio_with_snapshots()
    leader, late, said = one_behind(trio)
    trio.machines[late].files.faults = [Fault(Kind.SYNC, errno.EIO, ".checkpoint", times=1)]

    member = trio.start(late)
    trio.pass_time(4_000)

    assert member.snapshot == leader.snapshot
    assert records_of(member) == said
    assert member.high_watermark == leader.high_watermark


def test_a_part_that_was_damaged_on_its_way_is_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    trio = a_trio_with_snapshots()
    leader, late, said = one_behind(trio)
    keep = SnapshotFiles.write_part
    times = 0

    def write_part(self: SnapshotFiles, snapshot: SnapshotId, position: int, data: bytes) -> None:
        nonlocal times
        times += 1
        keep(self, snapshot, position, bytes([data[0] ^ 1]) + data[1:] if times == 1 else data)

    monkeypatch.setattr(SnapshotFiles, "write_part", write_part)
    member = trio.start(late)
    trio.pass_time(3_000)

    assert times == 2
    assert records_of(member) == said
    assert member.high_watermark == leader.high_watermark


def test_a_crash_at_any_operation_of_an_install_loses_nothing() -> None:
    trio = a_trio_with_snapshots()
    leader, late, said = one_behind(trio)
    before = trio.machines[late]
    saved = before.files.after_crash(before.random)

    def fresh(number: int | None, moment: Moment) -> SimFiles:
        files = saved.after_crash(before.random)
        if number is not None:
            files.crash_at(files.operations + number, moment)
        return files

    def run(files: SimFiles) -> QuorumMember | None:
        trio.machines[late] = Machine(files, random=before.random)
        try:
            member = trio.start(late)
            trio.pass_time(800, 40)
        except Crashed:
            trio.wires.members.pop(late, None)
            trio.wires.waiting.clear()
            return None
        del trio.wires.members[late]
        return member

    files = fresh(None, Moment.AFTER)
    begun = files.operations
    run(files)
    for number in range(files.operations - begun):
        files = fresh(number, (Moment.BEFORE, Moment.AFTER)[number % 2])
        if run(files) is None:
            member = run(files.after_crash(before.random))
            assert member is not None
            assert member.high_watermark == leader.high_watermark, number
            assert records_of(member) == said


def test_without_snapshots_nothing_changes() -> None:
    trio = a_trio()

    assert trio.leader().snapshot is None
    assert trio.leader().start_offset == 0

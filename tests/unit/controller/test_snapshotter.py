"""Snapshots are taken of what is committed when enough has come, and a node starts from the newest (R8)."""

from everlog.controller.metadata_log import MetadataLog
from everlog.controller.snapshotter import Snapshotter, load_image
from everlog.metadata.delta import apply
from everlog.metadata.image import EMPTY_IMAGE, ClusterImage
from everlog.metadata.records import encode_record
from everlog.model.ids import Uuid
from everlog.raft.member import MemberWorld, QuorumMember
from everlog.raft.messages import ReplicaKey
from everlog.raft.snapshots import SnapshotFiles
from everlog.raft.store import QuorumStore
from everlog.raft.voters import VoterSet
from everlog.sim.alarm import SimAlarm
from everlog.wire.messages.no_op_record import NoOpRecord
from everlog.wire.messages.topic_record import TopicRecord
from tests.unit.controller.builders import DIRECTORY, PATH, Machine


def leading(machine: Machine) -> QuorumMember:
    files = SnapshotFiles(machine.files, PATH)
    log = MetadataLog(machine.open_log(), machine.open_log, machine.aside, machine.clock, files)
    me = ReplicaKey(1, DIRECTORY)
    world = MemberWorld(machine.aside, machine.clock, SimAlarm(), machine.random)
    member = QuorumMember(me, VoterSet([me]), log, QuorumStore(machine.files, "logs"), world)
    member.start()
    machine.aside.run_all()
    return member


def with_topic(machine: Machine, member: QuorumMember, image: ClusterImage, number: int) -> ClusterImage:
    record = TopicRecord(name=f"topic-{number}", topic_id=Uuid(bytes([number + 1]) * 16))
    member.propose([encode_record(record)])
    machine.aside.run_all()
    return apply(image, [record], member.epoch)


def test_a_snapshot_is_taken_when_enough_was_written_and_read_back() -> None:
    machine = Machine()
    member = leading(machine)
    snapshotter = Snapshotter(member, machine.clock, bytes_between=400)
    image = apply(EMPTY_IMAGE, [NoOpRecord()], member.epoch)
    taken: list[int] = []
    for number in range(16):
        image = with_topic(machine, member, image, number)
        snapshotter.published(image)
        machine.aside.run_all()
        if member.snapshot is not None and member.snapshot.end not in taken:
            taken.append(member.snapshot.end)
            assert load_image(member) == image
    assert len(taken) >= 2
    assert member.start_offset == taken[-2]

    again = leading(machine)
    assert list(load_image(again).topics) == [f"topic-{number}" for number in range(taken[-1] - 1)]


def test_a_snapshot_is_taken_when_enough_time_has_passed_but_not_twice_of_the_same() -> None:
    machine = Machine()
    member = leading(machine)
    snapshotter = Snapshotter(member, machine.clock, interval_ms=1_000)
    image = with_topic(machine, member, apply(EMPTY_IMAGE, [NoOpRecord()], member.epoch), 0)

    snapshotter.published(image)
    assert machine.aside.waiting == 0
    machine.clock.advance(1_000)
    snapshotter.published(image)
    machine.aside.run_all()
    assert load_image(member) == image
    machine.clock.advance(1_000)
    snapshotter.published(image)

    assert machine.aside.waiting == 0

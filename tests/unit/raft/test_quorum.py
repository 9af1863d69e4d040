"""The quorum of one: epochs, what is committed, what a vote must outlive (reliability: R8)."""

import errno
from contextlib import suppress

import pytest

from everlog.controller.metadata_log import MetadataLog
from everlog.model.errors import CorruptDataError, StorageError
from everlog.model.ids import NO_UUID, BrokerId, Offset, Uuid
from everlog.raft.leader import Leader
from everlog.raft.quorum import Quorum
from everlog.raft.store import QuorumState, QuorumStore, decode_state, encode_state
from everlog.records.batch import BatchView, batch_at
from everlog.records.control import ControlType, control_type
from everlog.records.reader import read_records
from everlog.sim.faults import Crashed, Fault, Kind, Moment
from everlog.sim.platter import Loss
from everlog.wire.codec import decode_value
from everlog.wire.messages.leader_change_message import LeaderChangeMessage
from tests.unit.controller.builders import DIRECTORY, Machine

ME = BrokerId(1)


def a_quorum(machine: Machine) -> tuple[Quorum, MetadataLog]:
    log = MetadataLog(machine.open_log(), machine.open_log, machine.aside, machine.clock)
    store = QuorumStore(machine.files, "logs")
    return Quorum(ME, DIRECTORY, log, store, machine.aside, machine.clock), log


def leading(machine: Machine) -> tuple[Quorum, MetadataLog]:
    quorum, log = a_quorum(machine)
    told: list[StorageError | None] = []
    quorum.lead(told.append)
    machine.aside.run_all()
    assert told == [None]
    return quorum, log


def batches(log: MetadataLog) -> list[BatchView]:
    return list(log.batches())


def test_a_lead_begins_with_a_leader_change_of_its_epoch() -> None:
    quorum, log = leading(Machine())

    (batch,) = batches(log)
    (record,) = read_records(batch)
    assert batch.is_control
    assert batch.leader_epoch == quorum.epoch == 0
    assert control_type(record.key) is ControlType.LEADER_CHANGE
    assert record.value is not None
    change = decode_value(LeaderChangeMessage, 0, record.value)
    assert change.leader_id == ME
    assert [voter.voter_id for voter in change.voters] == [ME]


def test_the_vote_is_durable_before_the_lead_begins() -> None:
    machine = Machine()
    quorum, log = a_quorum(machine)

    quorum.lead(lambda _: None)
    assert not batches(log)
    assert QuorumStore(machine.files, "logs").read() is None
    machine.aside.run_all()

    kept = QuorumStore(machine.files, "logs").read()
    assert kept == QuorumState(0, leader=ME, voted=ME, voted_directory=DIRECTORY)


def test_epochs_rise_over_restarts_even_if_only_the_log_or_only_the_vote_is_left() -> None:
    machine = Machine()
    assert leading(machine)[0].epoch == 0
    machine.files.unlink("logs/quorum-state")
    assert leading(machine)[0].epoch == 1
    QuorumStore(machine.files, "logs").write(QuorumState(9))
    assert leading(machine)[0].epoch == 10


def test_nothing_is_committed_before_it_is_synced() -> None:
    machine = Machine()
    quorum, _ = leading(machine)
    told: list[StorageError | None] = []

    quorum.propose([b"one", b"two"], told.append)
    assert (quorum.end_offset, quorum.high_watermark, told) == (3, 1, [])
    machine.aside.run_all()

    assert (quorum.high_watermark, told) == (3, [None])


def test_a_proposal_during_a_sync_waits_for_the_next() -> None:
    machine = Machine()
    quorum, _ = leading(machine)
    told: list[str] = []

    quorum.propose([b"one"], lambda _: told.append("one"))
    machine.aside.work()
    quorum.propose([b"two"], lambda _: told.append("two"))
    machine.aside.finish()
    assert told == ["one"]
    machine.aside.run_all()

    assert told == ["one", "two"]


def test_who_is_told_may_propose_at_once() -> None:
    machine = Machine()
    quorum, log = leading(machine)
    told: list[str] = []

    quorum.propose([b"one"], lambda _: quorum.propose([b"two"], lambda _: told.append("two")))
    machine.aside.run_all()

    assert told == ["two"]
    assert [record.value for batch in batches(log)[1:] for record in read_records(batch)] == [b"one", b"two"]


def test_a_failed_sync_ends_the_lead_and_gives_up_what_was_not_committed() -> None:
    machine = Machine()
    quorum, log = leading(machine)
    told: list[StorageError | None] = []
    machine.files.faults = [Fault(Kind.SYNC, errno.EIO, times=1)]

    quorum.propose([b"one"], told.append)
    quorum.propose([b"two"], told.append)
    machine.aside.run_all()

    assert [type(one) for one in told] == [StorageError, StorageError]
    assert not quorum.leads
    quorum.lead(told.append)
    machine.aside.run_all()
    assert told[-1] is None
    assert [batch.is_control for batch in batches(log)] == [True, True]
    assert quorum.epoch == 1


def test_a_vote_that_cannot_be_written_is_no_lead() -> None:
    machine = Machine()
    quorum, log = a_quorum(machine)
    machine.files.faults = [Fault(Kind.RENAME, errno.EIO, "quorum-state")]
    told: list[StorageError | None] = []

    quorum.lead(told.append)
    machine.aside.run_all()

    assert isinstance(told[0], StorageError)
    assert not quorum.leads
    assert not batches(log)


def test_a_full_disk_refuses_a_proposal_and_changes_nothing() -> None:
    machine = Machine()
    quorum, _ = leading(machine)
    machine.files.faults = [Fault(Kind.APPEND, errno.ENOSPC, times=1, after_bytes=7)]

    with pytest.raises(StorageError):
        quorum.propose([b"one"], lambda _: None)

    assert quorum.leads
    assert quorum.end_offset == 1


def test_batches_are_stamped_with_the_epoch_and_lie_in_a_row() -> None:
    machine = Machine()
    quorum, log = leading(machine)
    quorum.propose([b"a", b"b"], lambda _: None)
    quorum.propose([b"c"], lambda _: None)
    machine.aside.run_all()

    assert [(one.base_offset, one.count, one.leader_epoch) for one in batches(log)] == [
        (0, 1, 0), (1, 2, 0), (3, 1, 0),
    ]  # fmt: skip
    assert batch_at(bytes(batches(log)[1].raw)).checksum_holds()


def test_a_majority_of_the_voters_commits() -> None:
    leader = Leader(epoch=5, epoch_start=Offset(10), voters=(1, 2, 3))

    assert not leader.acknowledged(1, Offset(20))
    assert leader.acknowledged(2, Offset(15))
    assert leader.high_watermark == 15
    assert leader.acknowledged(3, Offset(30))
    assert leader.high_watermark == 20


def test_entries_of_earlier_epochs_are_committed_only_with_one_of_this_epoch() -> None:
    leader = Leader(epoch=5, epoch_start=Offset(10), voters=(1, 2, 3))
    leader.acknowledged(1, Offset(11))

    assert not leader.acknowledged(2, Offset(10)), "a majority has all up to this epoch, but none of it"
    assert leader.high_watermark is None
    assert leader.acknowledged(2, Offset(11))


def test_what_a_voter_has_never_goes_back_and_strangers_do_not_count() -> None:
    leader = Leader(epoch=5, epoch_start=Offset(0), voters=(1,))
    assert leader.acknowledged(1, Offset(5))

    assert not leader.acknowledged(1, Offset(3))
    assert not leader.acknowledged(7, Offset(9))
    assert leader.high_watermark == 5
    assert leader.ends == {1: 5}


def test_the_state_file_is_kafkas_line_of_json() -> None:
    state = QuorumState(3, leader=1, voted=1, voted_directory=Uuid(bytes(16)))

    assert encode_state(state) == (
        b'{"leaderId":1,"leaderEpoch":3,"votedId":1,'
        b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    assert decode_state(encode_state(state)) == state


def test_version_0_of_the_state_file_is_read() -> None:
    line = (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[],"data_version":0}'
    )

    assert decode_state(line) == QuorumState(2, leader=1, voted=-1, voted_directory=NO_UUID)


def test_a_state_that_was_written_outlives_the_worst_crash() -> None:
    machine = Machine()
    machine.open_log()
    for epoch in range(3):
        QuorumStore(machine.files, "logs").write(QuorumState(epoch, voted=1))
        found = machine.files.after_crash(machine.random, Loss.ALL)

        assert QuorumStore(found, "logs").read() == QuorumState(epoch, voted=1)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"data_version":7}',
        b'{"leaderId":1,"leaderEpoch":"x","votedId":1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        b'{"leaderId":1,"leaderEpoch":-2,"votedId":1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"short","data_version":1}',
        b"\xff\xfe",
    ],
)
def test_a_damaged_state_file_is_corrupt_data(line: bytes) -> None:
    with pytest.raises(CorruptDataError):
        decode_state(line)


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

"""What a vote must outlive: the quorum-state file (R8)."""

import pytest

from everlog.model.errors import CorruptDataError
from everlog.model.ids import NO_UUID, Uuid
from everlog.raft.store import QuorumState, QuorumStore, decode_state, encode_state
from everlog.sim.platter import Loss
from tests.unit.controller.builders import Machine


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


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (b'AAA"', b'AAB"'),  # Bits that an id does not have.
        (b"}", b',"x":2}'),
        (b'"leaderEpoch":1', b'"leaderEpoch":1,"leaderEpoch":1'),
        (b'"leaderEpoch":1', b'"leaderEpoch": 1'),
        (b'"leaderEpoch":1', b'"leaderEpoch":2147483648'),
        (b'"leaderId":1', b'"leaderId":-2'),
    ],
)
def test_what_nobody_writes_is_refused_though_it_is_json(right: bytes, wrong: bytes) -> None:
    good = encode_state(QuorumState(1, leader=1, voted=1))
    assert decode_state(good) == QuorumState(1, leader=1, voted=1)
    assert decode_state(good + b"\n") == QuorumState(1, leader=1, voted=1)
    assert right in good

    with pytest.raises(CorruptDataError):
        decode_state(good.replace(right, wrong))


def test_a_directory_that_nobody_was_voted_for_in_is_refused() -> None:
    with pytest.raises(CorruptDataError):
        decode_state(encode_state(QuorumState(1, voted=-1, voted_directory=Uuid(bytes(15) + b"x"))))

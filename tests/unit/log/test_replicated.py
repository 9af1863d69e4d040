"""What a follower appends: its leader's bytes as they are, what follows from them, and nothing damaged."""

import pytest

from everlog.log.partition import Origin, PartitionLog
from everlog.log.settings import LogSettings
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import LeaderEpoch, Offset
from everlog.records.batch import LENGTH_OVERHEAD
from tests.unit.log.builders import NOON, SMALL, Machine, Sequenced, a_batch


def a_leader(*, batches: int = 12, settings: LogSettings = SMALL) -> PartitionLog:
    """A log of several segments, in two epochs, with an idempotent producer's batches."""
    log = Machine(settings).log
    for number in range(batches):
        batch = a_batch([b"%d" % number * 40], sender=Sequenced(7, number))
        log.append(batch, LeaderEpoch(number // 6), NOON, Origin.CLIENT)
    return log


def sent(leader: PartitionLog, offset: int = 0, count: int = 1 << 20) -> memoryview:
    """What the leader answers a fetch with; at most to the end of a segment."""
    found = leader.read(Offset(offset), count, leader.end_offset)
    assert found is not None
    return memoryview(bytearray(found.read()))


def content(log: PartitionLog) -> bytes:
    """The bytes of all segments, one behind the other."""
    return b"".join(segment.file.read(0, segment.size) for segment in log.segments)


def copy(leader: PartitionLog, follower: PartitionLog) -> None:
    while follower.end_offset < leader.end_offset:
        follower.append_replicated(sent(leader, follower.end_offset), NOON)


def test_a_copy_has_the_same_bytes_epochs_and_producers() -> None:
    leader = a_leader()
    follower = Machine(LogSettings(segment_bytes=500, index_interval_bytes=100)).log

    copy(leader, follower)

    assert content(follower) == content(leader)
    assert follower.epochs.entries == leader.epochs.entries == [(0, 0), (1, 6)]
    assert follower.segment_count > leader.segment_count > 1
    repeated = a_batch([b"11" * 40], sender=Sequenced(7, 11))
    assert follower.append(repeated, LeaderEpoch(1), NOON, Origin.CLIENT).duplicate


def test_a_copy_is_found_again_after_a_crash() -> None:
    leader, machine = a_leader(), Machine()
    copy(leader, machine.log)
    before = content(machine.log)

    machine.kill()

    assert content(machine.log) == before
    assert machine.log.epochs.entries == leader.epochs.entries


def test_a_damaged_batch_is_not_written_and_neither_are_those_with_it() -> None:
    leader = a_leader(batches=4)
    follower = Machine().log
    raw = sent(leader)
    raw[-1] ^= 1

    with pytest.raises(Refused) as refused:
        follower.append_replicated(raw, NOON)

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert follower.end_offset == 0


def test_a_batch_that_does_not_follow_is_refused() -> None:
    leader = a_leader(batches=6)
    follower = Machine().log
    follower.append_replicated(sent(leader, 0, 1), NOON)
    first = sent(leader, 1, 1)
    first[0:8] = (0).to_bytes(8, "big")
    first[LENGTH_OVERHEAD + 11 : LENGTH_OVERHEAD + 15] = (5).to_bytes(4, "big")  # Ends behind what is here.

    with pytest.raises(Refused):
        follower.append_replicated(first, NOON)
    assert follower.end_offset == 1


def test_an_epoch_that_goes_back_is_refused() -> None:
    leader, follower = a_leader(), Machine().log
    copy(leader, follower)
    late = a_batch(base_offset=12, leader_epoch=0)

    with pytest.raises(Refused) as refused:
        follower.append_replicated(late.raw, NOON)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_what_is_there_already_is_left_out() -> None:
    leader, follower = a_leader(batches=4), Machine().log
    follower.append_replicated(sent(leader), NOON)

    follower.append_replicated(sent(leader), NOON)

    assert follower.end_offset == 4


def test_a_log_may_begin_in_the_middle_of_a_batch() -> None:
    leader = Machine().log
    leader.append(a_batch([b"a", b"b", b"c"]), LeaderEpoch(0), NOON, Origin.CLIENT)
    follower = Machine().log
    follower.restart_at(Offset(1))

    follower.append_replicated(sent(leader, 1), NOON)

    assert (follower.start_offset, follower.end_offset) == (1, 3)


def test_a_copy_says_when_it_has_to_be_synced() -> None:
    leader = a_leader(batches=3)

    assert not Machine().log.append_replicated(sent(leader), NOON)
    assert Machine(LogSettings(flush_messages=1)).log.append_replicated(sent(leader), NOON)

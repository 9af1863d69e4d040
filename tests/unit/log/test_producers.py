"""Retries without duplicates: sequence numbers per producer (P4)."""

from dataclasses import replace

import pytest

from everlog.log.partition import Origin
from everlog.log.producers import WINDOW, Producers, ProducerState, Sent
from everlog.log.snapshot import read_snapshot, snapshot_bytes
from everlog.model.errors import CorruptDataError, ErrorCode, Refused
from everlog.model.ids import Offset
from tests.unit.log.builders import PATH, SMALL, Machine, Sequenced, a_batch, values

MAX = 2**31 - 1


def send(machine: Machine, sequence: int, count: int = 1, producer_id: int = 9, epoch: int = 0) -> int:
    """Send a batch and return its offset; -1 less that if it was there already."""
    sender = Sequenced(producer_id, sequence, epoch)
    appended = machine.append(a_batch(values(count), sender=sender))
    return -1 - appended.base_offset if appended.duplicate else appended.base_offset


def refusal(machine: Machine, sequence: int, count: int = 1, epoch: int = 0) -> ErrorCode:
    end = machine.log.end_offset
    with pytest.raises(Refused) as refused:
        send(machine, sequence, count, epoch=epoch)
    assert machine.log.end_offset == end
    return refused.value.code


def test_any_of_the_last_five_batches_is_known_again_with_its_offset() -> None:
    machine = Machine()
    for at in range(7):
        send(machine, at * 2, 2)

    for at in range(2, 7):
        assert send(machine, at * 2, 2) == -1 - at * 2
    assert machine.log.end_offset == 14
    assert refusal(machine, 2, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_only_begins_like_an_old_one_is_no_duplicate() -> None:
    machine = Machine()
    send(machine, 0, 2)
    assert refusal(machine, 0, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(machine, 0, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_next_sequence_must_follow_the_last() -> None:
    machine = Machine()
    send(machine, 0, 3)
    assert refusal(machine, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(machine, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(machine, 3) == 3


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert send(Machine(), 1234) == 0


def test_sequences_wrap_to_zero() -> None:
    machine = Machine()
    send(machine, MAX - 1, 2)
    assert send(machine, 0) == 2
    assert send(machine, MAX - 1, 2) == -1

    machine = Machine()
    send(machine, MAX, 3)
    assert refusal(machine, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(machine, 2) == 3
    assert send(machine, MAX, 3) == -1


def test_an_epoch_that_is_over_is_refused() -> None:
    machine = Machine()
    send(machine, 0, epoch=3)
    assert refusal(machine, 1, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_at_zero_and_forgets_the_old_batches() -> None:
    machine = Machine()
    send(machine, 0, 2, epoch=0)
    assert refusal(machine, 2, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(machine, 0, 2, epoch=1) == 2
    assert send(machine, 0, 2, epoch=1) == -3


def test_producers_do_not_disturb_each_other() -> None:
    machine = Machine()
    send(machine, 0, producer_id=1)
    send(machine, 5, producer_id=2)
    assert send(machine, 1, producer_id=1) == 2
    assert send(machine, 6, producer_id=2) == 3


def test_a_replicas_batches_are_taken_as_they_are_and_known_again_when_it_leads() -> None:
    machine = Machine()
    for base, sequence in ((0, 0), (1, 7)):
        batch = a_batch(sender=Sequenced(9, sequence), base_offset=base, leader_epoch=0)
        machine.append(batch, origin=Origin.REPLICA)
    assert send(machine, 7) == -2
    assert send(machine, 8) == 2


def test_a_producer_not_heard_of_is_forgotten_after_a_while() -> None:
    machine = Machine(replace(SMALL, producer_id_expiration_ms=1000))
    send(machine, 0)
    machine.clock.advance(999)
    machine.log.expire_producers(machine.clock.wall())
    assert refusal(machine, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    machine.clock.advance(1)
    machine.log.expire_producers(machine.clock.wall())
    assert send(machine, 5) == 1


def test_the_age_of_a_producer_is_by_our_clock_and_not_by_its_own() -> None:
    machine = Machine(replace(SMALL, producer_id_expiration_ms=1000))
    machine.append(a_batch(sender=Sequenced(9, 0), timestamp=5))
    machine.log.expire_producers(machine.clock.wall())
    assert machine.log.producers.get(9) is not None
    machine.kill()
    machine.log.expire_producers(machine.clock.wall())
    assert machine.log.producers.get(9) is not None


@pytest.mark.parametrize("restart", ["stop", "kill", "lose_power"])
def test_the_whole_window_survives_a_restart(restart: str) -> None:
    machine = Machine()
    for at in range(6):
        send(machine, at * 2, 2)
    machine.sync()

    getattr(machine, restart)()

    for at in range(1, 6):
        assert send(machine, at * 2, 2) == -1 - at * 2
    assert refusal(machine, 0, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(machine, 12) == 12


@pytest.mark.parametrize("restart", ["stop", "kill"])
def test_the_window_survives_the_removal_of_its_segments(restart: str) -> None:
    machine = Machine()
    for at in range(WINDOW):
        send(machine, at)
    machine.log.roll()
    machine.log.move_start_to(machine.log.end_offset)
    machine.log.enforce_retention(machine.clock.wall(), machine.log.end_offset)
    machine.directory.checkpoint()
    assert machine.log.segment_count == 1

    getattr(machine, restart)()

    assert send(machine, 3) == -4
    assert send(machine, 5) == 5


def test_truncation_takes_a_producers_batches_back() -> None:
    machine = Machine()
    for at in range(12):
        send(machine, at)
    machine.log.truncate_to(Offset(3))
    assert send(machine, 2) == -3
    assert refusal(machine, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(machine, 3) == 3


def test_snapshots_are_written_at_each_roll_and_go_with_their_segments() -> None:
    machine = Machine(replace(SMALL, file_delete_delay_ms=0))
    for at in range(40):
        send(machine, at)

    def snapshots() -> list[int]:
        return [int(name[:20]) for name in machine.files.names(PATH) if name.endswith(".snapshot")]

    def segments() -> list[int]:
        return [int(name[:20]) for name in machine.files.names(PATH) if name.endswith(".log")]

    assert len(segments()) > 3
    assert snapshots() == segments()[1:]
    machine.log.move_start_to(Offset(segments()[2]))
    machine.log.enforce_retention(machine.clock.wall(), machine.log.end_offset)
    machine.directory.checkpoint()
    assert snapshots() == segments()
    machine.stop()
    assert snapshots() == [*segments(), 40]


def test_a_damaged_snapshot_is_passed_over_for_an_older_one() -> None:
    machine = Machine()
    for at in range(20):
        send(machine, at)
    machine.stop()
    newest = max(name for name in machine.files.names(PATH) if name.endswith(".snapshot"))
    machine.files.flip_bit(f"{PATH}/{newest}", 20, 3)
    assert send(machine, 17) == -18
    assert send(machine, 20) == 20


def a_crowd() -> Producers:
    producers = Producers()
    for producer_id in range(1, 4):
        state = ProducerState(producer_id, producer_id * 10)
        state.window = [Sent(at * 2, at * 2 + 1, at * 2, at * 2 + 1, 1000 + at) for at in range(producer_id)]
        state.last_timestamp = 5000 + producer_id
        state.coordinator_epoch = producer_id
        state.txn_first_offset = Offset(77) if producer_id == 2 else None
        producers.put(state)
    empty = ProducerState(8, 3)
    empty.last_timestamp = 9000
    producers.put(empty)
    return producers


def described(producers: Producers) -> list[tuple[object, ...]]:
    return [
        (
            s.producer_id,
            s.epoch,
            s.window[:-1],
            s.last_sequence,
            s.last_offset,
            s.last_timestamp,
            s.coordinator_epoch,
            s.txn_first_offset,
        )
        for s in producers
    ]


def test_a_snapshot_gives_the_same_producers_back() -> None:
    assert described(read_snapshot(snapshot_bytes(a_crowd()))) == described(a_crowd())
    assert read_snapshot(snapshot_bytes(a_crowd())).first_unstable_offset == 77


def test_a_snapshot_has_kafkas_layout_with_the_newest_batch_last() -> None:
    raw = snapshot_bytes(a_crowd())
    assert raw[:2] == b"\x00\x01"
    count = int.from_bytes(raw[6:10], "big")
    assert len(raw) == 10 + 46 * count
    entries = [raw[10 + 46 * at : 56 + 46 * at] for at in range(count)]
    of_three = [entry for entry in entries if int.from_bytes(entry[:8], "big") == 3]
    assert [int.from_bytes(entry[10:14], "big") for entry in of_three] == [1, 3, 5]


@pytest.mark.parametrize("position", range(0, 56, 3))
def test_a_snapshot_with_a_flipped_bit_is_refused(position: int) -> None:
    raw = bytearray(snapshot_bytes(a_crowd()))
    raw[position] ^= 4
    with pytest.raises(CorruptDataError):
        read_snapshot(raw)


def test_a_snapshot_that_was_cut_off_is_refused() -> None:
    raw = snapshot_bytes(a_crowd())
    for size in (0, 5, 10, 56, len(raw) - 1):
        with pytest.raises(CorruptDataError):
            read_snapshot(raw[:size])

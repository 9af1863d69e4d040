"""Open and aborted transactions, as far as a log knows of them (P5's ground)."""

import pytest

from everlog.log.aborted_index import AbortedTxn
from everlog.log.partition import Origin
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Offset, ProducerId
from everlog.sim.faults import Fault, Kind
from tests.unit.log.builders import PATH, Machine, Sequenced, a_batch, a_marker, values


class Writer:
    """A transactional producer."""

    def __init__(self, machine: Machine, producer_id: int) -> None:
        self.machine = machine
        self.id = producer_id
        self.sequence = 0

    def send(self, count: int = 1, *, transactional: bool = True) -> int:
        sender = Sequenced(self.id, self.sequence)
        batch = a_batch(values(count), sender=sender, transactional=transactional)
        appended = self.machine.append(batch)
        self.sequence += count
        return appended.base_offset

    def end(self, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> int:
        marker = a_marker(self.id, commit=commit, epoch=epoch, coordinator_epoch=coordinator_epoch)
        return self.machine.append(marker, origin=Origin.COORDINATOR).base_offset


def aborted(producer_id: int, first: int, last: int, stable: int) -> AbortedTxn:
    return AbortedTxn(ProducerId(producer_id), Offset(first), Offset(last), Offset(stable))


def stable_end(machine: Machine) -> int:
    return machine.log.last_stable_offset(machine.log.end_offset)


def test_the_last_stable_offset_stops_before_the_oldest_open_transaction() -> None:
    machine = Machine()
    one, two = Writer(machine, 1), Writer(machine, 2)
    machine.fill(1)
    assert stable_end(machine) == 3
    one.send()
    two.send()
    assert machine.log.first_unstable_offset == 3
    assert stable_end(machine) == 3
    one.end(commit=True)
    assert stable_end(machine) == 4
    two.end(commit=False)
    assert stable_end(machine) == machine.log.end_offset == 7
    assert machine.log.first_unstable_offset is None


def test_a_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    machine = Machine()
    writer = Writer(machine, 1)
    writer.send()
    marker = writer.end(commit=True)
    assert machine.log.last_stable_offset(Offset(marker)) == 0
    assert machine.log.last_stable_offset(Offset(marker + 1)) == marker + 1


def test_aborted_transactions_are_found_for_the_ranges_they_touch() -> None:
    machine = Machine()
    one, two = Writer(machine, 1), Writer(machine, 2)
    one.send(2)  # 0, 1
    two.send(2)  # 2, 3
    one.end(commit=False)  # 4
    two.end(commit=True)  # 5
    two.send()  # 6
    two.end(commit=False)  # 7
    first, second = aborted(1, 0, 4, 2), aborted(2, 6, 7, 8)

    def between(start: int, end: int) -> list[AbortedTxn]:
        return machine.log.aborted_between(Offset(start), Offset(end))

    assert between(0, 8) == [first, second]
    assert between(5, 8) == [second]
    assert between(0, 6) == [first]
    assert between(4, 5) == [first]
    assert between(5, 6) == []


def test_a_marker_in_a_later_segment_is_found_from_the_data_before_it() -> None:
    machine = Machine()
    writer = Writer(machine, 1)
    writer.send(2)
    machine.fill(20)
    assert machine.log.segment_count > 2
    marker = writer.end(commit=False)
    assert machine.log.aborted_between(Offset(0), Offset(2)) == [aborted(1, 0, marker, marker + 1)]


def test_an_empty_transaction_aborts_nothing() -> None:
    machine = Machine()
    Writer(machine, 1).end(commit=False)
    assert machine.log.aborted_between(Offset(0), Offset(9)) == []


def test_a_batch_outside_its_producers_open_transaction_is_refused() -> None:
    machine = Machine()
    writer = Writer(machine, 1)
    writer.send()
    with pytest.raises(Refused) as refused:
        writer.send(transactional=False)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    writer.end(commit=True)
    writer.send(transactional=False)


def test_a_marker_of_an_older_producer_or_coordinator_epoch_is_refused() -> None:
    machine = Machine()
    writer = Writer(machine, 1)
    machine.append(a_batch(sender=Sequenced(1, 0, epoch=2), transactional=True))
    with pytest.raises(Refused) as refused:
        writer.end(commit=True, epoch=1)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    writer.end(commit=True, epoch=2, coordinator_epoch=5)
    with pytest.raises(Refused) as refused:
        writer.end(commit=True, epoch=2, coordinator_epoch=4)
    assert refused.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_of_a_newer_epoch_fences_the_old_producer() -> None:
    machine = Machine()
    writer = Writer(machine, 1)
    writer.send()
    writer.end(commit=False, epoch=1)
    with pytest.raises(Refused) as refused:
        writer.send()
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    machine.append(a_batch(sender=Sequenced(1, 0, epoch=1), transactional=True))


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    machine = Machine()
    writer = Writer(machine, 1)
    writer.send()
    machine.clock.advance(100 * 24 * 3600 * 1000)
    machine.log.expire_producers(machine.clock.wall())
    assert machine.log.producers.get(1) is not None
    assert machine.log.first_unstable_offset == 0


@pytest.mark.parametrize("restart", ["stop", "kill", "lose_power"])
def test_transactions_are_the_same_after_a_restart(restart: str) -> None:
    machine = Machine()
    one, two, three = Writer(machine, 1), Writer(machine, 2), Writer(machine, 3)
    for _ in range(4):
        one.send(3)
        two.send(3)
        one.end(commit=False)
        two.end(commit=True)
    three.send()
    one.send()
    machine.sync()
    end = machine.log.end_offset
    before = machine.log.aborted_between(Offset(0), end)
    assert len(before) == 4
    assert machine.log.segment_count > 1

    getattr(machine, restart)()

    assert machine.log.aborted_between(Offset(0), end) == before
    assert stable_end(machine) == end - 2
    three.end(commit=False)
    assert stable_end(machine) == end - 1


def test_truncation_opens_a_transaction_again_whose_marker_it_cut() -> None:
    machine = Machine()
    writer = Writer(machine, 1)
    writer.send(2)
    marker = writer.end(commit=False)
    machine.log.truncate_to(Offset(marker))
    assert machine.log.aborted_between(Offset(0), Offset(9)) == []
    assert stable_end(machine) == 0


@pytest.mark.parametrize("position", range(34))
def test_a_flipped_bit_in_a_transaction_index_is_found_and_mended(position: int) -> None:
    for bit in range(8):
        machine = Machine()
        one, two = Writer(machine, 1), Writer(machine, 2)
        machine.fill(1)
        one.send(2)
        two.send(1)
        one.end(commit=False)
        two.end(commit=True)
        machine.fill(3)
        before = machine.log.aborted_between(Offset(0), Offset(99))
        machine.log.roll()
        machine.stop()
        machine.files.flip_bit(f"{PATH}/{0:020d}.txnindex", position, bit)
        found = machine.log.aborted_between(Offset(0), Offset(99))
        # The last field, where the stable end lay, is not what readers are told.
        assert [txn[:3] for txn in found] == [txn[:3] for txn in before], bit


def test_a_transaction_index_that_could_not_be_written_is_written_before_the_stop() -> None:
    machine = Machine()
    writer = Writer(machine, 1)
    writer.send(2)
    machine.files.faults.append(Fault(Kind.APPEND, 28, path_part=".txnindex"))
    writer.end(commit=False)
    machine.files.faults.clear()
    before = machine.log.aborted_between(Offset(0), Offset(99))
    assert len(before) == 1
    machine.stop()
    assert machine.log.aborted_between(Offset(0), Offset(99)) == before

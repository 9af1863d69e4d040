"""What a round of compaction leaves: each key's last value, in place, and all that depends on batches (L6).

The rules are those of section 3.5 of the reliability notes: one test for each, at least.
"""

import errno
from dataclasses import replace

import pytest

from everlog.log import scan
from everlog.log.appending import Origin
from everlog.log.compaction import CleanerMemory
from everlog.log.compaction_rewrite import MOST_SEGMENTS
from everlog.log.compaction_run import LogChangedError
from everlog.log.recovery import Opening
from everlog.log.segment import file_name
from everlog.model.errors import CorruptDataError, ErrorCode, Refused, StorageError
from everlog.model.ids import Offset, Timestamp
from everlog.records.batch import BatchView, batch_at
from everlog.records.compression import Codec
from everlog.records.key_scan import SLOT_BYTES
from everlog.records.reader import read_records
from everlog.sim.faults import Fault, Kind
from tests.unit.log.builders import NOON, ORDERS, PATH, Sequenced
from tests.unit.log.compacting import COMPACT, Compacted, a_keyed_batch

RETENTION_MS = COMPACT.delete_retention_ms


def test_the_last_value_of_each_key_stays_in_its_place() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    machine.put((b"c", b"1"), (b"b", b"2"))
    machine.seal_and_clean()

    assert machine.pairs() == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]
    assert [(batch.base_offset, batch.last_offset) for batch in machine.batches()] == [(0, 2), (3, 4)]
    assert machine.directory.clean_ends[ORDERS] == 5


def test_what_was_written_later_decides_and_is_itself_left_alone() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"))
    machine.seal()
    machine.put((b"a", b"2"))
    machine.clean()

    assert machine.contents() == {b"a": b"2"}
    assert machine.offsets() == [0, 1], "the active segment is not looked at"
    machine.seal_and_clean()
    assert machine.offsets() == [1]


def test_timestamps_headers_epoch_and_producer_stay() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), sender=Sequenced(9, 0, 3), step_ms=5)
    machine.put((b"b", b"2"), sender=Sequenced(9, 3, 3))
    before = machine.batches()[0]
    stamps = {record.offset: record.timestamp for record in machine.records()}
    machine.seal_and_clean()
    after = machine.batches()[0]

    assert {record.offset: record.timestamp for record in machine.records()} == {
        offset: stamps[offset] for offset in (0, 2, 3)
    }
    for field in ("base_offset", "last_offset", "leader_epoch", "producer_id", "producer_epoch"):
        assert getattr(after, field) == getattr(before, field), field
    assert (after.base_sequence, after.last_sequence, after.count) == (0, 2, 2)
    assert after.max_timestamp == max(stamps[0], stamps[2])


def test_the_largest_timestamp_is_that_of_the_records_left() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"), (b"b", b"1"), step_ms=500)
    machine.put((b"b", b"2"))
    machine.seal_and_clean()

    assert machine.batches()[0].max_timestamp == NOON
    found = machine.log.offset_for_time(Timestamp(NOON + 1), machine.log.end_offset)
    assert found is None


def test_the_brokers_own_timestamps_stay() -> None:
    machine = Compacted(replace(COMPACT, log_append_time=True))
    machine.put((b"a", b"1"), (b"b", None))
    machine.clock.advance(77)
    machine.put((b"a", b"2"))
    machine.seal_and_clean()

    assert [record.timestamp for record in machine.records()] == [NOON, NOON + 77]
    assert machine.batches()[0].max_timestamp == NOON


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_keeps_its_codec(codec: Codec) -> None:
    machine = Compacted()
    machine.put(*((b"k%d" % n, b"x" * 50) for n in range(10)), codec=codec)
    machine.put((b"k3", b"new"), codec=codec)
    machine.put((b"k4", None), codec=codec)
    machine.seal_and_clean()

    assert [batch.codec for batch in machine.batches()] == [codec] * 3
    assert machine.offsets() == [0, 1, 2, 5, 6, 7, 8, 9, 10, 11]


def test_a_batch_of_which_all_stays_is_not_touched() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"), (b"b", b"1"), codec=Codec.ZSTD)
    machine.put((b"c", b"1"))
    machine.put((b"c", b"2"))
    before = bytes(machine.batches()[0].raw)
    machine.seal_and_clean()

    assert bytes(machine.batches()[0].raw) == before


def test_a_segment_that_would_not_change_is_not_rewritten() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"))
    machine.put((b"b", b"1"))
    machine.seal()
    segment = machine.log.segments[0]
    machine.clean()

    assert machine.log.segments[0] is segment
    assert not [name for name in machine.files.names(PATH) if "cleaned" in name or "deleted" in name]


def test_records_without_a_key_go() -> None:
    machine = Compacted(replace(COMPACT, cleanup_compact=False))
    machine.put((None, b"1"), (b"a", b"1"))
    machine.log.reconfigure(COMPACT)
    machine.settings = COMPACT
    with pytest.raises(Refused) as refused:
        machine.put((None, b"2"))
    assert refused.value.code == ErrorCode.INVALID_RECORD
    machine.seal_and_clean()

    assert machine.offsets() == [1]


# Tombstones


def test_a_tombstone_stays_until_the_horizon_that_the_first_round_wrote() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"), (b"b", b"1"))
    machine.put((b"a", None), (b"c", b"1"), step_ms=3)
    machine.seal_and_clean()
    batch = machine.batches()[1]
    assert machine.pairs() == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    assert batch.has_delete_horizon
    assert batch.base_timestamp == NOON + RETENTION_MS
    assert [record.timestamp for record in read_records(batch)] == [NOON, NOON + 3]

    machine.clock.advance(RETENTION_MS - 1)
    machine.put((b"d", b"1"))
    machine.seal_and_clean()
    assert (2, b"a", None) in machine.pairs()
    assert machine.batches()[1].base_timestamp == NOON + RETENTION_MS, "it is not put off"

    machine.clock.advance(1)
    machine.put((b"e", b"1"))
    machine.seal_and_clean()
    assert machine.pairs()[:2] == [(1, b"b", b"1"), (3, b"c", b"1")]
    assert machine.batches()[1].has_delete_horizon
    assert [record.timestamp for record in read_records(machine.batches()[1])] == [NOON + 3]


def test_the_horizon_counts_from_the_first_round_and_not_from_the_files_age() -> None:
    machine = Compacted()
    machine.put((b"a", None))
    machine.put((b"x", b"1"))
    machine.seal()
    machine.clock.advance(100 * RETENTION_MS)
    machine.clean()
    assert machine.contents() == {b"a": None, b"x": b"1"}

    machine.clock.advance(RETENTION_MS)
    machine.put((b"y", b"1"))
    machine.seal_and_clean()
    assert b"a" not in machine.contents()


def test_a_tombstone_that_the_map_did_not_reach_gets_no_horizon() -> None:
    # Its key's older value is still there; a reader of that one must come across the tombstone later.
    machine = Compacted()
    machine.memory = CleanerMemory(3 * SLOT_BYTES, 1.0, 400)
    machine.put((b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    machine.put((b"d", b"1"), (b"a", None))
    machine.seal_and_clean()

    assert machine.directory.clean_ends[ORDERS] == 3
    assert not machine.batches()[1].has_delete_horizon
    assert machine.offsets() == [0, 1, 2, 3, 4]


def test_a_new_value_behind_a_tombstone_takes_its_place_at_once() -> None:
    machine = Compacted()
    machine.put((b"a", None))
    machine.put((b"a", b"2"))
    machine.seal_and_clean()

    assert machine.pairs() == [(1, b"a", b"2")]


# Transactions


def test_aborted_records_go_whatever_their_keys_and_decide_nothing() -> None:
    machine = Compacted()
    machine.put((b"a", b"good"))
    machine.put((b"a", b"bad"), (b"only", b"bad"), sender=Sequenced(7, 0), transactional=True)
    machine.end_txn(7, commit=False)
    machine.put((b"z", b"1"))
    machine.seal_and_clean()

    assert machine.contents() == {b"a": b"good", b"z": b"1"}


def test_committed_records_count_from_their_own_offsets() -> None:
    machine = Compacted()
    machine.put((b"a", b"old"), (b"b", b"old"))
    machine.put((b"a", b"txn"), (b"b", b"txn"), sender=Sequenced(7, 0), transactional=True)
    machine.put((b"b", b"new"))
    machine.end_txn(7, commit=True)
    machine.seal_and_clean()

    assert machine.contents() == {b"a": b"txn", b"b": b"new"}


def test_two_transactions_of_one_producer_are_told_apart() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"), sender=Sequenced(7, 0), transactional=True)
    machine.end_txn(7, commit=False)
    machine.put((b"a", b"2"), sender=Sequenced(7, 1), transactional=True)
    machine.put((b"b", b"2"), sender=Sequenced(8, 0), transactional=True)
    machine.end_txn(7, commit=True)
    machine.put((b"a", b"3"), sender=Sequenced(7, 2), transactional=True)
    machine.end_txn(8, commit=False)
    machine.end_txn(7, commit=False)
    machine.seal_and_clean()

    assert machine.contents() == {b"a": b"2"}


def test_how_a_transaction_ended_may_be_said_in_the_active_segment() -> None:
    machine = Compacted()
    machine.put((b"a", b"good"))
    machine.put((b"a", b"bad"), sender=Sequenced(7, 0), transactional=True)
    machine.put((b"b", b"good"), sender=Sequenced(8, 0), transactional=True)
    machine.put((b"c", b"1"))
    machine.log.roll()
    machine.end_txn(8, commit=True)
    machine.end_txn(7, commit=False)
    machine.sync()
    machine.clean()

    assert machine.contents() == {b"a": b"good", b"b": b"good", b"c": b"1"}


def markers(machine: Compacted) -> list[BatchView]:
    return [batch for batch in machine.batches() if batch.is_control]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_stays_until_its_data_is_gone_and_then_until_its_horizon(commit: bool) -> None:
    machine = Compacted()
    machine.put((b"a", b"1"), sender=Sequenced(7, 0), transactional=True)
    machine.end_txn(7, commit=commit)
    machine.put((b"a", b"2"), sender=Sequenced(7, 1))  # The producer's last batch, which has to stay.
    machine.seal_and_clean()
    assert machine.contents() == {b"a": b"2"}
    assert [batch.has_delete_horizon for batch in markers(machine)] == [False], "there was data at first"

    machine.clock.advance(100 * RETENTION_MS)
    machine.put((b"b", b"1"))
    machine.seal_and_clean()
    assert [batch.base_timestamp for batch in markers(machine)] == [NOON + 101 * RETENTION_MS]
    assert [record.timestamp for record in read_records(markers(machine)[0])] == [NOON]

    machine.clock.advance(RETENTION_MS - 1)
    machine.put((b"c", b"1"))
    machine.seal_and_clean()
    assert len(markers(machine)) == 1

    machine.clock.advance(1)
    machine.put((b"d", b"1"))
    machine.seal_and_clean()
    assert markers(machine) == []


def test_a_marker_stays_while_an_empty_batch_of_its_transaction_does() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"), sender=Sequenced(7, 0), transactional=True)
    machine.end_txn(7, commit=False)
    machine.put((b"z", b"1"))
    for _ in range(4):
        machine.seal_and_clean()
        machine.clock.advance(10 * RETENTION_MS)
        machine.put((b"z", b"2"))
    empty, marker = machine.batches()[:2]
    assert (empty.count, empty.is_transactional, marker.is_control) == (0, True, True)

    machine.stop()
    machine.kill()
    assert machine.log.producers.first_unstable_offset is None
    assert machine.stable == machine.log.end_offset


def test_a_compacted_segment_needs_no_transaction_index() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"), sender=Sequenced(7, 0), transactional=True)
    machine.end_txn(7, commit=False)
    machine.seal()
    assert machine.log.aborted_between(Offset(0), Offset(9))
    machine.put((b"a", b"2"))
    machine.seal_and_clean()

    assert machine.log.aborted_between(Offset(0), Offset(9)) == []
    assert file_name(0, ".txnindex") not in machine.files.names(PATH)
    machine.stop()
    assert machine.log.aborted_between(Offset(0), Offset(9)) == []
    assert machine.contents() == {b"a": b"2"}


# Batches that stay for others' sake


def test_the_last_batch_of_a_live_producer_stays_if_empty() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"), sender=Sequenced(7, 0))
    machine.put((b"a", b"2"), sender=Sequenced(7, 1))
    machine.put((b"a", b"3"))
    machine.seal_and_clean()

    empty = machine.batches()[0]
    assert (empty.base_offset, empty.count, empty.producer_id, empty.base_sequence) == (1, 0, 7, 1)
    assert (empty.base_timestamp, empty.max_timestamp) == (-1, -1)
    for name in machine.files.names(PATH):
        if name.endswith(".snapshot"):
            machine.files.unlink(f"{PATH}/{name}")
    machine.kill()
    assert machine.put((b"a", b"2"), sender=Sequenced(7, 1)).duplicate
    with pytest.raises(Refused):
        machine.put((b"a", b"2"), sender=Sequenced(7, 5))


def test_the_last_batch_of_a_producer_that_is_forgotten_goes() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"), sender=Sequenced(7, 0))
    machine.put((b"a", b"2"))
    machine.seal()
    machine.log.producers.expire(machine.clock.wall() + COMPACT.producer_id_expiration_ms, 1)
    machine.clean()

    assert [batch.base_offset for batch in machine.batches()] == [1]


def test_a_marker_with_a_producers_newest_epoch_stays_if_empty() -> None:
    machine = Compacted()
    machine.end_txn(7, commit=False, epoch=4)
    machine.put((b"a", b"1"))
    for _ in range(3):
        machine.seal_and_clean()
        machine.clock.advance(RETENTION_MS)
        machine.put((b"a", b"2"))
    kept = markers(machine)[0]
    assert (kept.count, kept.producer_epoch) == (0, 4)

    for name in machine.files.names(PATH):
        if name.endswith(".snapshot"):
            machine.files.unlink(f"{PATH}/{name}")
    assert kept.producer_id == 7


def test_the_end_of_a_segment_stays_so_that_the_log_does_not_shrink() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"))
    machine.put((b"a", None), (b"b", None))
    machine.seal_and_clean()
    machine.clock.advance(RETENTION_MS)
    machine.directory.clean_ends.clear()
    machine.clean()

    last = machine.batches()[-1]
    assert (last.base_offset, last.last_offset, last.count) == (1, 2, 0)
    assert machine.log.read(Offset(0), 1000, machine.log.end_offset) is not None, "a reader gets to the end"


# How a round goes


def test_rounds_go_on_where_the_map_was_full() -> None:
    machine = Compacted()
    machine.memory = CleanerMemory(2 * SLOT_BYTES, 1.0, 400)
    for n in range(5):
        machine.put((b"a%d" % n, b"1"), (b"b", b"%d" % n), (b"c", b"%d" % n))
    machine.seal()
    ends: list[int] = []
    while machine.dirty().dirty_bytes:
        ends.append(machine.clean().end_offset)
        assert machine.contents()[b"b"] == b"4"
        assert len(ends) < 20

    assert ends == sorted(set(ends))
    assert len(ends) > 3
    assert machine.contents() == {**{b"a%d" % n: b"1" for n in range(5)}, b"b": b"4", b"c": b"4"}
    assert len(machine.offsets()) == 7, "in the end every key stands once"


def test_groups_are_bounded_by_the_segment_size() -> None:
    machine = Compacted()
    for n in range(60):
        machine.put((b"k%d" % n, b""), (b"a", b"%d" % n + b"x" * 80))
    machine.seal()
    before = machine.log.segment_count
    machine.clean()
    assert machine.log.segment_count == before, "the old ones were full"
    machine.put((b"z", b"1"))
    machine.seal_and_clean()

    sizes = [segment.size for segment in machine.log.segments]
    assert len(sizes) < before
    assert max(sizes) <= COMPACT.segment_bytes
    assert machine.contents()[b"a"] == b"59" + b"x" * 80


def test_groups_are_bounded_by_the_index_size() -> None:
    machine = Compacted(replace(COMPACT, segment_index_bytes=12 * 6, index_interval_bytes=60))
    for n in range(6):
        machine.put((b"k%d" % n, b"x" * 20))
        machine.log.roll()
    machine.sync()
    machine.clean()

    assert machine.log.segment_count == 4, "two by two, and the active one"
    assert len(machine.contents()) == 6


def test_groups_are_bounded_by_the_renames_that_they_take() -> None:
    machine = Compacted(replace(COMPACT, segment_bytes=1 << 20, segment_index_bytes=1 << 20))
    for n in range(MOST_SEGMENTS + 2):
        machine.put((b"k%d" % n, b""))
        machine.log.roll()
    machine.sync()
    machine.clean()

    bases = [segment.base_offset for segment in machine.log.segments]
    assert bases == [0, MOST_SEGMENTS, MOST_SEGMENTS + 2]


def test_groups_are_bounded_by_relative_offsets() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"))
    machine.log.roll()
    far = a_keyed_batch([(b"b", b"1")], timestamp=NOON)
    far.stamp((1 << 31) + 5, 0)
    machine.append(far, origin=Origin.REPLICA)
    machine.log.roll()
    machine.put((b"c", b"1"))
    machine.seal_and_clean()

    bases = [segment.base_offset for segment in machine.log.segments]
    assert bases == [0, 1, (1 << 31) + 5, machine.log.end_offset]
    assert len(machine.contents()) == 3


def test_a_batch_larger_than_the_buffer_is_read_whole() -> None:
    machine = Compacted(replace(COMPACT, segment_bytes=100_000))
    machine.memory = CleanerMemory(1 << 12, 0.9, io_bytes=1)
    machine.put((b"a", b"1"))
    machine.put((b"a", b"x" * 50_000), (b"b", b"1"))
    machine.seal_and_clean()

    assert machine.offsets() == [1, 2]


def test_the_indexes_of_a_compacted_segment_find_every_record() -> None:
    machine = Compacted()
    for n in range(40):
        machine.clock.advance(100)
        machine.put((b"k%d" % (n % 9), b"x" * 20), (b"once%d" % n, b"x"))
    machine.seal_and_clean()
    machine.put((b"k1", b"y"))
    machine.seal_and_clean()
    kept = {record.offset: record.timestamp for record in machine.records()}
    for restart in (False, True):
        if restart:
            machine.stop()
        log = machine.log
        for offset in range(log.end_offset):
            piece = log.read(Offset(offset), 1, log.end_offset)
            assert piece is not None
            found = batch_at(piece.read())
            assert found.last_offset >= offset
            nearest = next(at for at in kept if at >= offset)
            assert found.base_offset <= nearest or found.base_offset >= offset
        for wanted in sorted(kept.values())[::7]:
            first = next((at, stamp) for at, stamp in kept.items() if stamp >= wanted)
            answer = log.offset_for_time(Timestamp(wanted), log.end_offset)
            assert answer is not None
            assert answer[:2] == first


def test_the_indexes_on_disk_are_as_if_the_segment_had_been_written_so() -> None:
    machine = Compacted()
    for n in range(20):
        machine.clock.advance(10)
        machine.put((b"k%d" % n, b"x" * 40))
    machine.put((b"k3", b"y"))
    machine.seal_and_clean()
    segment = machine.log.segments[0]
    on_disk = [machine.files.read(segment.stem + suffix) for suffix in (".index", ".timeindex")]
    segment.rebuild_indexes()
    segment.indexes.rewrite()
    segment.indexes.save_for_seal()

    assert [machine.files.read(segment.stem + suffix) for suffix in (".index", ".timeindex")] == on_disk
    assert all(on_disk)


def test_epochs_are_found_again_where_their_first_batches_are_gone() -> None:
    machine = Compacted()
    machine.append(a_keyed_batch([(b"a", b"1")], timestamp=NOON), 0)
    machine.append(a_keyed_batch([(b"b", b"1")], timestamp=NOON), 0)
    machine.append(a_keyed_batch([(b"b", b"2")], timestamp=NOON), 3)
    machine.append(a_keyed_batch([(b"b", b"3"), (b"c", b"1")], timestamp=NOON), 5)
    machine.append(a_keyed_batch([(b"b", b"4")], timestamp=NOON), 5)
    machine.seal_and_clean()
    expected = [(0, 0), (3, 2), (5, 3)]
    assert machine.log.epochs.entries == expected
    machine.directory.checkpoint()
    machine.append(a_keyed_batch([(b"d", b"1")], timestamp=NOON), 6)
    machine.kill()

    assert machine.log.report.scanned_bytes > 0
    assert machine.log.epochs.entries == [*expected, (6, 6)]


def test_gaps_are_no_damage_after_the_policy_has_changed() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"))
    machine.put((b"b", b"1"))
    machine.put((b"a", b"2"))
    machine.seal_and_clean()
    machine.directory.checkpoint()
    expected = machine.pairs()
    assert expected[0][0] == 1
    machine.settings = replace(COMPACT, cleanup_compact=False, cleanup_delete=True)
    machine.kill()

    assert machine.log.report.scanned_bytes > 0
    assert machine.log.report.cut_bytes == 0
    assert machine.pairs() == expected
    assert not Opening().was_compacted


def test_a_copy_of_a_compacted_log_is_found_again_with_its_gaps() -> None:
    follower = Compacted(replace(COMPACT, segment_bytes=250))
    for offset in (3, 10, 20, 21, 40):
        copy = a_keyed_batch([(b"k%d" % offset, b"x" * 90)], timestamp=NOON)
        copy.stamp(offset, 0)
        follower.append(copy, origin=Origin.REPLICA)
    assert follower.log.segment_count > 2
    follower.kill()  # Before anything was synced.

    assert follower.log.report.cut_bytes == 0
    assert follower.offsets() == [3, 10, 20, 21, 40]


def test_a_lost_end_of_a_segment_is_not_taken_for_a_gap() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"))
    machine.seal()
    machine.directory.checkpoint()
    machine.put((b"a", b"2"))
    machine.log.roll()
    machine.put((b"b", b"1"))
    lost = machine.files.open(f"{PATH}/{file_name(1, '.log')}")
    lost.truncate(0)  # As after a crash, which may keep a later file and not an earlier one.
    machine.kill()

    assert machine.contents() == {b"a": b"1"}
    assert machine.log.end_offset == 1


# What may come in between


def test_a_log_that_is_cut_meanwhile_is_left_as_it_is() -> None:
    for stop_after in range(40):
        machine = Compacted()
        for n in range(30):
            machine.put((b"a", b"%d" % n), (b"b%d" % n, b"x" * 10))
        machine.seal()
        jobs_run = 0

        def cut(machine: Compacted = machine, stop_after: int = stop_after) -> None:
            nonlocal jobs_run
            if jobs_run == stop_after:
                machine.log.truncate_to(Offset(30))
            jobs_run += 1

        machine.between_jobs = cut
        try:
            machine.clean()
        except LogChangedError:
            assert machine.log.end_offset <= 30
        else:
            assert jobs_run <= stop_after or machine.log.end_offset <= 30
            if jobs_run <= stop_after:
                break
        kept = machine.pairs()
        assert [record for record in kept if record[0] >= 30] == []
        keys = {key for _, key, _ in kept}
        assert {b"b%d" % n for n in range(15)} <= keys, "no key went for a record that was cut off"
        assert not [name for name in machine.files.names(PATH) if name.endswith((".cleaned", ".swap"))]
        machine.kill()
        assert machine.pairs() == kept
        assert machine.put((b"new", b"1")).base_offset == machine.log.end_offset - 1
    else:
        pytest.fail("a round has fewer jobs")


def test_segments_that_expire_meanwhile_end_the_round() -> None:
    for stop_after in range(40):
        machine = Compacted(replace(COMPACT, cleanup_delete=True, retention_ms=1000))
        for n in range(24):
            machine.put((b"a", b"%d" % n), (b"b%d" % n, b"x" * 20))
        machine.seal()
        machine.put((b"late", b"1"))
        jobs_run = 0

        def expire(machine: Compacted = machine, stop_after: int = stop_after) -> None:
            nonlocal jobs_run
            if jobs_run == stop_after:
                machine.clock.advance(500)
                machine.put((b"late", b"2"))
                machine.clock.advance(600)
                machine.log.enforce_retention(machine.clock.wall(), machine.log.end_offset)
                machine.directory.checkpoint()
            jobs_run += 1

        machine.between_jobs = expire
        try:
            machine.clean()
        except (LogChangedError, OSError):
            pass
        if jobs_run <= stop_after:
            break
        kept = machine.pairs()
        assert kept[-1] == (49, b"late", b"2")
        assert not [name for name in machine.files.names(PATH) if name.endswith((".cleaned", ".swap"))]
        machine.sync()
        machine.kill()
        assert machine.pairs() == kept, stop_after
    else:
        pytest.fail("a round has fewer jobs")


def test_a_partition_that_is_deleted_meanwhile_ends_the_round() -> None:
    for stop_after in range(40):
        machine = Compacted()
        for n in range(30):
            machine.put((b"a", b"%d" % n))
        machine.seal()
        jobs_run = 0

        def delete(machine: Compacted = machine, stop_after: int = stop_after) -> None:
            nonlocal jobs_run
            if jobs_run == stop_after:
                machine.directory.delete(ORDERS)
            jobs_run += 1

        machine.between_jobs = delete
        cleaning = machine.round()
        try:
            machine.drive(cleaning)
        except (LogChangedError, OSError):
            pass
        if jobs_run <= stop_after:
            break
        assert ORDERS not in machine.directory
        assert PATH not in machine.files.tree()
    else:
        pytest.fail("a round has fewer jobs")


def test_appends_and_rolls_go_on_meanwhile() -> None:
    machine = Compacted()
    for n in range(30):
        machine.put((b"a", b"%d" % n))
    machine.seal()
    counter = 0

    def append() -> None:
        nonlocal counter
        counter += 1
        machine.put((b"a", b"new %d" % counter))
        machine.log.roll()

    machine.between_jobs = append
    machine.clean()

    assert counter > 5
    assert machine.contents() == {b"a": b"new %d" % counter}
    machine.sync()
    machine.between_jobs = lambda: None
    machine.clean()
    assert len(machine.offsets()) == 1


def test_damage_ends_the_round_and_costs_nothing() -> None:
    machine = Compacted()
    for n in range(20):
        machine.put((b"a", b"%d" % n))
    machine.seal()
    machine.files.flip_bit(f"{PATH}/{file_name(0, '.log')}", 200, 3)
    before = machine.files.read(f"{PATH}/{file_name(0, '.log')}")
    with pytest.raises(CorruptDataError):
        machine.clean()

    assert machine.files.read(f"{PATH}/{file_name(0, '.log')}") == before
    assert not [name for name in machine.files.names(PATH) if name.endswith((".cleaned", ".swap"))]
    assert machine.log.failure is None


def test_a_base_offset_that_lies_is_damage_though_no_checksum_covers_it() -> None:
    machine = Compacted()
    for n in range(6):
        machine.put((b"k%d" % n, b"1"))
    machine.seal()
    last = list(scan.headers(machine.log.segments[0].file, 0, machine.log.segments[0].size))[-1]
    machine.files.flip_bit(f"{PATH}/{file_name(0, '.log')}", last.position + 5, 0)
    with pytest.raises(CorruptDataError):
        machine.clean()


@pytest.mark.parametrize("kind", [Kind.APPEND, Kind.SYNC, Kind.CREATE])
def test_a_disk_that_refuses_the_new_segment_ends_the_round(kind: Kind) -> None:
    machine = Compacted()
    for n in range(20):
        machine.put((b"a", b"%d" % n))
    machine.seal()
    machine.files.faults.append(Fault(kind, errno.ENOSPC, path_part=".cleaned"))
    with pytest.raises(OSError):
        machine.clean()
    assert machine.log.failure is None
    machine.files.faults.clear()
    machine.clean()

    assert machine.contents() == {b"a": b"19"}


def test_a_swap_that_cannot_begin_is_called_off() -> None:
    machine = Compacted()
    for n in range(20):
        machine.put((b"a", b"%d" % n))
    machine.seal()
    machine.files.faults.append(Fault(Kind.RENAME, errno.EIO, path_part=".log.cleaned"))
    with pytest.raises(OSError):
        machine.clean()
    machine.files.faults.clear()

    assert machine.log.failure is None
    assert not [name for name in machine.files.names(PATH) if name.endswith((".cleaned", ".swap"))]
    machine.clean()
    assert machine.contents() == {b"a": b"19"}


def test_a_swap_that_fails_half_way_stops_the_log_until_it_is_opened_again() -> None:
    machine = Compacted()
    for n in range(20):
        machine.put((b"a", b"%d" % n), (b"b%d" % n, b"1"))
    machine.seal()
    expected = machine.contents()
    machine.files.faults.append(Fault(Kind.RENAME, errno.EIO, path_part=".timeindex.swap to"))
    with pytest.raises(OSError):
        machine.clean()
    machine.files.faults.clear()
    with pytest.raises(StorageError):
        machine.put((b"a", b"more"))
    machine.directory.reopen(ORDERS)

    assert machine.contents() == expected
    machine.put((b"a", b"more"))


def test_readers_of_the_old_segment_go_on() -> None:
    machine = Compacted()
    for n in range(20):
        machine.put((b"a", b"%d" % n))
    machine.seal()
    piece = machine.log.read(Offset(0), 1000, machine.log.end_offset)
    assert piece is not None
    before = piece.read()
    machine.clean()

    assert piece.read() == before
    machine.clock.advance(COMPACT.file_delete_delay_ms + 1)
    deletions = machine.directory.due_deletions(machine.clock.now())
    assert deletions is not None
    deletions.run()
    assert not [name for name in machine.files.names(PATH) if name.endswith(".deleted")]
    assert machine.contents() == {b"a": b"19"}


def test_the_newest_record_is_found_where_newer_ones_are_gone() -> None:
    machine = Compacted()
    machine.put((b"a", b"1"))
    machine.clock.advance(500)
    machine.put((b"b", b"1"), sender=Sequenced(7, 0))
    machine.clock.jump(-400)
    machine.put((b"b", b"2"))
    machine.seal_and_clean()
    assert [batch.count for batch in machine.batches()] == [1, 0, 1]

    for _ in range(2):
        newest = machine.log.offset_of_max_timestamp(machine.log.end_offset)
        assert newest is not None
        assert newest[:2] == (2, NOON + 100)
        machine.stop()


def test_the_snapshots_that_stay_are_those_that_segments_begin_with() -> None:
    machine = Compacted()
    for n in range(40):
        machine.put((b"a", b"%d" % n), (b"b%d" % (n % 5), b"x" * 10), sender=Sequenced(7, 2 * n))
    for _ in range(2):
        machine.seal_and_clean()
        bases = [segment.base_offset for segment in machine.log.segments]
        snapshots = [int(name[:20]) for name in machine.files.names(PATH) if name.endswith(".snapshot")]
        assert len(bases) > 1
        assert snapshots == [base for base in bases if base]
        machine.put((b"z", b"1"))
    machine.kill()

    assert machine.put((b"a", b"39"), (b"b4", b"x" * 10), sender=Sequenced(7, 78)).duplicate

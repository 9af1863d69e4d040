"""The batch view: fields in place, stamping, checksums, and buffers that are not batches (L1, L9, O5)."""

import pytest

from everlog.model.errors import CorruptDataError
from everlog.records.batch import HEADER_BYTES, BatchView, batch_at, whole_batches
from everlog.records.builder import NewRecord, build_batch
from tests.unit.records.sections import NOON


def a_batch(values: int = 3, base_offset: int = 0) -> bytearray:
    records = [NewRecord(b"key", b"value %d" % i, (), NOON + i) for i in range(values)]
    return build_batch(records, base_offset=base_offset, producer_id=7, producer_epoch=1, base_sequence=40)


def test_the_fields_are_those_in_the_header() -> None:
    batch = batch_at(a_batch(3, base_offset=100))

    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.count) == (100, 102, 103, 3)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (
        7,
        1,
        40,
        42,
    )
    assert (batch.base_timestamp, batch.max_timestamp) == (NOON, NOON + 2)
    assert batch.size == len(batch.raw)
    assert not batch.is_transactional
    assert not batch.is_control
    assert not batch.has_delete_horizon


def test_a_sequence_wraps_to_zero() -> None:
    batch = batch_at(
        build_batch([NewRecord(b"", b"")] * 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    )

    assert batch.last_sequence == 0


def test_stamping_keeps_the_checksum() -> None:
    raw = a_batch()
    batch = batch_at(raw)
    batch.stamp(5_000_000_000, 12)

    again = batch_at(raw)
    assert (again.base_offset, again.leader_epoch, again.last_offset) == (5_000_000_000, 12, 5_000_000_002)
    assert again.checksum_holds()


def test_a_new_max_timestamp_gets_a_new_checksum() -> None:
    raw = a_batch()
    batch = batch_at(raw)
    before = batch.crc
    batch.set_max_timestamp(NOON + 99, log_append_time=True)

    again = batch_at(raw)
    assert (again.max_timestamp, again.attributes & 0x08) == (NOON + 99, 0x08)
    assert again.crc != before
    assert again.checksum_holds()


def test_every_flipped_bit_under_the_checksum_is_found() -> None:
    raw = a_batch()
    for position in range(17, len(raw)):
        for bit in range(8):
            raw[position] ^= 1 << bit
            assert not BatchView(memoryview(raw)).checksum_holds(), (position, bit)
            raw[position] ^= 1 << bit
    assert batch_at(raw).checksum_holds()


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1])
def test_a_length_that_no_batch_has_is_refused(length: int) -> None:
    raw = a_batch()
    raw[8:12] = length.to_bytes(4, "big", signed=True)

    with pytest.raises(CorruptDataError, match=f"gives its length as {length}, expected 49 to"):
        batch_at(raw)


@pytest.mark.parametrize("kept", [0, 1, HEADER_BYTES - 1])
def test_a_header_cut_off_is_refused(kept: int) -> None:
    with pytest.raises(CorruptDataError, match=f"at least 61 bytes, found {kept}"):
        batch_at(a_batch()[:kept])


def test_a_batch_is_found_at_its_position() -> None:
    raw = b"\xff" * 5 + a_batch(2, base_offset=9) + b"\xff" * 3

    assert batch_at(raw, 5).base_offset == 9
    assert batch_at(raw, 5).checksum_holds()


def test_the_batch_cut_off_at_the_end_of_a_fetch_is_left_out() -> None:
    whole = a_batch(1, 0) + a_batch(2, 1)
    for cut in (0, 1, 12, HEADER_BYTES, len(a_batch(3)) - 1):
        assert [b.base_offset for b in whole_batches(whole + a_batch(3, 3)[:cut])] == [0, 1]
    assert [b.base_offset for b in whole_batches(whole + a_batch(3, 3))] == [0, 1, 3]


def test_an_impossible_length_between_batches_is_refused() -> None:
    bad = a_batch(1, 1)
    bad[8:12] = (48).to_bytes(4, "big")

    with pytest.raises(CorruptDataError, match="gives its length as 48"):
        list(whole_batches(a_batch(1, 0) + bad))

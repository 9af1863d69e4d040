"""Runs (C1): they are what looking at each batch says, or there is none."""

from struct import pack_into

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.model.errors import CorruptDataError
from everlog.records.batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, BatchView, batch_at, whole_batches
from everlog.records.builder import NewRecord, build_batch
from everlog.records.columns import columns_are_compiled
from everlog.records.compression import Codec
from everlog.records.runs import PlainRun, plain_run

pytestmark = pytest.mark.skipif(
    not columns_are_compiled(), reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set"
)
_CRC_AT, _ATTRIBUTES_AT, _MAGIC_AT = 17, 21, 16


def a_batch(base: int, count: int, *, epoch: int = 3, attributes: int = 0) -> bytearray:
    records = [NewRecord(None, b"%d" % (base + at), (), 1_700_000_000_000) for at in range(count)]
    raw = build_batch(records, base_offset=base, leader_epoch=epoch)
    pack_into(">h", raw, _ATTRIBUTES_AT, attributes)
    return raw


def batches(*counts: int) -> bytes:
    raws, base = list[bytes](), 0
    for number, count in enumerate(counts):
        raws.append(bytes(a_batch(base, count, epoch=number)))
        base += count
    return b"".join(raws)


def the_run(buffer: bytes, start: int = 0) -> PlainRun:
    run = plain_run(buffer, start)
    assert run is not None
    return run


def test_a_run_has_all_whole_batches_and_what_follows_them() -> None:
    whole = batches(3, 2, 4)

    run = the_run(whole + batches(5)[:-1])
    assert (bytes(run.raw), len(run), run.next_offset, run.leader_epoch) == (whole, 3, 9, 2)
    assert [batch.base_offset for batch in run] == [0, 3, 5]
    assert run[1].count == 2
    assert [batch.last_offset for batch in run[1:]] == [4, 8]


def test_a_run_begins_with_the_batch_that_holds_the_start() -> None:
    run = the_run(batches(3, 2, 4), 4)

    assert [batch.base_offset for batch in run] == [3, 5]
    assert plain_run(batches(3, 2, 4), 9) is None
    assert plain_run(b"", 0) is None


@pytest.mark.parametrize("attributes", [CONTROL, TRANSACTIONAL, *(codec for codec in Codec if codec)])
def test_a_batch_of_another_kind_means_no_run(attributes: int) -> None:
    other = bytes(a_batch(3, 2, attributes=attributes))

    assert plain_run(batches(3) + other, 0) is None
    assert plain_run(other + bytes(a_batch(5, 1)), 0) is None
    # What is before the start is not looked at.
    assert the_run(other + bytes(a_batch(5, 1)), 5).next_offset == 6


def test_times_of_the_log_are_plain() -> None:
    assert the_run(bytes(a_batch(0, 2, attributes=LOG_APPEND_TIME))).next_offset == 2


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [(8, ">i", 48), (8, ">i", -1), (_MAGIC_AT, ">b", 1), (23, ">i", -1), (0, ">q", (1 << 63) - 1)],
    ids=["too short", "below nothing", "an older format", "a delta below 0", "offsets of more than 64 bits"],
)
def test_a_header_that_is_not_right_means_no_run(at: int, form: str, value: int) -> None:
    wrong = a_batch(3, 2)
    pack_into(form, wrong, at, value)

    assert plain_run(batches(3) + bytes(wrong), 0) is None
    assert plain_run(bytes(wrong), 0) is None


def test_a_run_is_whole_if_every_checksum_holds() -> None:
    good = batches(3, 2, 4)
    assert the_run(good).checksums_hold()
    for batch in whole_batches(good):
        bad = bytearray(good)
        bad[good.index(bytes(batch.raw)) + _CRC_AT] ^= 1
        assert not the_run(bytes(bad)).checksums_hold()


def test_a_run_is_cut_behind_the_batch_that_fills_it() -> None:
    run = the_run(batches(3, 2, 4))
    sizes = [batch.size for batch in run]

    for limit, expected in [(0, 1), (1, 1), (sizes[0], 1), (sizes[0] + 1, 2), (sizes[0] + sizes[1] + 1, 3)]:
        first, rest = run.cut(limit)
        assert len(first) == expected
        assert bytes(first.raw) + (b"" if rest is None else bytes(rest.raw)) == bytes(run.raw)
        assert first.next_offset == run[expected - 1].next_offset
        assert first.leader_epoch == expected - 1
        if rest is not None:
            assert (len(rest), rest.next_offset, rest.leader_epoch) == (3 - expected, 9, 2)
    assert run.cut(len(run.raw)) == (run, None)


def one_by_one(buffer: bytes, start: int) -> list[BatchView] | None:
    """What a run should have, found by looking at each batch; None where there should be no run."""
    found: list[BatchView] = []
    try:
        for batch in whole_batches(buffer):
            if batch.next_offset <= start and not found:
                continue
            if batch.codec or batch.is_transactional or batch.is_control or batch.magic != 2:
                return None
            if batch.last_offset_delta < 0 or not start < batch.next_offset < 1 << 63:
                return None
            found.append(batch)
    except CorruptDataError:
        return None
    return found or None


@settings(deadline=None)
@given(st.data())
def test_a_run_is_what_looking_at_each_batch_says(data: st.DataObject) -> None:
    buffer = bytearray(batches(*data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(buffer) - 1))
        buffer[at] = data.draw(st.integers(0, 255))
    whole = bytes(buffer[: data.draw(st.integers(0, len(buffer)))])
    start = data.draw(st.integers(-1, 12))

    expected, run = one_by_one(whole, start), plain_run(whole, start)
    if run is None:
        # A batch before the start is stepped over whole, whatever its numbers say.
        assert expected is None or any(batch.last_offset_delta < 0 for batch in whole_batches(whole))
        return
    assert expected is not None
    assert [bytes(batch.raw) for batch in run] == [bytes(batch.raw) for batch in expected]
    assert (run.next_offset, run.leader_epoch) == (expected[-1].next_offset, expected[-1].leader_epoch)
    holds = [batch_at(bytearray(batch.raw)).checksum_holds() for batch in expected]
    assert run.checksums_hold() == all(holds)

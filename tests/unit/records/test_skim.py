"""The skim: what it finds in good records, and every malformation that it refuses (L1, O5).

Every test runs over the plain version and, where it is built, over the compiled one.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from everlog.model.errors import CorruptDataError
from everlog.ports.files import Buffer
from everlog.records.skim import Skim, kernel_is_loaded, skim_compiled, skim_plainly
from tests.unit.records.sections import NOON, a_record, field, sized, varint

Skimmer = Callable[[Buffer, int, int], Skim]

needs_kernel = pytest.mark.skipif(
    not kernel_is_loaded(),
    reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set",
)


@pytest.fixture(params=["plain", pytest.param("compiled", marks=needs_kernel)])
def skim(request: pytest.FixtureRequest) -> Skimmer:
    return skim_plainly if request.param == "plain" else skim_compiled


def test_the_first_record_with_the_largest_timestamp_is_named(skim: Skimmer) -> None:
    deltas = [0, 7, -3, 7, 2]
    section = b"".join(a_record(i, timestamp_delta=delta) for i, delta in enumerate(deltas))

    assert skim(section, 5, NOON) == Skim(NOON + 7, 1, null_keys=False)


def test_timestamps_may_all_lie_before_the_base(skim: Skimmer) -> None:
    section = a_record(0, timestamp_delta=-500) + a_record(1, timestamp_delta=-400)

    assert skim(section, 2, 100) == Skim(-300, 1, null_keys=False)


def test_one_null_key_is_enough_to_be_told_of(skim: Skimmer) -> None:
    assert skim(a_record(0) + a_record(1, key=None) + a_record(2), 3, NOON).null_keys
    assert not skim(a_record(0) + a_record(1, key=b"") + a_record(2, value=None), 3, NOON).null_keys


def test_an_empty_section_has_no_largest_timestamp(skim: Skimmer) -> None:
    assert skim(b"", 0, NOON) == Skim(-1, -1, null_keys=False)


def test_headers_are_stepped_over(skim: Skimmer) -> None:
    headers = [(b"trace", b"x" * 300), (b"", None), ("größe".encode(), b"")]

    assert skim(a_record(0, headers=headers) + a_record(1), 2, NOON) == Skim(NOON, 0, null_keys=False)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(skim: Skimmer, wrap: Callable[[bytearray], Buffer]) -> None:
    section = bytearray(a_record(0, timestamp_delta=5))

    assert skim(wrap(section), 1, NOON) == Skim(NOON + 5, 0, null_keys=False)


def test_a_large_section_is_skimmed_beside_other_threads(skim: Skimmer) -> None:
    count = 3_000
    section = b"".join(a_record(i, value=b"x" * 100, timestamp_delta=i % 97) for i in range(count))
    found: list[Skim] = []
    threads = [threading.Thread(target=lambda: found.append(skim(section, count, NOON))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [Skim(NOON + 96, 96, null_keys=False)] * 4


FIELDS = b"\x00" + varint(0) + varint(0)
"""Attributes, timestamp delta and offset delta of a first record."""

MALFORMED = {
    "no record at all": (b"", "a varint is cut off"),
    "a negative size": (varint(-2) + b"\x00" * 8, "its size is -2 where 8 bytes are left"),
    "a size beyond the end": (varint(100) + b"\x00" * 8, "its size is 100 where 8 bytes are left"),
    "a size of nothing": (varint(0), "cut off"),
    "a size one too small": (varint(len(a_record()) - 2) + a_record()[1:], "where|make it up|left over"),
    "a size one too large": (varint(len(a_record())) + a_record()[1:] + b"\x00", "bytes make it up"),
    "a size of six bytes": (b"\x80\x80\x80\x80\x80\x00" + b"\x00" * 9, "more than 32 bits"),
    "a timestamp of eleven bytes": (sized(b"\x00" + b"\x80" * 10 + b"\x00" * 9), "more than 64 bits"),
    "a timestamp cut off": (sized(b"\x00\x80"), "cut off"),
    "an offset delta ahead": (a_record(1), "its offset delta is 1, expected 0"),
    "a negative offset delta": (a_record(-1), "its offset delta is -1, expected 0"),
    "a key length of -2": (sized(FIELDS + varint(-2) + field(b"") + varint(0)), "length of its key is -2"),
    "a key beyond the end": (sized(FIELDS + varint(9) + b"key"), "length of its key is 9 where 3"),
    "a value length of -2": (
        sized(FIELDS + field(None) + varint(-2) + varint(0)),
        "length of its value is -2",
    ),
    "a value beyond the end": (sized(FIELDS + field(None) + varint(99) + b"v"), "length of its value is 99"),
    "a negative header count": (sized(FIELDS + field(b"k") * 2 + varint(-1)), "it has -1 headers"),
    "more headers than bytes": (
        sized(FIELDS + field(b"k") * 2 + varint(2**31 - 1) + b"\x00" * 4),
        "it has 2147483647 headers where 4 bytes are left",
    ),
    "a header without a name": (
        sized(FIELDS + field(b"k") * 2 + varint(1) + varint(-1) + b"\x00"),
        "name is -1",
    ),
    "a header value length of -5": (
        sized(FIELDS + field(b"k") * 2 + varint(1) + field(b"h") + varint(-5)),
        "length of its header value is -5",
    ),
    "a header missing": (sized(FIELDS + field(b"k") * 2 + varint(2) + field(b"h") * 2), "where|cut off"),
    "bytes inside that nobody claims": (sized(FIELDS + field(b"k") * 2 + varint(0) + b"\x00"), "make it up"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_record_is_refused_by_number_and_reason(skim: Skimmer, case: str) -> None:
    section, reason = MALFORMED[case]

    with pytest.raises(CorruptDataError, match=f"record 0 of 1 is damaged: .*({reason})"):
        skim(section, 1, NOON)


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_record_is_found_behind_good_ones(skim: Skimmer, case: str) -> None:
    section = a_record(0) + a_record(1) + MALFORMED[case][0]

    with pytest.raises(CorruptDataError, match="record 2 of 3 is damaged"):
        skim(section, 3, NOON)


def test_a_record_too_few_is_refused(skim: Skimmer) -> None:
    with pytest.raises(CorruptDataError, match="record 2 of 3 is damaged"):
        skim(a_record(0) + a_record(1), 3, NOON)


def test_a_record_too_many_is_left_over(skim: Skimmer) -> None:
    with pytest.raises(CorruptDataError, match=f"{len(a_record(1))} bytes are left over after 1 records"):
        skim(a_record(0) + a_record(1), 1, NOON)


def test_offset_deltas_out_of_order_are_refused(skim: Skimmer) -> None:
    with pytest.raises(CorruptDataError, match="record 1 of 3 is damaged: its offset delta is 2, expected 1"):
        skim(a_record(0) + a_record(2) + a_record(1), 3, NOON)


def test_a_negative_count_is_refused(skim: Skimmer) -> None:
    with pytest.raises(CorruptDataError, match="number of records as -1"):
        skim(b"", -1, NOON)


def test_the_largest_count_costs_nothing_without_the_bytes(skim: Skimmer) -> None:
    with pytest.raises(CorruptDataError, match="record 0 of 2147483647"):
        skim(b"", 2**31 - 1, NOON)


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1)])
def test_a_timestamp_of_more_than_64_bits_is_refused(skim: Skimmer, base: int, delta: int) -> None:
    with pytest.raises(CorruptDataError, match="its timestamp is"):
        skim(a_record(0, timestamp_delta=delta), 1, base)


@needs_kernel
@pytest.mark.parametrize("case", MALFORMED)
def test_both_versions_refuse_with_the_same_words(case: str) -> None:
    section = a_record(0) + a_record(1) + MALFORMED[case][0]
    with pytest.raises(CorruptDataError) as plain:
        skim_plainly(section, 3, NOON)
    with pytest.raises(CorruptDataError) as compiled:
        skim_compiled(section, 3, NOON)

    assert str(plain.value) == str(compiled.value)


@needs_kernel
@pytest.mark.parametrize(("value", "loaded"), [("1", False), ("0", True), ("", True)])
def test_the_environment_can_ask_for_the_plain_version(value: str, loaded: bool) -> None:
    source = Path(__file__).parents[3] / "src"
    program = "from everlog.records.skim import *; print(kernel_is_loaded(), skim(b'', 0, 0).max_timestamp)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(source), "EVERLOG_PURE_PYTHON": value},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )

    assert done.stdout.split() == [str(loaded), "-1"]

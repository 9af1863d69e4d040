"""The last offset of every key, and which records compaction keeps (L6).

Every test runs over the plain version and, where it is built, over the compiled one.
"""

import random
from collections.abc import Callable

import pytest

from everlog.model.errors import CorruptDataError
from everlog.records.key_scan import (
    SEED_BYTES,
    CompiledKeyMap,
    KeepRule,
    KeyMap,
    PlainKeyMap,
    Section,
    capacity_of,
)
from everlog.records.skim import kernel_is_loaded
from tests.unit.records.sections import a_record, sized, varint

SEED = bytes(range(SEED_BYTES))
Maker = Callable[[int, bytes], KeyMap]

needs_kernel = pytest.mark.skipif(
    not kernel_is_loaded(), reason="the kernel is not built, or EVERLOG_PURE_PYTHON is set"
)


@pytest.fixture(params=["plain", pytest.param("compiled", marks=needs_kernel)])
def a_map(request: pytest.FixtureRequest) -> Maker:
    return PlainKeyMap if request.param == "plain" else CompiledKeyMap


def a_section(*keys: bytes | None, base: int = 0, value: bytes | None = b"value") -> Section:
    records = b"".join(a_record(i, key=key, value=value) for i, key in enumerate(keys))
    return Section(records, len(keys), base, max(len(keys) - 1, 0))


def test_only_the_last_record_of_a_key_is_kept(a_map: Maker) -> None:
    keys = a_map(100, SEED)
    first, second = a_section(b"a", b"b", b"a"), a_section(b"b", b"c", base=3)
    assert (keys.add(first), keys.add(second)) == (3, 2)
    assert keys.size == 3

    sifted = keys.sift(first, KeepRule(latest=4, drop_tombstones=False))
    assert (sifted.kept, sifted.records) == (1, a_record(2, key=b"a"))
    whole = keys.sift(second, KeepRule(latest=4, drop_tombstones=False))
    assert (whole.kept, whole.records) == (2, None)


def test_batches_may_be_added_in_any_order(a_map: Maker) -> None:
    keys = a_map(100, SEED)
    keys.add(a_section(b"a", base=9))
    keys.add(a_section(b"a", base=2))

    assert keys.sift(a_section(b"a", base=2), KeepRule(9, drop_tombstones=False)).kept == 0
    assert keys.sift(a_section(b"a", base=9), KeepRule(9, drop_tombstones=False)).kept == 1


def test_records_behind_the_latest_offset_are_kept(a_map: Maker) -> None:
    keys = a_map(100, SEED)
    keys.add(a_section(b"a", b"a"))

    sifted = keys.sift(a_section(b"a", b"a", b"a", None), KeepRule(latest=1, drop_tombstones=True))
    assert (sifted.kept, sifted.records) == (
        3,
        a_record(1, key=b"a") + a_record(2, key=b"a") + a_record(3, key=None),
    )


def test_a_key_that_the_map_does_not_know_is_kept_and_one_without_a_key_is_not(a_map: Maker) -> None:
    sifted = a_map(100, SEED).sift(a_section(b"new", None, b""), KeepRule(9, drop_tombstones=False))

    assert (sifted.kept, sifted.records) == (2, a_record(0, key=b"new") + a_record(2, key=b""))


def test_tombstones_are_counted_and_dropped_when_asked(a_map: Maker) -> None:
    keys = a_map(100, SEED)
    section = Section(a_record(0, value=None) + a_record(1, key=b"b"), 2, 0, 1)
    keys.add(section)

    assert keys.sift(section, KeepRule(1, drop_tombstones=False))[:2] == (2, 1)
    dropped = keys.sift(section, KeepRule(1, drop_tombstones=True))
    assert (dropped.kept, dropped.tombstones, dropped.records) == (1, 0, a_record(1, key=b"b"))


def test_a_full_map_takes_known_keys_and_stops_at_the_first_new_one(a_map: Maker) -> None:
    keys = a_map(2, SEED)

    assert keys.add(a_section(b"a", b"b", b"a", b"c", b"a")) == 3
    assert keys.size == 2
    assert keys.add(a_section(b"b", base=10)) == 1


def test_the_largest_timestamp_of_those_kept_is_told(a_map: Maker) -> None:
    keys = a_map(9, SEED)
    records = b"".join(
        a_record(i, key=key, timestamp_delta=delta)
        for i, (key, delta) in enumerate([(b"a", 900), (b"b", -5), (b"a", -7)])
    )
    section = Section(records, 3, 0, 2)
    keys.add(section)

    assert keys.sift(section, KeepRule(2, drop_tombstones=False)).max_timestamp_delta == -5


@pytest.mark.parametrize("shift", [-1, 1, 70, -5_000, 1 << 40, -(1 << 40)])
def test_timestamps_can_be_told_from_another_base(a_map: Maker, shift: int) -> None:
    keys = a_map(9, SEED)
    headers = [(b"h", b"x" * 70)]
    section = Section(
        a_record(0, timestamp_delta=3, headers=headers) + a_record(1, timestamp_delta=64, key=b"b"), 2, 5, 1
    )
    keys.add(section)

    sifted = keys.sift(section, KeepRule(6, drop_tombstones=False, shift=shift))
    assert sifted.records == (
        a_record(0, timestamp_delta=3 + shift, headers=headers)
        + a_record(1, timestamp_delta=64 + shift, key=b"b")
    )


BAD = {
    "size beyond the end": varint(100) + a_record(0)[1:],
    "size of nothing": varint(0),
    "no room for the offset": sized(b"\x00" + varint(5)),
    "offset delta above the last": a_record(7),
    "key beyond the record": sized(b"\x00" + varint(0) + varint(0) + varint(50) + b"k" + varint(-1)),
    "key length of -2": sized(b"\x00" + varint(0) + varint(0) + varint(-2) + varint(-1)),
    "value beyond the record": sized(b"\x00" + varint(0) + varint(0) + varint(-1) + varint(9) + b"v"),
    "bytes left over": a_record(0) + b"\x00",
    "varint without end": b"\xff" * 11,
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_records_are_refused(a_map: Maker, name: str) -> None:
    section = Section(BAD[name], 1, 0, 0)
    with pytest.raises(CorruptDataError):
        a_map(9, SEED).add(section)
    with pytest.raises(CorruptDataError):
        a_map(9, SEED).sift(section, KeepRule(9, drop_tombstones=False))


def test_offset_deltas_must_rise_and_counts_must_fit(a_map: Maker) -> None:
    for section in (
        Section(a_record(1) + a_record(1), 2, 0, 5),
        Section(a_record(0), 1 << 30, 0, 0),
        Section(a_record(0), -1, 0, 0),
    ):
        with pytest.raises(CorruptDataError):
            a_map(9, SEED).add(section)


def test_a_shift_that_leaves_64_bits_is_refused(a_map: Maker) -> None:
    section = Section(a_record(0, timestamp_delta=(1 << 63) - 1), 1, 0, 0)
    with pytest.raises(CorruptDataError):
        a_map(9, SEED).sift(section, KeepRule(0, drop_tombstones=False, shift=1))


@needs_kernel
def test_both_versions_agree_on_random_histories() -> None:
    chance = random.Random(5)
    for _ in range(200):
        capacity = chance.choice([3, 40, 1000])
        plain, compiled = PlainKeyMap(capacity, SEED), CompiledKeyMap(capacity, SEED)
        sections: list[Section] = []
        base = 0
        for _ in range(chance.randrange(1, 8)):
            deltas = sorted(chance.sample(range(40), chance.randrange(1, 20)))
            records = b"".join(
                a_record(
                    delta,
                    timestamp_delta=chance.randrange(-1000, 100_000),
                    key=chance.choice([None, b"", b"%d" % chance.randrange(30), chance.randbytes(20)]),
                    value=chance.choice([None, b"v" * chance.randrange(200)]),
                )
                for delta in deltas
            )
            sections.append(Section(records, len(deltas), base, 39))
            base += 40
        for section in sections:
            assert plain.add(section) == compiled.add(section)
            assert plain.size == compiled.size
        rule = KeepRule(chance.randrange(base), chance.random() < 0.5, chance.choice([0, 0, 77]))
        for section in sections:
            assert plain.sift(section, rule) == compiled.sift(section, rule)


def test_a_key_takes_24_bytes_of_the_buffer() -> None:
    assert capacity_of(24_000, 0.9) == 900
    assert capacity_of(1, 0.9) == 1

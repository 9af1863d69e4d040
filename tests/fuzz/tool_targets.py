"""Targets of the tools: the files of a partition as `everlog log dump` and `everlog log verify` read them.

The tools read leniently, so nothing but findings may come of any bytes, and where the broker's own readers
take a file, the tools see the same in it.
"""

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from click import Context

from everlog.cli.log_checks import check_partition
from everlog.cli.log_dump import dump
from everlog.cli.log_files import (
    Damage,
    Room,
    aborted_entries,
    batches_in,
    offset_entries,
    producer_snapshot,
    time_entries,
)
from everlog.log.aborted_index import AbortedTxn, pack, unpack
from everlog.log.offset_index import GrowingOffsetIndex, SealedOffsetIndex
from everlog.log.producers import Producers, ProducerState, Sent
from everlog.log.scan import batches
from everlog.log.snapshot import read_snapshot, snapshot_bytes
from everlog.log.time_index import GrowingTimeIndex, SealedTimeIndex
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset, ProducerId
from everlog.ports.files import File
from everlog.records.builder import NewRecord, build_batch
from everlog.records.crc import crc32c
from tests.fuzz.file_targets import BASE, END, OneFile
from tests.fuzz.target import Target, found

_NOON = 1 << 40
_STEM = f"{BASE:020}"
_MAGIC_AT, _CRC_AT, _CRC_FROM = 16, 17, 21


@cache
def _home(suffix: str) -> TemporaryDirectory[str]:
    """Where files of this kind are put, one after the other, with a sound segment beside an index."""
    directory = TemporaryDirectory(prefix="everlog-fuzz-")
    (Path(directory.name) / f"{_STEM}.log").write_bytes(b"".join(_batches()))
    return directory


def _run(data: bytes) -> None:
    """The first byte says which file of a partition the rest is."""
    if not data:
        return
    suffix, compare = _KINDS[data[0] % len(_KINDS)]
    content = data[1:]
    home = _home(suffix).name
    for one in {content, _proved(suffix, content)}:
        compare(one)
        file = Path(home) / f"{_STEM}{suffix}"
        file.write_bytes(one)
        check_partition(home, lambda _: None, records=True)
        _dump(str(file))


_SAID = io.StringIO()
"""One for all inputs: click keeps each stream that it has written to."""


def _dump(path: str) -> None:
    """In JSON and in lines, as records and as metadata: an exit code of 1 goes with a word on the damage."""
    text = _SAID
    for metadata in (False, True):
        text.seek(0)
        text.truncate()
        with redirect_stdout(text), Context(dump, info_name="everlog log dump") as context:
            code = context.invoke(
                dump, paths=(path,), records=not metadata, metadata=metadata, as_json=not metadata
            )
        damaged = '"damage": ' in text.getvalue() or "DAMAGE" in text.getvalue()
        found(code == damaged, f"dump ends with {code}, and says {text.getvalue()!r}")


def _proved(suffix: str, data: bytes) -> bytes:
    """The same with checksums that hold, so that what lies behind is reached."""
    if suffix == ".snapshot" and len(data) >= 6:
        return data[:2] + crc32c(data[6:]).to_bytes(4, "big") + data[6:]
    made, position = bytearray(data), 0
    while suffix == ".log" and position + _CRC_FROM <= len(made):
        size = 12 + int.from_bytes(made[position + 8 : position + 12], "big", signed=True)
        if size < _CRC_FROM or position + size > len(made):
            break
        made[position + _MAGIC_AT] = 2
        made[position + _CRC_AT : position + _CRC_FROM] = crc32c(
            made[position + _CRC_FROM : position + size]
        ).to_bytes(4, "big")
        position += size
    return bytes(made)


def _segment(data: bytes) -> None:
    lenient: list[int] = []
    damaged = False
    for one in batches_in(memoryview(data)):
        if isinstance(one, Damage):
            damaged = True
        elif isinstance(one, Room):
            found(not any(data[one.position :]), "room has something in it")
            damaged = True
        else:
            lenient.append(one[0])
    try:
        strict = [position for position, _ in batches(cast("File", OneFile(data)), 0, len(data))]
    except CorruptDataError:
        return
    found(not damaged and strict == lenient, "a segment that the broker proves is damaged to the tools")


def _offset_index(data: bytes) -> None:
    entries = offset_entries(memoryview(data), BASE)
    try:
        strict = SealedOffsetIndex(BASE, memoryview(data))
    except CorruptDataError:
        return
    expected = [strict.entry(at) for at in range(len(strict))]
    found(entries == expected, f"an offset index has {expected}, to the tools {entries}")


def _time_index(data: bytes) -> None:
    entries = time_entries(memoryview(data), BASE)
    try:
        strict = SealedTimeIndex(BASE, memoryview(data))
        GrowingTimeIndex.load(BASE, data)
    except CorruptDataError:
        return
    last = strict.last()
    found(
        (entries[-1] if entries else None) == last, f"a time index ends with {last}, to the tools {entries}"
    )


def _txn_index(data: bytes) -> None:
    entries = aborted_entries(memoryview(data))
    try:
        strict = unpack(data, BASE, END)
    except CorruptDataError:
        return
    lenient = [
        (one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset) for one in entries
    ]
    found(lenient == [tuple(one) for one in strict], "a transaction index differs to the tools")


def _snapshot(data: bytes) -> None:
    lenient = producer_snapshot(memoryview(data))
    try:
        read_snapshot(data)
    except CorruptDataError:
        return
    found(lenient.problem is None, f"a producer snapshot that the broker takes: {lenient.problem}")


_KINDS: tuple[tuple[str, Callable[[bytes], None]], ...] = (
    (".log", _segment),
    (".index", _offset_index),
    (".timeindex", _time_index),
    (".txnindex", _txn_index),
    (".snapshot", _snapshot),
)


def _batches() -> list[bytes]:
    return [
        bytes(build_batch([NewRecord(b"k", b"v", (), _NOON + i)], base_offset=BASE + i, leader_epoch=1))
        for i in range(3)
    ]


def _seeds() -> list[bytes]:
    batch = _batches()
    sent = ProducerState(ProducerId(4), 2)
    sent.window = [Sent(0, 1, Offset(7), Offset(8), _NOON)]
    producers = Producers()
    producers.put(sent)
    aborted = [AbortedTxn(ProducerId(5), Offset(990), Offset(BASE + 1), Offset(BASE + 2))]
    offsets = GrowingOffsetIndex(BASE, [(BASE, 0), (BASE + 1, len(batch[0]))]).unsaved()
    times = GrowingTimeIndex(BASE, [(_NOON, BASE), (_NOON + 1, BASE + 1)]).unsaved()
    return [
        b"\x00" + b"".join(batch),
        b"\x00" + batch[0] + bytes(80),
        b"\x00" + b"".join(batch)[:-5],
        b"\x00" + (2**63 - 1).to_bytes(8, "big") + batch[0][8:],
        b"\x01" + offsets,
        b"\x01" + offsets + bytes(8),
        b"\x02" + times,
        b"\x02" + times + bytes(12),
        b"\x03" + pack(aborted),
        b"\x04" + snapshot_bytes(producers),
    ]


TOOL_TARGETS = (Target("log_tools", _run, _seeds, weight=2),)

"""What a lookup reads, in a segment of a gigabyte and among ten thousand segments (L3, L7).

That it takes less than a millisecond is measured by `make bench-lookups`; what that rests on is counted here:
a few kilobytes, wherever in the segment the offset lies, and files of one segment, however many there are.
"""

import random
import struct
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import pytest

from everlog.log.epochs import LeaderEpochs
from everlog.log.partition import PartitionLog, World
from everlog.log.recovery import Opening
from everlog.log.search import ReadLimits, read_slice
from everlog.log.segment import Segment, file_name
from everlog.log.settings import LogSettings
from everlog.model.ids import LeaderEpoch, Offset, Timestamp
from everlog.ports.files import File
from everlog.records.batch import CRC_START
from everlog.records.builder import NewRecord, build_batch
from everlog.records.crc import crc32c
from everlog.sim.chance import SimRandom
from everlog.sim.clock import SimClock
from everlog.sim.disk import SimFiles
from everlog.sim.handle import SimFile
from tests.unit.log.builders import NOON, ORDERS, PATH

GIB = 1 << 30
INTERVAL = 4096
LOOKUPS = 200
WALK_BYTES = 8 << 10
"""What a walk along headers reads at once, which is further than to the next entry of the index."""


class CountingFiles(SimFiles):
    """A disk that counts what is read from it; one file may be made up as it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.bytes_read = 0
        self.opened = 0
        self.made_up: MadeUpLog | None = None

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.opened += 1
        file = super().open(path, create=create)
        if self.made_up is not None and path == self.made_up.path:
            self.made_up.handle = file
            return cast(SimFile, self.made_up)  # It can be read, and nobody does more with it.
        return file

    def check_read(self, path: str) -> None:
        self.reads += 1
        super().check_read(path)

    @contextmanager
    def at_most(self, *, reads: int, read_bytes: int, opened: int) -> Generator[None]:
        """What is done within reads no more than this."""
        before = self.reads, self.bytes_read, self.opened
        yield
        used = self.reads - before[0], self.bytes_read - before[1], self.opened - before[2]
        assert used[0] <= reads, used
        assert used[1] <= read_bytes, used
        assert used[2] <= opened, used


class MadeUpLog:
    """A log of a gigabyte: batches of one record each that are made when they are read."""

    def __init__(self, files: CountingFiles, path: str) -> None:
        self.path = path
        self.handle: File | None = None
        self._files = files
        self._template = build_batch([NewRecord(b"key", bytes(950), (), NOON)], leader_epoch=0)
        self.batch_bytes = len(self._template)
        self.count = GIB // self.batch_bytes
        self.size = self.count * self.batch_bytes

    def batch(self, number: int) -> bytes:
        made = bytearray(self._template)
        struct.pack_into(">q", made, 0, number)
        struct.pack_into(">qq", made, 27, NOON + number, NOON + number)
        struct.pack_into(">I", made, 17, crc32c(made[CRC_START:]))
        return bytes(made)

    def read(self, position: int, length: int) -> bytes:
        self._files.reads += 1
        self._files.bytes_read += length
        first, skipped = divmod(position, self.batch_bytes)
        last = min(self.count, -(-(position + length) // self.batch_bytes))
        return b"".join(map(self.batch, range(first, last)))[skipped : skipped + length]

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def files() -> CountingFiles:
    return CountingFiles()


@pytest.fixture(scope="module")
def gigabyte(files: CountingFiles) -> Segment:
    """A sealed segment as it is found after a restart, with the indexes that its growth would have made."""
    files.make_dir("/logs")
    files.make_dir(PATH)
    stem = f"{PATH}/{file_name(0, '')}"
    log = files.made_up = MadeUpLog(files, stem + ".log")
    files.open(log.path, create=True)
    step = INTERVAL // log.batch_bytes + 1
    entries = range(step, log.count, step)
    files.open(stem + ".index", create=True).append(
        [struct.pack(">II", number, number * log.batch_bytes) for number in entries]
    )
    newest = log.count - 1
    times = [struct.pack(">qI", NOON + number, number) for number in (*entries, newest)]
    files.open(stem + ".timeindex", create=True).append(times)
    segment = Segment(files, PATH, Offset(0), log.size, INTERVAL)
    segment.end_offset = Offset(log.count)
    segment.has_no_aborted()
    return segment


def some(count: int) -> list[int]:
    chance = random.Random(1)
    return [0, 1, count - 1, *(chance.randrange(count) for _ in range(LOOKUPS))]


def test_an_offset_in_a_gigabyte_is_found_in_a_few_kilobytes(files: CountingFiles, gigabyte: Segment) -> None:
    assert gigabyte.size > GIB - 2048
    for offset in some(gigabyte.end_offset):
        with files.at_most(reads=2, read_bytes=2 * WALK_BYTES, opened=1):
            found = gigabyte.find(offset)
        assert found is not None
        assert found.base_offset == offset


def test_a_read_from_a_gigabyte_reads_no_more_than_it_serves_and_what_leads_there(
    files: CountingFiles, gigabyte: Segment
) -> None:
    epochs = LeaderEpochs([(LeaderEpoch(0), Offset(0))])
    for offset in some(gigabyte.end_offset):
        limits = ReadLimits(64 * 1024, gigabyte.end_offset, at_least_one=True)
        with files.at_most(reads=6, read_bytes=64 * 1024 + 5 * WALK_BYTES, opened=1):
            first = gigabyte.find(offset)
            assert first is not None
            piece = read_slice(gigabyte, first, limits, epochs)
        assert piece is not None
        assert piece.position == first.position


def test_a_moment_in_a_gigabyte_is_found_in_a_few_kilobytes(files: CountingFiles, gigabyte: Segment) -> None:
    epochs = LeaderEpochs([(LeaderEpoch(0), Offset(0))])
    for offset in some(gigabyte.end_offset):
        with files.at_most(reads=7, read_bytes=7 * WALK_BYTES, opened=1):
            found = gigabyte.find_time(NOON + offset, 0, epochs)
        assert found is not None
        assert found.base_offset == offset
    with files.at_most(reads=2, read_bytes=2 * WALK_BYTES, opened=1):
        assert gigabyte.largest_timestamp() == (NOON + gigabyte.end_offset - 1, gigabyte.end_offset - 1)


# --- ten thousand segments

SEGMENTS = 10_000


@pytest.fixture(scope="module")
def many() -> tuple[CountingFiles, PartitionLog]:
    """A log of ten thousand segments, found after a clean stop, with one batch in each."""
    files = CountingFiles()
    files.make_dir("/logs")
    files.make_dir(PATH)
    for number in range(SEGMENTS):
        batch = build_batch(
            [NewRecord(b"key", b"value", (), NOON + number)], base_offset=number, leader_epoch=0
        )
        contents: dict[str, bytes | bytearray] = {
            ".log": batch,
            ".index": b"",
            ".timeindex": struct.pack(">qI", NOON + number, 0),
        }
        for suffix, content in contents.items():
            files.open(f"{PATH}/{file_name(number, suffix)}", create=True).append((content,))
    files.open(f"{PATH}/leader-epoch-checkpoint", create=True).append((b"0\n1\n0 0\n",))
    world = World(files, SimClock(), SimRandom(1))
    settings = LogSettings(segment_bytes=100, retention_ms=-1)
    log = PartitionLog(world, PATH, ORDERS, settings, Opening(clean=True, recovery_point=Offset(SEGMENTS)))
    assert log.segment_count == SEGMENTS
    return files, log


def test_an_offset_among_ten_thousand_segments_is_found_in_one_of_them(
    many: tuple[CountingFiles, PartitionLog],
) -> None:
    files, log = many
    for offset in some(SEGMENTS):
        with files.at_most(reads=2, read_bytes=0, opened=1):
            piece = log.read(Offset(offset), 1, log.end_offset)
        assert piece is not None
        assert struct.unpack_from(">q", piece.read())[0] == offset


def test_a_moment_among_ten_thousand_segments_is_found_in_one_of_them_once_all_are_known(
    many: tuple[CountingFiles, PartitionLog],
) -> None:
    files, log = many
    with files.at_most(reads=2 * SEGMENTS, read_bytes=0, opened=SEGMENTS):
        assert log.learn_times(None, lambda: False)

    for offset in some(SEGMENTS):
        # Four to find the batch, and a fifth that proves it, unless whoever read here before has.
        with files.at_most(reads=5, read_bytes=0, opened=1):
            found = log.offset_for_time(Timestamp(NOON + offset), log.end_offset)
        assert found is not None
        assert found.offset == offset

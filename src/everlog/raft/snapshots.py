"""Snapshots of the metadata log on disk: `<end>-<epoch>.checkpoint` files of record batches (KIP-630).

A snapshot begins with a header and ends with a footer, both control records; between them lie the records
that lead to the same state as all entries below its end. Offsets in it count from 0. A file has its name only
once it is whole and on disk; until then it ends in `.part`.
"""

import re
from collections.abc import Iterable, Iterator

from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset
from everlog.ports.files import Files
from everlog.raft.control import control_record, kraft_version_value, voters_value
from everlog.raft.messages import SnapshotId
from everlog.raft.voters import VoterSet
from everlog.records.batch import MAGIC, BatchView, batch_at
from everlog.records.builder import NewRecord, build_batch
from everlog.records.control import ControlType, build_control_batch, control_type
from everlog.wire.codec import encode_value
from everlog.wire.messages.snapshot_footer_record import SnapshotFooterRecord
from everlog.wire.messages.snapshot_header_record import SnapshotHeaderRecord

SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_BATCH_BYTES = 512 << 10
"""About how large the batches of a snapshot are."""


def file_name(snapshot: SnapshotId) -> str:
    """Kafka's name for a snapshot."""
    return f"{snapshot.end:020d}-{snapshot.epoch:010d}{SUFFIX}"


def snapshot_of(name: str) -> SnapshotId | None:
    """The snapshot that a file's name stands for; None for other files."""
    found = _NAME.fullmatch(name)
    return None if found is None else SnapshotId(Offset(int(found[1])), int(found[2]))


class SnapshotFiles:
    """The snapshots in the metadata log's directory."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory

    def found(self) -> list[SnapshotId]:
        """The snapshots that are whole, oldest first; what a crash left of others is removed."""
        names = self._files.names(self._directory)
        for name in names:
            if name.endswith(PART_SUFFIX):
                self._files.unlink(f"{self._directory}/{name}")
        return sorted(snapshot for name in names if (snapshot := snapshot_of(name)) is not None)

    def path(self, snapshot: SnapshotId) -> str:
        """Where a snapshot lies."""
        return f"{self._directory}/{file_name(snapshot)}"

    def exists(self, snapshot: SnapshotId) -> bool:
        """Whether a snapshot is there, whole."""
        return self._files.exists(self.path(snapshot))

    def size(self, snapshot: SnapshotId) -> int:
        """How many bytes a snapshot has; FileNotFoundError if it is not there."""
        return self._files.size(self.path(snapshot))

    def read(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Bytes of a snapshot; FileNotFoundError if it is not there."""
        file = self._files.open(self.path(snapshot))
        try:
            return file.read(position, max(0, min(max_bytes, file.size - position)))
        finally:
            file.close()

    def write_part(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        """Keep bytes of one that is being fetched; from position 0 on it begins anew."""
        path = self._part_path(snapshot)
        if position == 0 and self._files.exists(path):
            self._files.unlink(path)
        file = self._files.open(path, create=position == 0)
        try:
            if file.size != position:
                raise OSError(f"{path} has {file.size} bytes, expected {position}")
            file.append([data])
        finally:
            file.close()

    def finish(self, snapshot: SnapshotId) -> bool:
        """Prove what was fetched, make it durable and name it; False if it is not whole. It blocks."""
        if self._files.exists(self.path(snapshot)):
            return True
        path = self._part_path(snapshot)
        try:
            check(self._files.read(path))
        except CorruptDataError:
            self._files.unlink(path)
            return False
        self._put_in_place(path, snapshot)
        return True

    def write(self, snapshot: SnapshotId, batches: Iterable[bytes | bytearray]) -> None:
        """Write a snapshot and make it durable. It blocks."""
        path = self._part_path(snapshot)
        if self._files.exists(path):
            self._files.unlink(path)
        file = self._files.open(path, create=True)
        try:
            for batch in batches:
                file.append([batch])
            file.trim()
        finally:
            file.close()
        self._put_in_place(path, snapshot)

    def _put_in_place(self, path: str, snapshot: SnapshotId) -> None:
        file = self._files.open(path)
        try:
            file.sync()
        finally:
            file.close()
        self._files.rename(path, self.path(snapshot))
        self._files.sync_dir(self._directory)

    def remove(self, snapshot: SnapshotId) -> None:
        """Remove one that nobody needs any more."""
        self._files.unlink(self.path(snapshot))

    def batches(self, snapshot: SnapshotId) -> Iterator[BatchView]:
        """The batches of a snapshot, header and footer among them; CorruptDataError where one is damaged."""
        yield from _batches(self._files.read(self.path(snapshot)))

    def _part_path(self, snapshot: SnapshotId) -> str:
        return f"{self._directory}/{file_name(snapshot).removesuffix(SUFFIX)}{PART_SUFFIX}"


def snapshot_batches(
    snapshot: SnapshotId, records: Iterable[bytes], timestamp: int, voters: VoterSet | None = None
) -> Iterator[bytes | bytearray]:
    """The batches of a snapshot with these records, a control record before and behind them.

    `voters` are those that the log has up to its end, if it has any.
    """
    offset = 0

    def control(kind: ControlType, value: bytes) -> bytearray:
        return build_control_batch(
            kind, value, timestamp=timestamp, base_offset=offset, leader_epoch=snapshot.epoch
        )

    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=timestamp)
    yield control(ControlType.SNAPSHOT_HEADER, encode_value(header, 0))
    offset += 1
    if voters is not None:
        yield control(ControlType.KRAFT_VERSION, kraft_version_value())
        offset += 1
        yield control(ControlType.KRAFT_VOTERS, voters_value(voters))
        offset += 1
    gathered: list[NewRecord] = []
    size = 0
    for value in records:
        gathered.append(NewRecord(None, value, (), timestamp))
        size += len(value)
        if size >= _BATCH_BYTES:
            yield build_batch(gathered, base_offset=offset, leader_epoch=snapshot.epoch)
            offset += len(gathered)
            gathered, size = [], 0
    if gathered:
        yield build_batch(gathered, base_offset=offset, leader_epoch=snapshot.epoch)
        offset += len(gathered)
    yield control(ControlType.SNAPSHOT_FOOTER, encode_value(SnapshotFooterRecord(version=0), 0))


def check(content: bytes) -> None:
    """CorruptDataError unless this is a whole snapshot: good batches, a header first and a footer last."""
    kinds = [
        control_type(control_record(batch).key) if batch.is_control else None for batch in _batches(content)
    ]
    if (
        not kinds
        or kinds[0] is not ControlType.SNAPSHOT_HEADER
        or kinds[-1] is not ControlType.SNAPSHOT_FOOTER
    ):
        raise CorruptDataError(f"a snapshot of {len(kinds)} batches lacks its header or its footer")


def _batches(content: bytes) -> Iterator[BatchView]:
    position, offset = 0, 0
    while position < len(content):
        batch = batch_at(content, position)
        if batch.magic != MAGIC or batch.base_offset != offset or not batch.checksum_holds():
            raise CorruptDataError(f"a snapshot has {batch} at byte {position}, expected offset {offset}")
        yield batch
        position += batch.size
        offset = batch.next_offset

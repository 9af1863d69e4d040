"""Snapshotter: has the metadata log begin anew from the image now and then, so that it does not only grow.

Every node does so by itself, by `metadata.log.max.record.bytes.between.snapshots` and
`metadata.log.max.snapshot.interval.ms`: what is in a snapshot is committed, so all nodes mean the same.
"""

import logging
from collections.abc import Iterable

from everlog.metadata.image import ClusterImage
from everlog.metadata.image_records import image_of, image_records
from everlog.metadata.records import decode_record, encode_record
from everlog.model.errors import StorageError
from everlog.model.ids import Instant, Offset
from everlog.ports.clock import Clock
from everlog.raft.member import QuorumMember
from everlog.raft.messages import SnapshotId
from everlog.records.batch import BatchView
from everlog.records.reader import read_records

_log = logging.getLogger(__name__)

BYTES_BETWEEN = 20 << 20
INTERVAL_MS = 3_600_000


class Snapshotter:
    """Takes snapshots; whoever publishes images calls `published` with each."""

    def __init__(
        self,
        member: QuorumMember,
        clock: Clock,
        bytes_between: int = BYTES_BETWEEN,
        interval_ms: int = INTERVAL_MS,
    ) -> None:
        """`interval_ms` 0: no snapshot for the sake of time alone."""
        self._member = member
        self._clock = clock
        self._bytes_between = bytes_between
        self._interval_ms = interval_ms
        self._last_at = clock.now()
        self._writing = False

    def published(self, image: ClusterImage) -> None:
        """Take in what is committed; write a snapshot of it, beside the loop, if one is due."""
        newest = self._member.snapshot
        is_new = newest is None or image.end_offset > newest.end
        if not self._writing and is_new and image.end_offset and self._is_due(self._clock.now()):
            self._take(image)

    def _is_due(self, now: Instant) -> bool:
        if self._member.unsaved_bytes >= self._bytes_between:
            return True
        return 0 < self._interval_ms <= now - self._last_at

    def _take(self, image: ClusterImage) -> None:
        self._writing = True
        self._last_at = self._clock.now()

        def done(error: StorageError | None) -> None:
            self._writing = False
            if error is not None:
                # The log has all of it; another one is due in time.
                _log.error("no snapshot was taken at %d: %s", image.end_offset, error)

        records = (encode_record(record) for record in image_records(image))
        self._member.take_snapshot(image.end_offset, image.epoch, records, done)


def load_image(member: QuorumMember) -> ClusterImage:
    """The image that the newest snapshot stands for; CorruptDataError where it cannot be read."""
    snapshot = member.snapshot
    assert snapshot is not None, "there is no snapshot"
    return image_in(member.snapshot_batches(), snapshot)


def image_in(batches: Iterable[BatchView], snapshot: SnapshotId) -> ClusterImage:
    """The image that the batches of a snapshot stand for; CorruptDataError where they make no sense."""
    records = (
        decode_record(record.value)
        for batch in batches
        if not batch.is_control
        for record in read_records(batch)
    )
    return image_of(records, Offset(snapshot.end), snapshot.epoch)

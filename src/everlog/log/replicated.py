"""What a follower got from its leader, before it is written: checked, and as it came."""

from typing import NamedTuple

from everlog.log.producers import Marker
from everlog.log.replay import marker_of
from everlog.model.errors import CorruptDataError, ErrorCode, Refused
from everlog.model.ids import LeaderEpoch, Offset
from everlog.records.batch import CONTROL, CRC_START, MAGIC, BatchView, whole_batches
from everlog.records.crc import crc32c


class ReplicatedBatch(NamedTuple):
    """One batch of the leader, with the end of a transaction that it stands for, if it does."""

    batch: BatchView
    marker: Marker | None


def checked_batches(
    records: memoryview, end_offset: Offset, latest_epoch: LeaderEpoch
) -> list[ReplicatedBatch]:
    """The batches that follow the end of a log, proved and in order; those that it has already are left out.

    Refused where one is damaged or does not follow: nothing of it may be written then. A batch that is cut
    off at the end of an answer is left out too.
    """
    found: list[ReplicatedBatch] = []
    try:
        for batch in whole_batches(records):
            last_delta = batch.last_offset_delta
            if (
                batch.magic != MAGIC
                or last_delta < 0
                or not 0 <= batch.count <= last_delta + 1
                or crc32c(batch.raw[CRC_START:]) != batch.crc
            ):
                raise Refused(ErrorCode.CORRUPT_MESSAGE, f"{batch} is damaged")
            next_offset = batch.base_offset + last_delta + 1
            if next_offset <= end_offset and not found:
                continue
            if batch.base_offset < end_offset or batch.leader_epoch < latest_epoch:
                raise not_following(batch, end_offset, latest_epoch)
            marker = marker_of(batch) if batch.attributes & CONTROL and batch.producer_id >= 0 else None
            found.append(ReplicatedBatch(batch, marker))
            end_offset, latest_epoch = Offset(next_offset), LeaderEpoch(batch.leader_epoch)
    except CorruptDataError as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    return found


def not_following(batch: BatchView, end_offset: Offset, latest_epoch: LeaderEpoch) -> Refused:
    """What to raise where a batch does not come behind all that a log has."""
    return Refused(
        ErrorCode.INVALID_RECORD, f"{batch} does not follow offset {end_offset} and epoch {latest_epoch}"
    )


def first_base(records: memoryview) -> Offset:
    """The offset that the records begin with."""
    return Offset(BatchView(records).base_offset)

"""Batches of the metadata log, as the image that they lead to."""

from collections.abc import Iterable

from everlog.metadata.delta import Changes, Delta
from everlog.metadata.image import EMPTY_IMAGE, ClusterImage
from everlog.metadata.records import decode_record
from everlog.model.errors import CorruptDataError
from everlog.model.ids import Offset
from everlog.records.batch import BatchView
from everlog.records.reader import read_records


def replay(batches: Iterable[BatchView], image: ClusterImage = EMPTY_IMAGE) -> tuple[ClusterImage, Changes]:
    """The image after all batches, which follow on `image`, and what changed.

    CorruptDataError where they do not follow. Control batches take their offsets and say nothing about the
    cluster.
    """
    delta = Delta(image)
    end = image.end_offset
    epoch = image.epoch
    for batch in batches:
        if batch.base_offset != end or batch.leader_epoch < epoch:
            raise CorruptDataError(
                f"the metadata log has offset {batch.base_offset} of epoch {batch.leader_epoch}, "
                f"expected {end} of epoch {epoch} or later"
            )
        if not batch.checksum_holds():
            raise CorruptDataError(f"the metadata batch at offset {end} does not match its checksum")
        if not batch.is_control:
            for record in read_records(batch):
                delta.replay(decode_record(record.value), Offset(record.offset))
        end = Offset(batch.next_offset)
        epoch = batch.leader_epoch
    return delta.finish(end, epoch)

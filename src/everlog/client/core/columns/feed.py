"""What was fetched, handed out as columns (C1).

In three steps, so that the one that takes long can be on any thread: `Consumer.poll_arrow` takes chunks out
of the feed, reads them here, and puts back what was not used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from everlog.client.core.columns.columns import ArrowBatch, Unpacked, damaged, unpack, unpacked_to_arrow
from everlog.client.core.consumer.chunks import Chunk
from everlog.client.core.consumer.errors import DamagedBatch
from everlog.client.core.consumer.positions import PartitionState
from everlog.model.errors import CorruptDataError

MAX_BYTES = 8 * 1024 * 1024
"""What one poll returns of records, about. What is under way, read and handed out is several times as much,
and with 16 MiB it no longer fitted the processor's caches: copied values took a fifth more CPU."""


class Portion(NamedTuple):
    """A chunk on its way out, and the version of its partition when it was taken."""

    state: PartitionState
    version: int
    chunk: Chunk


@dataclass(slots=True)
class ColumnRead:
    """What became of some portions."""

    batch: ArrowBatch | None = None
    used: list[Portion] = field(default_factory=list[Portion])
    """The application has them, once positions are moved behind them."""
    left: list[Portion] = field(default_factory=list[Portion])
    error: DamagedBatch | None = None
    """Why the first one was not read; nothing is used then."""

    def move_positions(self) -> None:
        """Move positions behind what is used, unless somebody has called `seek` meanwhile."""
        for state, version, chunk in self.used:
            if state.version == version:
                state.handed_out(chunk.next_offset, chunk.leader_epoch)


def read_columns(
    portions: Sequence[Portion], max_bytes: int = MAX_BYTES, *, views: bool = False
) -> ColumnRead:
    """Read portions, about `max_bytes` of records, and return the columns with what is left.

    With `views` the values stay where they are, and the columns keep them alive. What is damaged ends the
    reading; it is an error only if nothing comes before it.
    """
    read = ColumnRead()
    unpacked: list[Unpacked] = []
    size = 0
    for at, portion in enumerate(portions):
        rest: Chunk | None = portion.chunk
        try:
            if size < max_bytes:
                piece, rest = unpack(portion.chunk, max_bytes - size)
                unpacked.append(piece)
                read.used.append(portion._replace(chunk=piece.chunk))
                size += piece.size_bytes
        except DamagedBatch as error:
            read.error = error if not unpacked else None
        if rest is not None:
            read.left = [portion._replace(chunk=rest), *portions[at + 1 :]]
            break
    if read.error is not None:
        return read
    try:
        read.batch = unpacked_to_arrow(unpacked, views=views)
    except CorruptDataError:
        return _read_up_to_damage(portions, unpacked, views)
    return read


def _read_up_to_damage(portions: Sequence[Portion], unpacked: Sequence[Unpacked], views: bool) -> ColumnRead:
    """As `read_columns`, where some batch of what is unpacked cannot be read."""
    unpacked = [piece.batch_by_batch() for piece in unpacked]
    for at, (chunk, sections, _) in enumerate(unpacked):
        for number, (batch, section) in enumerate(zip(chunk.batches, sections, strict=True)):
            try:
                unpacked_to_arrow([Unpacked(chunk.part(number, number + 1), [section], 0)])
            except CorruptDataError as error:
                found = damaged(chunk, batch, error)
                if at == number == 0:
                    return ColumnRead(left=list(portions), error=found)
                good = list(unpacked[:at])
                used = [
                    portion._replace(chunk=piece.chunk)
                    for portion, piece in zip(portions, good, strict=False)
                ]
                if number:
                    good.append(Unpacked(chunk.part(0, number), sections[:number], 0))
                    used.append(portions[at]._replace(chunk=chunk.part(0, number)))
                rest = portions[at]._replace(chunk=portions[at].chunk.rest(batch.base_offset))
                return ColumnRead(unpacked_to_arrow(good, views=views), used, [rest, *portions[at + 1 :]])
    raise AssertionError("batches cannot be read together and can one by one")

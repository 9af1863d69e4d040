"""The short way into a log: where its next plain batches go while nothing else happens to it.

Most appends to a busy log are alike: one more batch behind the last, in the same segment, of a producer that
is known. What such an append asks of a log, and what it changes, are a few numbers. A lane holds those,
compiled, and is ahead of its log by the batches that were appended through it. The log takes them in, all at
once, as soon as anybody looks at it, so nobody else ever sees it behind; what is not plain leaves first.

Where there was no compiler at installation there are no lanes: all batches go through `PartitionLog.append`.
"""

from typing import NamedTuple, Protocol

from everlog.ports.files import File

LaneBatch = tuple[int, int, int, int, int, int, int, int]
"""A batch that was appended through a lane: position, size, base offset, last offset delta, largest
timestamp; the producer, -1 if none, its epoch and the first sequence number."""


class LaneLimits(NamedTuple):
    """What a batch must keep to be appended as it is; all bounds are inclusive."""

    position: int
    """Where it may end in the file."""
    offset: int
    size: int
    after_max_ms: int
    """How far its timestamps may lie ahead of the clock."""
    timestamp: int
    """The largest timestamp that this segment may have."""
    wall: int
    """When this segment is too old, in milliseconds since 1970."""
    refuses_null_keys: bool


class Lane(Protocol):
    """A lane as its log knows it."""

    @property
    def open(self) -> bool:
        """Whether batches may be appended through it."""
        ...

    @property
    def pending(self) -> int:
        """How many batches the log does not know of yet."""
        ...

    @property
    def position(self) -> int:
        """Where the file ends."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        ...

    @property
    def wall(self) -> int:
        """When the newest batch came, in milliseconds since 1970."""
        ...

    def enter(
        self,
        file: File,
        lent: object | None,
        position: int,
        end_offset: int,
        leader_epoch: int,
        room: int,
        limits: LaneLimits,
        /,
    ) -> None:
        """Begin at the log's end, and take `room` batches at most, whoever drains them meanwhile."""
        ...

    def admit(self, producer_id: int, epoch: int, next_sequence: int, /) -> None:
        """Take batches of a producer that go on with this sequence number."""
        ...

    def drain(self) -> list[LaneBatch]:
        """Return the pending batches, oldest first; none is pending then."""
        ...

    def pause(self) -> None:
        """Take no batches until `enter`."""
        ...

    def leave(self) -> None:
        """Pause, and let go of the file."""
        ...

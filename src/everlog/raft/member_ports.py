"""What a member of the quorum asks of those around it: its log, the way to the others, and the world."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from everlog.model.dataclass import dataclass
from everlog.model.errors import StorageError
from everlog.model.ids import Offset
from everlog.peers.address import Address
from everlog.ports.alarm import Alarm
from everlog.ports.aside import Aside
from everlog.ports.clock import Clock
from everlog.ports.random import Random
from everlog.raft.messages import Answer, Request, SnapshotId
from everlog.raft.replica import ReplicaLog
from everlog.records.batch import BatchView


class MemberLog(ReplicaLog, Protocol):
    """The log that the quorum agrees on, as a member needs it."""

    @property
    def failed(self) -> bool:
        """Whether the disk has failed it, so that it takes nothing more before `reopen`."""
        ...

    def append_records(self, records: Sequence[bytes], epoch: int) -> None:
        """Append records as one batch, all or nothing; StorageError, and nothing changed, otherwise."""
        ...

    def sync(self, done: Callable[[Offset | StorageError], None]) -> None:
        """Make all that is appended durable, then say up to where; one at a time.

        `done` comes after this has returned.
        """
        ...

    def reopen(self) -> None:
        """Open the log anew if the disk has failed it, with what is known to be durable and nothing else.

        StorageError if it cannot be, or if something durable has gone.
        """
        ...

    def install(self, snapshot: SnapshotId, done: Callable[[bool | StorageError], None]) -> None:
        """Prove what was fetched, make it durable and give it its name, then say whether it is whole."""
        ...

    def take_snapshot(
        self, snapshot: SnapshotId, records: Iterable[bytes], done: Callable[[StorageError | None], None]
    ) -> None:
        """Write a snapshot of what is committed, and let go of what only an older one is needed for."""
        ...

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        """The size of a snapshot and bytes of it; None if it is not here."""
        ...

    def snapshot_batches(self, snapshot: SnapshotId) -> Iterator[BatchView]:
        """The batches of a snapshot that is here; CorruptDataError where one is damaged."""
        ...

    @property
    def unsaved_bytes(self) -> int:
        """About how much was appended since the newest snapshot."""
        ...

    def read(self, start: Offset, max_bytes: int) -> Sequence[bytes]:
        """The batches from the one that holds `start` on: one at least if there is any."""
        ...

    def batches(self, start: Offset, end: Offset) -> Iterator[BatchView]:
        """Every batch that begins at `start` or later and ends at `end` or earlier."""
        ...


class Transport(Protocol):
    """How a member reaches the others."""

    def ask(self, node: int, request: Request, done: Callable[[Answer | None], None]) -> None:
        """Ask a node; `done` gets its answer, or None if none will come. It is called once."""
        ...

    def address(self, node: int) -> Address | None:
        """Where a node listens for the quorum, as far as that is known."""
        ...

    def learn(self, addresses: Mapping[int, Address]) -> None:
        """Take in where nodes listen."""
        ...


class NoTransport:
    """For a quorum of one: nobody is asked anything."""

    def address(self, node: int) -> Address | None:
        """Nobody listens anywhere."""
        return None

    def learn(self, addresses: Mapping[int, Address]) -> None:
        """It makes no difference."""

    def ask(self, node: int, request: Request, done: Callable[[Answer | None], None]) -> None:
        """Refuse: there is no other node."""
        raise AssertionError(f"a quorum of one asks node {node}: {request}")


class QuorumListener(Protocol):
    """Who wants to know what becomes of the log."""

    def committed(self, high_watermark: Offset) -> None:
        """All below is committed, and never taken back; each time it has risen."""
        ...

    def activated(self, epoch: int) -> None:
        """This node leads, all that earlier leaders left is committed, and `committed` has said so."""
        ...

    def stood_down(self) -> None:
        """It leads no more; once after each `activated`. What is not committed may be yet, or never be."""
        ...


@dataclass(frozen=True, slots=True)
class MemberWorld:
    """What a member asks of the world."""

    aside: Aside
    clock: Clock
    alarm: Alarm
    random: Random

from everlog.broker.replicas import Replica
from everlog.log.lane import LaneBatch, LaneLimits
from everlog.ports.files import Buffer, File

class Lane:
    """See `everlog.log.lane.Lane`."""

    @property
    def open(self) -> bool: ...
    @property
    def pending(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def wall(self) -> int: ...
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
    ) -> None: ...
    def admit(self, producer_id: int, epoch: int, next_sequence: int, /) -> None: ...
    def drain(self) -> list[LaneBatch]: ...
    def pause(self) -> None: ...
    def leave(self) -> None: ...

def take(
    by_name: dict[str, dict[int, Replica]],
    by_id: dict[bytes, dict[int, Replica]],
    data: Buffer,
    at: int,
    end: int,
    wall: int,
    /,
) -> tuple[
    int, bytes, list[tuple[Replica, int, int, int, tuple[int, ...]]] | None, tuple[Replica, int] | None
]:
    """Take in the plain produce requests at `at`; see `everlog.broker.handlers.produce_run`."""

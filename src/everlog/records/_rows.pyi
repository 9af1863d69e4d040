from collections.abc import Callable
from typing import Any, final

from everlog.ports.files import Buffer
from everlog.records.rows_plain import BatchBuffer as BatchBuffer
from everlog.records.rows_plain import ConsumerRecord as ConsumerRecord
from everlog.records.rows_plain import RowRun as RowRun
from everlog.records.rows_plain import read_rows as read_rows
from everlog.records.rows_plain import read_run as read_run

def murmur2(data: Buffer, /) -> int:
    """Return the 32-bit hash of `data` that Kafka's clients agree on, as an unsigned number."""

def ticket_type() -> type:
    """Return a new type whose objects have a batch, an index and a timestamp, and no methods."""

def tell_delivered(
    notices: list[Any],
    metadata_type: type[tuple[Any, ...]],
    topic: str,
    partition: int,
    base_offset: int,
    append_time: int,
    failed: Callable[[Exception], object],
    /,
) -> None:
    """Tell whoever wants to hear of a ticket where its record lies; those that fail go to `failed`."""

@final
class Inlet:
    """Where the records of one partition go at present."""

    def open(self, batch: object, buffer: BatchBuffer, size_bytes: int, notices: list[Any], /) -> None:
        """Have records go into this buffer until it has `size_bytes`, its header included.

        Tickets of records with an `on_delivery` are appended to `notices`, followed by that.
        """

    def close(self) -> None:
        """Have nothing appended to the buffer any more."""

    @property
    def is_open(self) -> bool:
        """Whether records may be appended."""

@final
class ShortWay:
    """Takes records the short way where one is open."""

    def __init__(self, long_way: Callable[..., Any], ticket_type: type, hashes_keys: bool) -> None: ...
    def set_inlets(self, topic: str, inlets: tuple[Inlet, ...], /) -> None:
        """Have the records of a topic go to these, a partition each."""

    def stick(self, topic: str, inlet: Inlet, /) -> None:
        """Have the records without a key go here."""

    def unstick(self, topic: str, /) -> None:
        """Have the records without a key go the long way."""

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Any = (),
        timestamp: int | None = None,
        on_delivery: Any = None,
    ) -> Any:
        """Append a record and return its ticket, or what the long way returns."""

"""What a coordinator asks for when a transaction's end is decided: a marker in each of its partitions."""

from collections.abc import Callable

from everlog.coordinator.machine import ProducerStamp
from everlog.model.dataclass import dataclass
from everlog.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class TxnMarker:
    """The end of a transaction, as it is written to a partition."""

    producer: ProducerStamp
    commit: bool
    coordinator_epoch: int
    transaction_version: int
    """From 2 on the epoch is above that of the records that the marker ends (KIP-1228)."""


@dataclass(frozen=True, slots=True)
class MarkerOutcome:
    """What became of a marker in its partitions."""

    unwritten: frozenset[TopicPartition] = frozenset()
    """Those that could not take it now and shall be asked again; one that was deleted is not among them."""
    fenced: bool = False
    """Whether a partition has heard from a later coordinator: this one is over."""


WriteMarkers = Callable[[TxnMarker, frozenset[TopicPartition], Callable[[MarkerOutcome], None]], None]
"""Writes a marker to partitions, wherever they are led, and tells once all that took it have it committed."""


def write_no_markers(
    marker: TxnMarker, partitions: frozenset[TopicPartition], done: Callable[[MarkerOutcome], None]
) -> None:
    """Write nothing, for a shard whose world has no partitions."""
    done(MarkerOutcome(partitions))

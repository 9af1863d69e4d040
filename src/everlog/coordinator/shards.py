"""What a shard is given and what it offers: the seam between both coordinators and the broker."""

from collections.abc import Callable
from typing import Protocol

from everlog.coordinator.machine import Journal, Machine
from everlog.coordinator.txn.markers import WriteMarkers, write_no_markers
from everlog.metadata.delta import Changes
from everlog.metadata.image import ClusterImage
from everlog.model.dataclass import dataclass
from everlog.model.errors import Refused, StorageError
from everlog.model.ids import Instant, ProducerId
from everlog.model.settings import BrokerSettings
from everlog.model.topics import TopicPartition
from everlog.ports.alarm import Alarm
from everlog.ports.clock import Clock
from everlog.ports.random import Random

TakeProducerId = Callable[[Callable[[ProducerId | Refused | StorageError], None]], None]
"""Asks for a producer id that nobody has had; the callback gets it, now or later."""


@dataclass(frozen=True, slots=True)
class ShardWorld:
    """What one shard may ask of the world."""

    partition: TopicPartition
    """The partition of the internal topic that it coordinates."""
    epoch: int
    """The leader epoch in which it does: the coordinator epoch."""
    journal: Journal
    clock: Clock
    random: Random
    alarm: Alarm
    settings: Callable[[], BrokerSettings]
    """The broker's settings as they are now; some change while it runs."""
    image: Callable[[], ClusterImage]
    """The cluster as it is committed: topics with ids and partitions, brokers, configs."""
    take_producer_id: TakeProducerId
    write_markers: WriteMarkers = write_no_markers
    """For the coordinator of transactions only."""


class Shard(Protocol):
    """One partition of an internal topic, as the broker drives it; made as `XShard(world: ShardWorld)`.

    The broker replays the log into `machine`, calls `machine.loaded()` and then `activated`. From then on it
    calls the rest, until `close`.
    """

    @property
    def machine(self) -> Machine:
        """What the shard's records go through."""
        ...

    def activated(self, now: Instant) -> None:
        """All that the log has is applied: begin time-outs, and go on with what was under way."""
        ...

    def image_changed(self, changes: Changes) -> None:
        """The cluster is another one: `world.image()` has it, and `changes` says what differs."""
        ...

    def tick(self, now: Instant) -> None:
        """Do what is due. A call before `deadline` is harmless."""
        ...

    def deadline(self) -> Instant | None:
        """When `tick` wants to be called next; the broker asks after each tick and each activation.

        A deadline that comes nearer in between is told to `world.alarm`.
        """
        ...

    def close(self) -> None:
        """Coordinate no more: close the machine and answer all who wait with NOT_COORDINATOR."""
        ...

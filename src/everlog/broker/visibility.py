"""The cluster as a client on one listener may see it: brokers that it can reach, and leaders among them."""

from collections.abc import Callable
from typing import NamedTuple

from everlog.metadata.image import (
    NO_LEADER,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    stands_for_none,
)
from everlog.model.errors import ErrorCode


class VisibleBroker(NamedTuple):
    """A broker, and where the client reaches it."""

    broker: BrokerImage
    host: str
    port: int


class Visibility:
    """What one listener's clients see of an image."""

    def __init__(self, image: ClusterImage, endpoint_of: Callable[[BrokerImage], tuple[str, int]]) -> None:
        alive = [
            image.brokers[number] for number in sorted(image.brokers) if not image.brokers[number].fenced
        ]
        self.brokers = [
            VisibleBroker(broker, host, port)
            for broker in alive
            for host, port in [endpoint_of(broker)]
            if port >= 0
        ]
        """Brokers that are alive and have this listener, in the order of their numbers."""
        self._alive = {int(broker.id): broker.directories for broker in alive}
        self._reachable = frozenset(visible.broker.id for visible in self.brokers)

    def any_broker(self, preferred: int) -> int:
        """A broker that takes what is the controller's, as any does, the preferred one if the client sees it.

        -1 if it sees none.
        """
        if preferred in self._reachable:
            return preferred
        return self.brokers[0].broker.id if self.brokers else NO_LEADER

    def leader(self, partition: PartitionImage) -> tuple[ErrorCode, int]:
        """The partition's leader if the client can reach it, else -1 and why."""
        leader = partition.leader
        if leader in self._reachable:
            return ErrorCode.NONE, leader
        if leader in self._alive:
            return ErrorCode.LISTENER_NOT_FOUND, NO_LEADER
        return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER

    def offline(self, partition: PartitionImage) -> list[int]:
        """The partition's replicas on brokers that are not there, or in directories that failed them."""
        directories = partition.directories
        if len(directories) != len(partition.replicas):
            return [replica for replica in partition.replicas if replica not in self._alive]
        return [
            replica
            for replica, directory in zip(partition.replicas, directories, strict=True)
            if replica not in self._alive
            or not (directory in self._alive[replica] or stands_for_none(directory))
        ]

"""What the handlers of commands need of a desk."""

from typing import Protocol

from everlog.broker.exchange import Exchange
from everlog.controller.fencing import Decider
from everlog.controller.heartbeats import Heartbeats
from everlog.controller.leader_recovery import Ends
from everlog.metadata.image import ClusterImage
from everlog.model.ids import BrokerId
from everlog.ports.clock import Clock


class Seat(Protocol):
    """The part of a desk that commands go over."""

    @property
    def controller(self) -> Decider:
        """This node's controller; it refuses with NOT_CONTROLLER while another leads."""
        ...

    @property
    def heartbeats(self) -> Heartbeats:
        """Who is alive; meaningful while this node leads."""
        ...

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is committed."""
        ...

    @property
    def recovered_ends(self) -> Ends:
        """How far logs reach of partitions whose eligible replicas all stopped uncleanly, as far as known."""
        ...

    @property
    def clock(self) -> Clock:
        """The node's clock."""
        ...

    @property
    def cluster_id(self) -> str:
        """The cluster that this node belongs to."""
        ...

    def heard(self, broker: BrokerId, epoch: int, exchange: Exchange) -> None:
        """Take note of the connection that a broker beats on: when it closes, its process may be gone."""
        ...

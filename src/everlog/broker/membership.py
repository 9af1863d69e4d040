"""What a broker has from being a member of a cluster, and what it asks of the world."""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from everlog.metadata.image import ClusterImage
from everlog.model.dataclass import dataclass
from everlog.model.ids import Uuid
from everlog.peers.peers import Peers
from everlog.ports.alarm import Alarm
from everlog.ports.aside import Aside
from everlog.ports.clock import Clock
from everlog.ports.files import Files
from everlog.ports.links import Links
from everlog.ports.random import Random

if TYPE_CHECKING:
    from everlog.broker.controller_channel import ControllerChannel
    from everlog.broker.desk.desk import Desk


@dataclass(frozen=True, slots=True)
class NodeWorld:
    """Files, time, chance, work beside the loop, and other nodes."""

    files: Files
    clock: Clock
    random: Random
    aside: Aside
    alarm: Alarm
    links: Links


@dataclass(frozen=True, slots=True)
class Membership:
    """One life of a broker in its cluster."""

    cluster_id: str
    epoch: int
    """The broker epoch of this life."""
    image: ClusterImage
    """The cluster when it came to serve, its own registration in it."""
    channel: "ControllerChannel"
    """The way to the active controller."""
    desk: "Desk | None"
    """The controller of the same node, if it has one."""
    peers: Peers
    directory_ids: Mapping[str, Uuid] = field(default_factory=dict[str, Uuid])
    """The id of each log directory that could be read at the start, by its path."""
    unusable: tuple[str, ...] = ()
    """The paths of log directories that failed before the start."""

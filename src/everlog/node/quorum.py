"""The node as a member of the quorum: its metadata log, its vote, and the way to the others."""

import logging
from typing import TYPE_CHECKING

from everlog.broker.membership import NodeWorld
from everlog.controller.metadata_log import (
    METADATA_LOG_SETTINGS,
    METADATA_PARTITION,
    MetadataLog,
    open_member,
    quorum_timing,
)
from everlog.log.directory import LogDirectory
from everlog.model.ids import METADATA_TOPIC_ID, Uuid
from everlog.model.settings import BrokerSettings
from everlog.peers.address import Address
from everlog.peers.peers import Peers
from everlog.raft.leading import NEVER
from everlog.raft.member import MemberWorld, QuorumMember
from everlog.raft.snapshots import SnapshotFiles
from everlog.raft.store import QuorumStore

if TYPE_CHECKING:
    from everlog.raft.transport import PeerTransport

_log = logging.getLogger(__name__)


def join_quorum(
    settings: BrokerSettings,
    cluster_id: str,
    home: LogDirectory,
    directory: Uuid,
    peers: Peers,
    world: NodeWorld,
) -> QuorumMember:
    """This node's membership, from what lies in `home`, whose id is `directory`; it is not started.

    A combined node that is told of no other voters is a quorum of one.
    """
    log = home.get(METADATA_PARTITION, METADATA_LOG_SETTINGS) or home.create(
        METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_SETTINGS
    )
    transport = _transport(settings, cluster_id, peers)
    snapshots = SnapshotFiles(world.files, log.path)
    metadata = MetadataLog(log, lambda: home.reopen(METADATA_PARTITION), world.aside, world.clock, snapshots)
    if not settings.is_broker:
        metadata.on_start_moved = lambda: _let_segments_go(home, world)
    member = open_member(
        settings,
        directory,
        metadata,
        QuorumStore(world.files, log.path),
        MemberWorld(world.aside, world.clock, world.alarm, world.random),
        transport,
    )
    if transport is not None:
        transport.on_gone = member.gone
    return member


def _transport(settings: BrokerSettings, cluster_id: str, peers: Peers) -> "PeerTransport | None":
    """The way to the other members; None for a quorum of one that nobody can join."""
    if settings.is_controller and not settings.controller_listeners:
        return None
    # A node alone is to serve a fraction of a second after its start, and does without.
    from everlog.raft.transport import PeerTransport
    from everlog.raft.wire.asking import Sender

    addresses = {one.id: Address(one.host, one.port) for one in settings.voters}
    listener = next(iter(settings.controller_listeners), None)
    sender = Sender(
        cluster_id, "" if listener is None else listener.name, addresses.get(int(settings.node_id))
    )
    return PeerTransport(peers, sender, quorum_timing(settings), addresses)


def _let_segments_go(home: LogDirectory, world: NodeWorld) -> None:
    """Remove what a snapshot stands for now, where no broker does the housekeeping."""
    plan = home.checkpoint_plan()

    def written(result: OSError | None) -> None:
        if isinstance(result, OSError):
            _log.error("the checkpoints of %s cannot be written: %s", home.path, result)
            return
        try:
            home.checkpointed(plan)
        except OSError as error:
            _log.error("expired segments in %s cannot be renamed: %s", home.path, error)
        deletions = home.due_deletions(NEVER)
        if deletions is not None:
            world.aside.run(deletions.run, removed)

    def removed(result: OSError | None) -> None:
        if isinstance(result, OSError):
            _log.error("expired segments in %s stay until the next start: %s", home.path, result)

    world.aside.run(plan.run, written)

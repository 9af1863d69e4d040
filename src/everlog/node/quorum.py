"""The node as a member of the quorum: its metadata log, its vote, and the way to the others."""

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
from everlog.raft.member import MemberWorld, QuorumMember
from everlog.raft.store import QuorumStore
from everlog.raft.transport import PeerTransport
from everlog.raft.wire.asking import Sender


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
    addresses = {one.id: Address(one.host, one.port) for one in settings.voters}
    listener = next(iter(settings.controller_listeners), None)
    sender = Sender(
        cluster_id, "" if listener is None else listener.name, addresses.get(int(settings.node_id))
    )
    transport = PeerTransport(peers, sender, quorum_timing(settings), addresses)
    member = open_member(
        settings,
        directory,
        MetadataLog(log, lambda: home.reopen(METADATA_PARTITION), world.aside, world.clock),
        QuorumStore(world.files, log.path),
        MemberWorld(world.aside, world.clock, world.alarm, world.random),
        transport,
    )
    transport.on_gone = member.gone
    return member

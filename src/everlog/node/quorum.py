"""The node as a member of the quorum: its metadata log, its vote, and where the others are."""

from everlog.broker.membership import NodeWorld
from everlog.controller.metadata_log import METADATA_LOG_SETTINGS, METADATA_PARTITION, MetadataLog
from everlog.log.directory import LogDirectory
from everlog.model.ids import METADATA_TOPIC_ID, NO_UUID, Uuid
from everlog.model.settings import BrokerSettings
from everlog.model.settings import broker_table as keys
from everlog.peers.address import Address
from everlog.peers.peers import Peers
from everlog.raft.member import MemberWorld, QuorumMember
from everlog.raft.messages import ReplicaKey
from everlog.raft.replica import Timing
from everlog.raft.store import QuorumStore
from everlog.raft.transport import PeerTransport
from everlog.raft.voters import VoterSet

__all__ = ["METADATA_LOG_SETTINGS", "METADATA_PARTITION", "open_member"]


def open_member(
    settings: BrokerSettings,
    cluster_id: str,
    home: LogDirectory,
    directory: Uuid,
    peers: Peers,
    world: NodeWorld,
) -> QuorumMember:
    """This node's membership, from what lies in `home`, whose id is `directory`; it is not started.

    A combined node without voters is a quorum of one.
    """
    log = home.get(METADATA_PARTITION, METADATA_LOG_SETTINGS) or home.create(
        METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_SETTINGS
    )
    me = ReplicaKey(settings.node_id, directory)
    voters = VoterSet([ReplicaKey(one.id, NO_UUID) for one in settings.voters] or [me])
    addresses = {one.id: Address(one.host, one.port) for one in settings.voters}
    timing = Timing(
        election_ms=settings[keys.CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS],
        backoff_ms=settings[keys.CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS],
        fetch_ms=settings[keys.CONTROLLER_QUORUM_FETCH_TIMEOUT_MS],
        retry_ms=settings[keys.CONTROLLER_QUORUM_RETRY_BACKOFF_MS],
    )
    member = QuorumMember(
        me,
        voters,
        MetadataLog(log, lambda: home.reopen(METADATA_PARTITION), world.aside, world.clock),
        QuorumStore(world.files, log.path),
        MemberWorld(world.aside, world.clock, world.alarm, world.random),
        PeerTransport(cluster_id, addresses, peers),
        timing,
    )
    return member

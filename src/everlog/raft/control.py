"""The entries that the quorum writes about itself: who leads, and who votes."""

from collections.abc import Iterable

from everlog.model.errors import CorruptDataError, ProtocolError
from everlog.peers.address import Address
from everlog.raft.messages import Endpoint, ReplicaKey
from everlog.raft.voters import VoterSet
from everlog.records.batch import BatchView
from everlog.records.control import ControlType, build_control_batch, control_type
from everlog.records.reader import Record, read_records
from everlog.wire.codec import decode_value, encode_value
from everlog.wire.messages import voters_record
from everlog.wire.messages.kraft_version_record import KRaftVersionRecord
from everlog.wire.messages.leader_change_message import LeaderChangeMessage, Voter
from everlog.wire.messages.voters_record import VotersRecord

KRAFT_VERSION = 1
"""The level of `kraft.version` from which on voters are entries in the log (KIP-853)."""


def leader_change_batch(
    leader: int, voters: Iterable[int], granting: Iterable[int], timestamp: int
) -> bytearray:
    """The entry with which a leader begins its epoch (KIP-595)."""
    change = LeaderChangeMessage(
        version=0,
        leader_id=leader,
        voters=[Voter(voter_id=voter) for voter in voters],
        granting_voters=[Voter(voter_id=voter) for voter in granting],
    )
    return build_control_batch(ControlType.LEADER_CHANGE, encode_value(change, 0), timestamp=timestamp)


def kraft_version_value() -> bytes:
    """What says that voters are in the log."""
    return encode_value(KRaftVersionRecord(version=0, kraft_version=KRAFT_VERSION), 0)


def voters_value(voters: VoterSet) -> bytes:
    """A set of voters, as the log has it."""
    record = VotersRecord(
        version=0,
        voters=[
            voters_record.Voter(
                voter_id=voter.id,
                voter_directory_id=voter.directory,
                endpoints=[
                    voters_record.Endpoint(name=one.name, host=one.address.host, port=one.address.port)
                    for one in voters.endpoints(voter.id)
                ],
                kraft_version_feature=voters_record.KRaftVersionFeature(
                    min_supported_version=0, max_supported_version=KRAFT_VERSION
                ),
            )
            for voter in voters
        ],
    )
    return encode_value(record, 0)


def control_record(batch: BatchView) -> Record:
    """The record of a control batch, which has one; CorruptDataError if it has none."""
    records = read_records(batch)
    if not records:
        raise CorruptDataError(f"the control batch at offset {batch.base_offset} has no record, expected one")
    return records[0]


def voters_in(batch: BatchView) -> VoterSet | None:
    """The set of voters that a batch has, if it has one; CorruptDataError where it cannot be read."""
    if not batch.is_control:
        return None
    record = control_record(batch)
    if control_type(record.key) is not ControlType.KRAFT_VOTERS:
        return None
    try:
        found = decode_value(VotersRecord, 0, record.value or b"")
    except ProtocolError as error:
        raise CorruptDataError(f"the voters at offset {batch.base_offset} cannot be read: {error}") from error
    return VoterSet(
        [ReplicaKey(one.voter_id, one.voter_directory_id) for one in found.voters],
        endpoints={
            one.voter_id: tuple(Endpoint(at.name, Address(at.host, at.port)) for at in one.endpoints)
            for one in found.voters
        },
    )

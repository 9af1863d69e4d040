"""The entries that the quorum writes about itself: who leads."""

from collections.abc import Iterable

from everlog.records.control import ControlType, build_control_batch
from everlog.wire.codec import encode_value
from everlog.wire.messages.leader_change_message import LeaderChangeMessage, Voter


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

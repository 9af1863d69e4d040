"""Whether a client speaks of the leader that we are (KIP-320)."""

from everlog.broker.replicas import Replica
from everlog.model.errors import ErrorCode, Refused


def check_leader_epoch(replica: Replica, epoch: int) -> None:
    """Refuse a client whose metadata is older than ours, or newer; -1 means that it does not know."""
    if epoch < 0 or epoch == replica.leader_epoch:
        return
    if epoch < replica.leader_epoch:
        raise Refused(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{replica.name} is led in epoch {replica.leader_epoch}, the request knows of {epoch}",
        )
    raise Refused(
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        f"{replica.name} is led in epoch {replica.leader_epoch} as we know it, the request knows of {epoch}",
    )

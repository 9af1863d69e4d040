"""Whether this broker leads what a client speaks of, in the epoch that the client knows (KIP-320)."""

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


def check_leads(replica: Replica, epoch: int = -1) -> None:
    """Refuse what only the leader may answer, and whoever speaks of another of its epochs."""
    check_leader_epoch(replica, epoch)
    if not replica.leads:
        raise not_leader(replica)


def not_leader(replica: Replica) -> Refused:
    """The refusal of whoever asked the wrong broker."""
    return Refused(
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"{replica.name} is led by broker {replica.leader} in epoch {replica.leader_epoch}",
    )

"""Requests that add controllers to the quorum and take them out of it, one at a time (KIP-853)."""

from collections.abc import Iterable

from everlog.client.core.admin.cluster import QuorumEndpoint
from everlog.client.core.errors import refusal
from everlog.model.errors import ErrorCode
from everlog.model.ids import Uuid, uuid_text
from everlog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from everlog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


def add_voter_request(
    node_id: int,
    directory_id: Uuid,
    endpoints: Iterable[QuorumEndpoint],
    cluster_id: str | None,
    timeout_ms: int,
) -> AddRaftVoterRequest:
    """Ask for a controller that follows the quorum to vote in it; the answer comes when that is committed."""
    listeners = [Listener(name=each.listener, host=each.host, port=each.port) for each in endpoints]
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=listeners,
    )


def remove_voter_request(node_id: int, directory_id: Uuid, cluster_id: str | None) -> RemoveRaftVoterRequest:
    """Ask for a controller to vote no more."""
    return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=node_id, voter_directory_id=directory_id)


def read_voter_changed(
    response: AddRaftVoterResponse | RemoveRaftVoterResponse, node_id: int, directory_id: Uuid
) -> None:
    """Refused unless the quorum has changed as asked."""
    if response.error_code != ErrorCode.NONE:
        what = f"voter {node_id} with directory {uuid_text(directory_id)}"
        raise refusal(response.error_code, response.error_message, what)

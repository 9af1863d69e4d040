"""Which broker looks after a group or a transactional id, and which of its answers ask for patience (C2)."""

from enum import IntEnum

from everlog.client.core.errors import refusal
from everlog.client.core.metadata import Broker
from everlog.model.errors import ErrorCode
from everlog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse


class CoordinatorKind(IntEnum):
    """What a coordinator is asked about, as FindCoordinator numbers it."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def noun(self) -> str:
        """What errors call it."""
        return "group" if self is CoordinatorKind.GROUP else "transactional id"


PASSING = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Codes that say nothing about the request: asked again a little later, perhaps of another broker, it may
well be answered. UNKNOWN_TOPIC_OR_PARTITION is not among them: to whoever names a topic that is an answer."""


def find_coordinator_request(kind: CoordinatorKind, key: str) -> FindCoordinatorRequest:
    """Ask who looks after a group or a transactional id."""
    return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])


def read_coordinator(response: FindCoordinatorResponse, kind: CoordinatorKind, key: str) -> Broker:
    """The broker to ask; Refused if there is none now, or the key may not be one."""
    for entry in response.coordinators:
        if entry.key == key:
            if entry.error_code != ErrorCode.NONE:
                raise refusal(entry.error_code, entry.error_message, f"{kind.noun} {key!r}")
            return Broker(entry.node_id, entry.host, entry.port)
    raise refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer does not name it", f"{kind.noun} {key!r}")

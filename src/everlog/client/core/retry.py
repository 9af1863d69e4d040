"""Whether to try again, and how long to wait before."""

from dataclasses import dataclass
from enum import Enum

from everlog.model.errors import ErrorCode


class Verdict(Enum):
    """What an error code in an answer asks of a client."""

    DONE = "done"
    RETRY = "retry"
    """The same request may succeed later at the same broker."""
    REFRESH = "refresh"
    """The picture of the cluster is stale; fetch metadata, then try again."""
    FAIL = "fail"


_STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        # A leader that its followers do not acknowledge may be cut off from them, and lead no more without
        # knowing it.
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)


def verdict(code: ErrorCode) -> Verdict:
    """Say what to do about a code."""
    if code is ErrorCode.NONE:
        return Verdict.DONE
    if not code.retriable:
        return Verdict.FAIL
    return Verdict.REFRESH if code in _STALE_METADATA else Verdict.RETRY


@dataclass(slots=True)
class Backoff:
    """Waits that double from `first_ms` to `most_ms`; `reset` after a success.

    Chance comes in with each call: waits of several clients that failed together must spread out, so each
    is between half and all of its nominal length (KIP-580 in spirit).
    """

    first_ms: int = 50
    most_ms: int = 1000
    attempts: int = 0

    def next_wait_ms(self, chance: float) -> int:
        """The next wait; `chance` lies between 0 and 1."""
        nominal = min(self.most_ms, self.first_ms << min(self.attempts, 20))
        self.attempts += 1
        return int(nominal * (0.5 + chance / 2))

    def reset(self) -> None:
        """Begin again with the first wait."""
        self.attempts = 0

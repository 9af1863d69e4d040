"""Asking coordinators: finds the right broker, and has patience with one that is loading or has moved."""

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from everlog.client.core.coordinators import (
    PASSING,
    CoordinatorKind,
    find_coordinator_request,
    read_coordinator,
)
from everlog.client.core.errors import TimedOut, error_code, refusal
from everlog.client.core.metadata import Broker
from everlog.client.core.retry import Backoff
from everlog.client.sync.cluster import Cluster
from everlog.client.sync.connection import Connection
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.wire.message import Message
from everlog.wire.messages.find_coordinator import FindCoordinatorResponse

Answer = TypeVar("Answer", bound=Message)
Result = TypeVar("Result")


class Coordinators:
    """The coordinators of a cluster, each looked up once and again whenever it turns out to have moved."""

    def __init__(self, cluster: Cluster, *, own_connections: bool = False) -> None:
        """`own_connections` keeps these calls apart from others to the same brokers.

        A broker answers in order: a JoinGroup that waits would hold up a fetch behind it.
        """
        self._cluster = cluster
        self._found: dict[tuple[CoordinatorKind, str], Broker] = {}
        self._own: dict[int, Connection] | None = {} if own_connections else None

    def find(self, kind: CoordinatorKind, key: str) -> Broker:
        """The broker that looks after a group or a transactional id; waits for one up to the time-out."""
        known = self._found.get((kind, key))
        if known is not None:
            return known
        return patiently(self._cluster, lambda: self._look_up(kind, key))

    def ask(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Message,
        answer_type: type[Answer],
        codes: Callable[[Answer], Iterable[int]],
        *,
        at_most: int | None = None,
    ) -> Answer:
        """Call a coordinator until none of the `codes` of its answer is a passing one; TimedOut otherwise."""

        def once() -> Answer:
            connection = self.connection(kind, key)
            answer = connection.call(request, answer_type, self._cluster.timeout, at_most=at_most)
            for number in codes(answer):
                if error_code(number) in PASSING:
                    raise refusal(number, None, f"{kind.noun} {key!r}")
            return answer

        return patiently(self._cluster, once, lambda: self.forget(kind, key))

    def connection(self, kind: CoordinatorKind, key: str) -> Connection:
        """An open connection to a coordinator, with no answer under way if it is our own."""
        broker = self._found.get((kind, key)) or self._look_up(kind, key)
        if self._own is None:
            return self._cluster.broker(broker.node_id)
        connection = self._own.get(broker.node_id)
        if connection is not None and connection.in_flight:
            connection.close()  # Somebody lost patience; the answer would be taken for that to the next call.
        if connection is None or not connection.is_open:
            connection = self._own[broker.node_id] = self._cluster.connect(broker.node_id)
        return connection

    def close(self) -> None:
        """Close our own connections, if there are any."""
        for connection in (self._own or {}).values():
            connection.close()

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        """Look a coordinator up again before the next call."""
        self._found.pop((kind, key), None)

    def _look_up(self, kind: CoordinatorKind, key: str) -> Broker:
        answer = self._cluster.call(find_coordinator_request(kind, key), FindCoordinatorResponse)
        broker = read_coordinator(answer, kind, key)
        if broker.node_id not in self._cluster.view.brokers:
            self._cluster.refresh([])
        self._found[kind, key] = broker
        return broker


def patiently(
    cluster: Cluster, once: Callable[[], Result], failed: Callable[[], object] | None = None
) -> Result:
    """Try until it works, with waits between, while what goes wrong may pass; TimedOut in the end.

    `failed` is called after each failure that is not the last.
    """
    deadline = time.monotonic() + cluster.timeout
    backoff = Backoff()
    # Patience is for a coordinator that moves; where no broker answers at all, that is told at once.
    cluster.any_broker()
    while True:
        try:
            return once()
        except EverlogError as error:
            if not _may_pass(error):
                raise
            if not cluster.pause(backoff, deadline):
                raise TimedOut(f"gave up after {cluster.timeout:g} s: {error}") from None
            if failed is not None:
                failed()


def _may_pass(error: EverlogError) -> bool:
    """Whether a failed call is worth another: not if the broker said no, and not if we ran out of time."""
    if isinstance(error, Refused):
        return error.code in PASSING or error.code is ErrorCode.BROKER_NOT_AVAILABLE
    return error.retriable and not isinstance(error, TimedOut)

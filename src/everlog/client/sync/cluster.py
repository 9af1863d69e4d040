"""A cluster as one thing to call: finds its brokers, keeps a connection to each, and knows the leaders."""

import random
import time
from collections.abc import Collection, Iterable
from types import TracebackType
from typing import Self, TypeVar

from everlog.client.core.addresses import parse_bootstrap
from everlog.client.core.errors import TimedOut, Unreachable
from everlog.client.core.metadata import ClusterView, Topic, metadata_request, topic_problem
from everlog.client.core.retry import Backoff
from everlog.client.sync.connection import Connection
from everlog.model.errors import ErrorCode, EverlogError, Refused
from everlog.wire.message import Message
from everlog.wire.messages.metadata import MetadataResponse

Answer = TypeVar("Answer", bound=Message)

DEFAULT_TIMEOUT = 10.0


class Cluster:
    """Connections to the brokers of one cluster and what is known of it.

    `timeout` in seconds is the limit of every call that does not say otherwise. Not for use by several
    threads at a time.

    >>> with Cluster("127.0.0.1:9092") as cluster:
    ...     cluster.topic("orders").partitions
    """

    def __init__(
        self, bootstrap: str, *, client_id: str = "everlog", timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        self.timeout = timeout
        self.view = ClusterView()
        """What the cluster looked like when it was last asked."""
        self._client_id = client_id
        self._addresses = parse_bootstrap(bootstrap)
        self._connections: dict[int, Connection] = {}
        self._first: Connection | None = None

    def any_broker(self, timeout: float | None = None) -> Connection:
        """An open connection to whichever broker answers, the bootstrap addresses tried in turn."""
        if self._first is not None and self._first.is_open and not self._first.in_flight:
            return self._first
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        failures: list[str] = []
        known = [(broker.host, broker.port) for broker in self.view.brokers.values()]
        addresses = [*self._addresses, *(address for address in known if address not in self._addresses)]
        for host, port in addresses:
            try:
                left = max(0.001, deadline - time.monotonic())
                self._first = Connection(host, port, client_id=self._client_id, timeout=left)
            except EverlogError as error:
                failures.append(str(error))
            else:
                return self._first
        raise Unreachable("; ".join(failures))

    def broker(self, node_id: int) -> Connection:
        """An open connection to one broker, for requests that only it can answer, such as a leader's."""
        connection = self._connections.get(node_id)
        if connection is not None and connection.is_open:
            return connection
        made = self._connections[node_id] = self.connect(node_id)
        return made

    def connect(self, node_id: int) -> Connection:
        """A new connection to one broker, which is the caller's to close."""
        known = self.view.brokers.get(node_id)
        if known is None:
            raise Unreachable(
                f"broker {node_id} is not in the cluster: known are {sorted(self.view.brokers)}"
            )
        return Connection(known.host, known.port, client_id=self._client_id, timeout=self.timeout)

    def call(self, request: Message, answer_type: type[Answer], timeout: float | None = None) -> Answer:
        """Ask any broker, which passes on to the controller what is the controller's."""
        limit = self.timeout if timeout is None else timeout
        return self.any_broker(limit).call(request, answer_type, limit)

    def refresh(self, topics: Iterable[str] | None, *, auto_create: bool = False) -> ClusterView:
        """Ask for some topics, or with None for all, and return the new view."""
        answer = self.call(metadata_request(topics, auto_create=auto_create), MetadataResponse)
        self.view = self.view.with_answer(answer)
        return self.view

    def topic(self, name: str, *, auto_create: bool = False) -> Topic:
        """Describe a topic that can be used: all of its partitions are known and led.

        One that is being created is waited for, up to the time-out. Refused if there is no such topic.
        """
        return self.topics([name], auto_create=auto_create)[0]

    def topics(self, names: Collection[str], *, auto_create: bool = False) -> list[Topic]:
        """Describe several topics as `topic` does one."""
        deadline = time.monotonic() + self.timeout
        backoff = Backoff()
        while True:
            problem: Refused | None = None
            view = self.refresh(names, auto_create=auto_create)
            for name in names:
                problem = problem or topic_problem(view, name)
            if problem is None:
                return [view.topics[name] for name in names]
            waits = auto_create or problem.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not problem.retriable or not waits:
                raise problem
            if not self.pause(backoff, deadline):
                raise TimedOut(f"gave up after {self.timeout:g} s: {problem}")

    def pause(self, backoff: Backoff, deadline: float) -> bool:
        """Wait before another try; False, at once, if the deadline would pass meanwhile."""
        wait = backoff.next_wait_ms(random.random()) / 1000
        if time.monotonic() + wait >= deadline:
            return False
        time.sleep(wait)
        return True

    def close(self) -> None:
        """Close all connections."""
        for connection in [*self._connections.values(), self._first]:
            if connection is not None:
                connection.close()
        self._connections.clear()
        self._first = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""The loop of a driver: a job a line in, an answer a line out."""

import json
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

Operation = Callable[..., Any]
Found = tuple[str, int, int, str]
"""Topic, partition, offset, and value or metadata."""


class ServedMember(Protocol):
    """A consumer in a group."""

    sightings: "Sightings"

    def commit(self, offsets: list[list[Any]] | None, asynchronous: bool) -> None: ...
    def committed(self, topic: str, partitions: list[int]) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class ServedTransactor(Protocol):
    """A transactional producer, and the consumer of its source."""

    def poll(self, count: int) -> list[Found]: ...
    def begin(self) -> None: ...
    def send(self, topic: str, values: list[list[Any]]) -> None: ...
    def end(self, commit: bool) -> None: ...
    def close(self) -> None: ...


class ServedStream(Protocol):
    """A producer that writes by itself."""

    tally: "Tally"

    def close(self) -> None: ...


class ServedClient(Protocol):
    """One client library. Its other public methods are administrative jobs."""

    def connect(self, bootstrap: str) -> None: ...
    def member(self, terms: dict[str, Any]) -> ServedMember: ...
    def transactor(self, terms: dict[str, Any]) -> ServedTransactor: ...
    def stream(self, terms: dict[str, Any]) -> ServedStream: ...
    def code_of(self, error: Exception) -> int: ...


def serve_client(client: ServedClient) -> None:
    """Serve the sessions of a client, and its other public methods by their names, until stdin ends."""
    serve({**_public(client), **_public(_SessionJobs(client))}, client.code_of)


def _public(holder: object) -> dict[str, Operation]:
    return {name: getattr(holder, name) for name in dir(holder) if not name.startswith("_")}


class _SessionJobs:
    """The jobs about sessions, which are named by an id."""

    def __init__(self, client: ServedClient) -> None:
        self._client = client
        self._members: dict[str, ServedMember] = {}
        self._transactors: dict[str, ServedTransactor] = {}
        self._streams: dict[str, ServedStream] = {}

    def member_open(self, id: str, **terms: Any) -> None:
        self._members[id] = self._client.member(terms)

    def member_seen(self, id: str) -> dict[str, Any]:
        return self._members[id].sightings.drain()

    def member_commit(self, id: str, offsets: list[list[Any]] | None, asynchronous: bool) -> None:
        self._members[id].commit(offsets, asynchronous)

    def member_committed(self, id: str, topic: str, numbers: list[int]) -> list[tuple[int, int]]:
        return self._members[id].committed(topic, numbers)

    def member_close(self, id: str) -> None:
        self._members.pop(id).close()

    def txn_open(self, id: str, **terms: Any) -> None:
        self._transactors[id] = self._client.transactor(terms)

    def txn_poll(self, id: str, count: int) -> list[Found]:
        return self._transactors[id].poll(count)

    def txn_begin(self, id: str) -> None:
        self._transactors[id].begin()

    def txn_send(self, id: str, topic: str, values: list[list[Any]]) -> None:
        self._transactors[id].send(topic, values)

    def txn_end(self, id: str, commit: bool) -> None:
        self._transactors[id].end(commit)

    def txn_close(self, id: str) -> None:
        self._transactors.pop(id).close()

    def stream_open(self, id: str, **terms: Any) -> None:
        self._streams[id] = self._client.stream(terms)

    def stream_seen(self, id: str) -> dict[str, Any]:
        return self._streams[id].tally.drain()

    def stream_close(self, id: str) -> None:
        self._streams[id].close()


def serve(operations: Mapping[str, Operation], code_of: Callable[[Exception], int]) -> None:
    """Do jobs until stdin ends. What fails is answered with its protocol error code, and told on stderr."""
    for line in sys.stdin:
        job: dict[str, Any] = json.loads(line)
        op = job.pop("op")
        try:
            answer = {"ok": operations[op](**job)}
        except Exception as error:  # noqa: BLE001 - whatever a library raises is the answer.
            traceback.print_exc()
            answer = {"error": code_of(error), "message": f"{op}: {error!r}"}
        print(json.dumps(answer), flush=True)


class PollThread:
    """A consumer that may be used by one thread only: polls in a loop, and does other calls in between."""

    def __init__(self, poll: Callable[[], None], close: Callable[[], None]) -> None:
        self._poll = poll
        self._close = close
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], Any], timeout_s: float = 30.0) -> Any:
        """Have the thread do this between two polls, and return its result."""
        future: Future[Any] = Future()
        self._calls.put((work, future))
        return future.result(timeout_s)

    def close(self) -> None:
        """End the loop, then close the consumer in its thread."""
        self._ended.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._poll()
            while not self._calls.empty():
                work, future = self._calls.get()
                try:
                    future.set_result(work())
                except Exception as error:  # noqa: BLE001 - it belongs to the caller.
                    future.set_exception(error)
        self._close()


class Sightings:
    """What a member has seen and not yet been asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._assignment: set[tuple[str, int]] = set()
        self._events: list[str] = []
        self._records: list[tuple[str, int, int, str]] = []
        self._error: tuple[int, str] | None = None

    def assigned(self, partitions: set[tuple[str, int]]) -> None:
        """Partitions were added."""
        with self._lock:
            self._events.append("assigned")
            self._assignment |= partitions

    def revoked(self, partitions: set[tuple[str, int]], event: str = "revoked") -> None:
        """Partitions were taken away."""
        with self._lock:
            self._events.append(event)
            self._assignment -= partitions

    def record(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        """A record came."""
        with self._lock:
            self._records.append((topic, partition, offset, (value or b"").decode()))

    def failed(self, code: int, message: str) -> None:
        """The library gave up."""
        with self._lock:
            self._error = (code, message)

    def drain(self) -> dict[str, Any]:
        """All of it, as JSON; events and records are forgotten."""
        with self._lock:
            seen = {
                "assignment": sorted(self._assignment),
                "events": self._events,
                "records": self._records,
                "error": self._error,
            }
            self._events, self._records = [], []
            return seen


class Tally:
    """What became of the records of a stream, as far as nobody has asked for it yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent = 0
        self._acked: list[tuple[int, str, int, int, int]] = []
        self._failed: list[tuple[int, str, int, str]] = []
        self._errors: list[str] = []

    def sending(self) -> int:
        """One more record is handed to the library; the time of that, in microseconds of the wall clock."""
        with self._lock:
            self._sent += 1
        return _now_us()

    def acked(self, partition: int, value: str, offset: int, sent_us: int) -> None:
        """The library says that a record was written."""
        with self._lock:
            self._acked.append((partition, value, offset, sent_us, _now_us()))

    def failed(self, partition: int, value: str, sent_us: int, message: str) -> None:
        """The library gave a record up."""
        with self._lock:
            self._failed.append((partition, value, sent_us, message))

    def error(self, message: str) -> None:
        """The library told the application of something that is not about one record."""
        with self._lock:
            self._errors.append(message)

    def drain(self) -> dict[str, Any]:
        """All of it, as JSON; it is forgotten but for the number of records."""
        with self._lock:
            seen = {"sent": self._sent, "acked": self._acked, "failed": self._failed, "errors": self._errors}
            self._acked, self._failed, self._errors = [], [], []
            return seen


def _now_us() -> int:
    return time.time_ns() // 1000

"""A group of consumers that grows and shrinks, and the reader that looks at everything in the end."""

import threading
import time
from collections.abc import Sequence
from typing import Any, Literal

from everlog.chaos.notes import Handed, Notes
from everlog.client.core.group.types import RebalanceListener
from everlog.client.sync.consumer import Consumer
from everlog.model.errors import EverlogError
from everlog.model.topics import TopicPartition
from everlog.records.rows import ConsumerRecord
from everlog.sim.history import Kind, Operation, Outcome, Polled

_POLL_S = 0.2
_CLOSE_S = 10.0
_PATIENCE: dict[str, Any] = {
    "request_timeout_ms": 5_000,
    "retry_backoff_ms": 20,
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 100,
}


class Member(RebalanceListener):
    """One consumer in a thread; what it gets is noted, and when its partitions change."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, group: str, notes: Notes, *, read_committed: bool
    ) -> None:
        self._name = name
        self._read_committed = read_committed
        self._notes = notes
        self._topic = topic
        self._stopping = threading.Event()
        self._changed: set[str] = set()
        self._assigned = threading.Event()
        self._consumer = Consumer(
            bootstrap,
            group_id=group,
            group_protocol="consumer",
            auto_offset_reset="earliest",
            isolation_level=_isolation(read_committed),
            auto_commit_interval_ms=500,
            client_id=f"everlog-chaos-{name}",
            **_PATIENCE,
        )
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def on_assigned(self, places: Sequence[TopicPartition]) -> None:
        """Note that partitions have come."""
        self._changed.update(f"{place.topic}-{place.partition}" for place in places)
        self._assigned.set()

    def on_revoked(self, places: Sequence[TopicPartition]) -> None:
        """Note that partitions have gone."""
        self._changed.update(f"{place.topic}-{place.partition}" for place in places)

    def wait_assigned(self, timeout_s: float) -> bool:
        """Whether the group has told it, in this time, what it has."""
        return self._assigned.wait(timeout_s)

    def leave(self) -> None:
        """Commit, and go out of the group."""
        self._stopping.set()
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        self._consumer.subscribe([self._topic], listener=self)
        start = self._notes.clock.ticks()
        self._note(Kind.SUBSCRIBE, start, ())
        while not self._stopping.is_set():
            start = self._notes.clock.ticks()
            try:
                records = self._consumer.poll(_POLL_S)
            except EverlogError:
                continue  # Brokers come and go here; poll goes on where it was.
            if records:
                self._note(Kind.POLL, start, records)
        try:
            self._consumer.close(_CLOSE_S)
        except EverlogError:
            pass  # Nobody was there to say goodbye to.

    def _note(self, kind: Kind, start: int, records: Sequence[ConsumerRecord]) -> None:
        changed, self._changed = self._changed, set()
        now = self._notes.clock.ms()
        self._notes.handed.extend(Handed(now, record.partition, self._name) for record in records)
        self._notes.recorder.add(
            Operation(
                self._name,
                kind,
                Outcome.OK,
                start,
                self._notes.clock.ticks(),
                polls=tuple(polled(record) for record in records),
                read_committed=self._read_committed,
                rebalanced=tuple(sorted(changed)),
            )
        )


class Group:
    """The members of a group, as many as are wanted; `read_committed` is their isolation level."""

    def __init__(self, bootstrap: str, topic: str, notes: Notes, *, read_committed: bool = False) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._notes = notes
        self._read_committed = read_committed
        self._members: list[Member] = []
        self._made = 0

    def scale(self, count: int, timeout_s: float) -> bool:
        """Have so many members; False if those that came were told nothing in this time."""
        added: list[Member] = []
        while len(self._members) < count:
            self._made += 1
            group = f"{self._topic}-readers"
            member = Member(
                f"member-{self._made}",
                self._bootstrap,
                self._topic,
                group,
                self._notes,
                read_committed=self._read_committed,
            )
            self._members.append(member)
            added.append(member)
        while len(self._members) > count:
            self._members.pop().leave()
        deadline = time.monotonic() + timeout_s
        return all(member.wait_assigned(max(0.0, deadline - time.monotonic())) for member in added)

    def close(self) -> None:
        """Let all members go."""
        while self._members:
            self._members.pop().leave()


def read_all(
    bootstrap: str,
    topic: str,
    partitions: int,
    notes: Notes,
    timeout_s: float,
    *,
    read_committed: bool = False,
) -> int:
    """Read everything from the start to the end with a new consumer, note it, and return how much it was.

    The end is what the leaders call so when it begins. UnreadEnd if it does not get there in time.
    """
    places = [TopicPartition(topic, index) for index in range(partitions)]
    start = notes.clock.ticks()
    found: list[Polled] = []
    with Consumer(
        bootstrap,
        auto_offset_reset="earliest",
        isolation_level=_isolation(read_committed),
        client_id="everlog-chaos-final",
        **_PATIENCE,
    ) as consumer:
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(*places, timeout=timeout_s)
        deadline = time.monotonic() + timeout_s
        reached = dict.fromkeys(places, 0)
        while any(reached[place] < ends[place] for place in places) and time.monotonic() < deadline:
            found += [polled(record) for record in consumer.poll(_POLL_S)]
            # Markers of transactions are passed over without a record.
            reached = {place: consumer.position(place, timeout_s) for place in places}
    whole = tuple(f"{topic}-{place.partition}" for place in places if reached[place] >= ends[place])
    notes.recorder.add(
        Operation(
            "final",
            Kind.POLL,
            Outcome.OK,
            start,
            notes.clock.ticks(),
            polls=tuple(found),
            read_committed=read_committed,
            partitions=whole,
            final=True,
        )
    )
    if len(whole) < partitions:
        missing = ", ".join(
            f"{place} at {reached[place]} of {ends[place]}"
            for place in places
            if reached[place] < ends[place]
        )
        raise UnreadEnd(f"the final read did not come to the end within {timeout_s:g} s: {missing}")
    return len(found)


class UnreadEnd(Exception):
    """After everything was healed, some partition could not be read to its end."""


def _isolation(read_committed: bool) -> Literal["read_committed", "read_uncommitted"]:
    return "read_committed" if read_committed else "read_uncommitted"


def polled(record: ConsumerRecord) -> Polled:
    """A record that was read, as histories have it."""
    value = (record.value or b"no value").partition(b" ")[0].decode(errors="replace")
    return Polled(f"{record.topic}-{record.partition}", record.offset, value)

"""Clients that hold state over time: members of groups, and transactional producers.

Each client library runs in a driver process of its own, those of Python too, so that any of them can be
killed without a word. One driver holds many sessions; each goes on polling by itself, and is asked what it
has seen.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

from tests.apache_kafka import Unavailable
from tests.conformance.clients import other_languages
from tests.conformance.clients.process import DriverProcess

Ability = Literal[
    "eager",
    "cooperative",
    "consumer_protocol",
    "static",
    "stays_fenced",
    "no_reset",
    "transactions",
    "streams",
    "change_groups",
    "delete_offsets",
    "transaction_admin",
    "fence_producers",
]
ALL_ABILITIES: frozenset[Ability] = frozenset(get_args(Ability))

Way = Literal["eager", "cooperative", "consumer"]
"""How a group shares its partitions: the classic protocol in its two ways, or that of KIP-848."""
Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """A record that a member got."""

    topic: str
    partition: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed offset, or one to be committed."""

    topic: str
    partition: int
    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a member takes part in its group."""

    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression without anchors in place of `topics`."""
    protocol: Way = "eager"
    session_ms: int = 3_000
    heartbeat_ms: int = 300
    instance: str | None = None
    reset: Literal["earliest", "latest", "none"] = "earliest"
    commit: Literal["each", "auto", "none"] = "each"
    """After each poll and at each revocation; by the library's own timer (100 ms); or when asked only."""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"


class Member:
    """One consumer in a group, with all that it has seen so far."""

    def __init__(self, driver: DriverProcess, name: str, terms: Terms) -> None:
        self.name = name
        self.records: list[Seen] = []
        self.events: list[str] = []
        """`assigned`, `revoked` and `lost`, as the library told its application."""
        self.assignment: frozenset[Partition] = frozenset()
        self.error: tuple[int, str] | None = None
        """The error that the library gave up with, if it has."""
        self._driver = driver
        driver.call(
            "member_open",
            id=name,
            group=terms.group,
            topics=list(terms.topics),
            pattern=terms.pattern,
            protocol=terms.protocol,
            session_ms=terms.session_ms,
            heartbeat_ms=terms.heartbeat_ms,
            instance=terms.instance,
            reset=terms.reset,
            commit=terms.commit,
            isolation=terms.isolation,
        )

    def look(self) -> None:
        """Take over what it has seen since the last look."""
        seen = self._driver.call("member_seen", id=self.name)
        self.assignment = frozenset((topic, partition) for topic, partition in seen["assignment"])
        self.events += seen["events"]
        self.records += [Seen(*each) for each in seen["records"]]
        if seen["error"] is not None:
            self.error = (seen["error"][0], seen["error"][1])

    def commit(self, offsets: Sequence[Commit] | None = None, asynchronous: bool = False) -> None:
        """Commit these offsets, or the positions of all that was polled, and wait for the outcome."""
        self._driver.call("member_commit", id=self.name, offsets=_plain(offsets), asynchronous=asynchronous)

    def committed(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """What the group has committed, as this member is told; partitions without a commit are left out."""
        found = self._driver.call("member_committed", id=self.name, topic=topic, numbers=list(partitions))
        return {partition: offset for partition, offset in found if offset >= 0}

    def close(self) -> None:
        """Leave the way the library does; a static member says nothing."""
        self._driver.call("member_close", id=self.name)


class Transactor:
    """A transactional producer, with a consumer whose offsets it commits where it was given a group."""

    def __init__(
        self,
        driver: DriverProcess,
        name: str,
        transactional_id: str,
        timeout_ms: int,
        group: str,
        source: str,
    ) -> None:
        self.name = name
        self._driver = driver
        driver.call(
            "txn_open",
            id=name,
            transactional_id=transactional_id,
            timeout_ms=timeout_ms,
            group=group,
            source=source,
        )

    def poll(self, count: int) -> list[Seen]:
        """The next records of the source, at least `count`."""
        return [Seen(*each) for each in self._driver.call("txn_poll", id=self.name, count=count)]

    def begin(self) -> None:
        """Begin a transaction."""
        self._driver.call("txn_begin", id=self.name)

    def send(self, topic: str, values: Sequence[tuple[int, str]]) -> None:
        """Write (partition, value) pairs and wait until the broker has them."""
        self._driver.call("txn_send", id=self.name, topic=topic, values=[list(each) for each in values])

    def commit(self) -> None:
        """Commit what was written, and the offsets of what was polled since the beginning."""
        self._driver.call("txn_end", id=self.name, commit=True)

    def abort(self) -> None:
        """Abort, and go back to where the source was when the transaction began."""
        self._driver.call("txn_end", id=self.name, commit=False)

    def close(self) -> None:
        """Close producer and consumer."""
        self._driver.call("txn_close", id=self.name)


class Sessions:
    """One driver process and the sessions in it."""

    def __init__(self, name: str, command: Sequence[str], abilities: frozenset[Ability]) -> None:
        self.name = name
        self.abilities = abilities
        self._directory = TemporaryDirectory(prefix="everlog-sessions-")
        self._driver = DriverProcess(name, command, Path(self._directory.name) / "stderr")
        self._count = 0

    def connect(self, bootstrap: str) -> None:
        """Name the cluster that all sessions go to."""
        self._driver.call("connect", bootstrap=bootstrap)

    def member(self, terms: Terms) -> Member:
        """Join a group."""
        return Member(self._driver, self._next("member"), terms)

    def transactor(
        self, transactional_id: str, timeout_ms: int = 10_000, group: str = "", source: str = ""
    ) -> Transactor:
        """Take over a transactional id; return once that is done."""
        return Transactor(self._driver, self._next("transactor"), transactional_id, timeout_ms, group, source)

    def call(self, op: str, **job: Any) -> Any:
        """An administrative job."""
        return self._driver.call(op, **job)

    def group_offsets(self, group: str) -> dict[Partition, Commit]:
        """All offsets that a group has committed."""
        found = [Commit(*each) for each in self.call("group_offsets", group=group)]
        return {(each.topic, each.partition): each for each in found if each.offset >= 0}

    def kill(self) -> None:
        """End the driver at once; its sessions end with it, without a word."""
        self._driver.kill()
        self._directory.cleanup()

    def _next(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"


def _plain(offsets: Sequence[Commit] | None) -> list[list[Any]] | None:
    if offsets is None:
        return None
    return [[each.topic, each.partition, each.offset, each.metadata] for each in offsets]


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.conformance.clients.served.{module}"]


_COMMANDS: dict[str, tuple[Callable[[], list[str] | Unavailable], frozenset[Ability]]] = {
    "confluent-kafka": (
        _python("confluent"),
        ALL_ABILITIES - {"delete_offsets", "transaction_admin", "fence_producers"},
    ),
    # It joins again when it is fenced, and so fences in turn; and so does aiokafka.
    "kafka-python": (
        _python("kafka_python"),
        ALL_ABILITIES - {"consumer_protocol", "stays_fenced", "fence_producers"},
    ),
    "aiokafka": (_python("aio"), frozenset(("eager", "static", "no_reset", "transactions", "streams"))),
    "kafka-clients": (other_languages.java_command, ALL_ABILITIES),
    "kafkajs": (other_languages.node_command, frozenset(("eager", "transactions", "change_groups"))),
    "franz-go": (other_languages.go_command, ALL_ABILITIES - {"fence_producers", "no_reset"}),
}
NAMES = tuple(_COMMANDS)


def start(name: str, bootstrap: str) -> Sessions | Unavailable:
    """A new driver process of the client of a name, or why it cannot be had."""
    find, abilities = _COMMANDS[name]
    command = find()
    if isinstance(command, Unavailable):
        return command
    sessions = Sessions(name, command, abilities)
    sessions.connect(bootstrap)
    return sessions


def able(ability: Ability) -> tuple[str, ...]:
    """The clients that have an ability."""
    return tuple(name for name, (_, abilities) in _COMMANDS.items() if ability in abilities)

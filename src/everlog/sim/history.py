"""What clients did and what became of it, in one format for the simulator and for real processes alike.

A history is a list of operations and a few promises that they are held to. As a file it is JSON lines: the
promises first, then one operation a line in the order in which they ended; what has its default is left out.

An operation is `ok` (it was done, for certain), `fail` (it was not done, for certain) or `info` (nobody
knows). Whoever writes `fail` for something that may have been done makes every checker worthless, so
`everlog.sim.outcomes` says which error proves what. Times are any whole numbers that grow, the same for all
processes; an `info` operation has no end, because it may take effect at any time.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any


class Outcome(StrEnum):
    """What is known of an operation."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Kind(StrEnum):
    """What a client did."""

    SEND = "send"
    """Records written outside a transaction."""
    POLL = "poll"
    """Records read outside a transaction; with `final` by a fresh client from the start to the end."""
    TXN = "txn"
    """A transaction: what it wrote, read, and committed for a group. An abort is a `fail`."""
    ASSIGN = "assign"
    """A consumer chose partitions or a place in them: its next poll need not go on where the last ended."""
    SUBSCRIBE = "subscribe"
    """The same, with a group's coordinator choosing."""
    GATHER = "gather"
    """A classic member was told its generation, which nobody keeps before its leader has shared it out."""
    JOIN = "join"
    """A member was told what it has in its generation, which outlives any crash from here on."""
    OWN = "own"
    """A member held partitions from `start` to `end`; `ok` if it gave them up, `info` if it lost them."""
    COMMIT = "commit"
    """A group's offsets were committed outside a transaction."""
    COMMITTED = "committed"
    """A group's offsets were read."""
    FENCE = "fence"
    """Epochs were raised: what has a lower one is a zombie from now on."""
    LOOKUP = "lookup"
    """An offset was asked for by time."""
    BALANCES = "balances"
    """Amounts, as one reader saw all of them at one place of the log."""
    FAULT = "fault"
    """Somebody broke something from `start` to `end`."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One record that was to be written. No value is ever sent twice to one partition."""

    partition: str
    value: str
    offset: int | None = None
    """Where it is, if that was told."""
    key: str | None = None
    tombstone: bool = False
    timestamp: int | None = None
    digest: str | None = None
    """What all of the record's bytes come to, if they are to be compared."""
    source: str | None = None
    """For the output of a pipeline: which record it came from, as `partition@offset`."""


@dataclass(frozen=True, slots=True)
class Polled:
    """One record that was read."""

    partition: str
    offset: int
    value: str
    key: str | None = None
    tombstone: bool = False
    timestamp: int | None = None
    digest: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a partition could be read, as its leader knew when it answered."""

    partition: str
    high_watermark: int
    last_stable_offset: int
    leader_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Membership:
    """Which member of which group did it."""

    group: str
    member: str = ""
    generation: int = -1
    """The generation of a classic group, or the member's epoch in a newer one."""
    protocol: str = "classic"

    @property
    def fenced_by(self) -> str:
        """Whose generations are compared: those of all members of a classic group, else a member's own."""
        return self.group if self.protocol == "classic" else f"{self.group}/{self.member}"


@dataclass(frozen=True, slots=True)
class Lookup:
    """An offset asked for by time; -1 if no record is that new."""

    partition: str
    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that one process did, after one another within a process."""

    process: str
    kind: Kind
    outcome: Outcome
    start: int
    end: int | None = None
    """When it was known to be over; None if it may still take effect."""
    sends: tuple[Sent, ...] = ()
    polls: tuple[Polled, ...] = ()
    """In the order in which they were read."""
    bounds: tuple[Bounds, ...] = ()
    read_committed: bool = True
    rebalanced: tuple[str, ...] = ()
    """Partitions that came or went while it ran."""
    partitions: tuple[str, ...] = ()
    """For `assign`, `subscribe` and `own`: which; for a final read: which were read to their ends."""
    membership: Membership | None = None
    offsets: Mapping[str, int] = field(default_factory=dict[str, int])
    """Committed offsets: written in `commit` and `txn`, read in `committed`."""
    reset: bool = False
    """For `commit`: it was meant to go back."""
    repeated: bool = False
    """For `commit`: it may have been sent more than once, so a copy of it may arrive at any later time."""
    epochs: Mapping[str, int] = field(default_factory=dict[str, int])
    """What it was done as: an epoch for each thing that has one, such as a transactional id."""
    lookups: tuple[Lookup, ...] = ()
    amounts: Mapping[str, int] = field(default_factory=dict[str, int])
    final: bool = False
    """After all faults were healed, by a client that knew nothing."""
    note: str = ""

    @property
    def transactional(self) -> bool:
        """Whether it happened as a whole or not at all."""
        return self.kind is Kind.TXN

    def __str__(self) -> str:
        end = "…" if self.end is None else self.end
        return f"{self.kind} {self.outcome} by {self.process} at {self.start}–{end} {self.note}".rstrip()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Records read from some partitions and written to others, each exactly once."""

    group: str
    sources: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Promises:
    """What a history is held to beyond what always holds."""

    idempotent: bool = True
    """No record twice."""
    compacted: tuple[str, ...] = ()
    """Partitions of which older values of a key may be missing."""
    delete_retention_ms: int = 86_400_000
    ticks_per_ms: int = 1
    """How many units of an operation's time make a millisecond."""
    pipelines: tuple[Pipeline, ...] = ()
    at_least_once: tuple[str, ...] = ()
    """Groups that hand every record to a member before they commit it; their polls say whose they are."""
    total: int | None = None
    """What the amounts of every `balances` operation must come to."""
    longest_silence_ms: int | None = None
    """For how long no operation may succeed while nothing is broken."""


PLAIN = Promises()
"""What holds if nothing else is said."""


@dataclass(frozen=True, slots=True)
class History:
    """All that is known of a run."""

    operations: tuple[Operation, ...]
    promises: Promises = PLAIN

    def write(self, path: Path) -> None:
        """Write it as JSON lines."""
        lines = [_to_json(self.promises), *(_to_json(operation) for operation in self.operations)]
        path.write_text("".join(f"{json.dumps(line, sort_keys=True)}\n" for line in lines))


def read_history(path: Path) -> History:
    """Read what `History.write` wrote."""
    first, *rest = path.read_text().splitlines()
    promises = json.loads(first)
    promises["pipelines"] = tuple(
        Pipeline(each["group"], tuple(each["sources"]), tuple(each["outputs"]))
        for each in promises.get("pipelines", ())
    )
    for names in ("compacted", "at_least_once"):
        promises[names] = tuple(promises.get(names, ()))
    return History(tuple(_operation(json.loads(line)) for line in rest), Promises(**promises))


class Recorder:
    """Collects a history while it happens."""

    def __init__(self, promises: Promises = PLAIN) -> None:
        self.promises = promises
        self._ended: list[Operation] = []

    def add(self, operation: Operation) -> None:
        """Note an operation that is over, or of which no more will be heard."""
        self._ended.append(operation)

    def extend(self, operations: Iterable[Operation]) -> None:
        """Note several, in the order given."""
        self._ended.extend(operations)

    @property
    def operations(self) -> list[Operation]:
        """What was noted so far; not a copy."""
        return self._ended

    def history(self) -> History:
        """What was noted so far."""
        return History(tuple(self._ended), self.promises)


def _to_json(value: Any) -> Any:
    """A dataclass as a dict without its defaults; `Any` because JSON is."""
    if hasattr(value, "__dataclass_fields__"):
        return {
            each.name: _to_json(found)
            for each in fields(value)
            if (found := getattr(value, each.name)) != _default(each)
        }
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return value


def _default(each: Any) -> Any:
    if each.default_factory is not MISSING:
        return each.default_factory()
    return each.default


def _operation(found: dict[str, Any]) -> Operation:
    parts: dict[str, Any] = {
        "kind": Kind(found["kind"]),
        "outcome": Outcome(found["outcome"]),
        "sends": tuple(Sent(**each) for each in found.get("sends", ())),
        "polls": tuple(Polled(**each) for each in found.get("polls", ())),
        "bounds": tuple(Bounds(**each) for each in found.get("bounds", ())),
        "lookups": tuple(Lookup(**each) for each in found.get("lookups", ())),
        "rebalanced": tuple(found.get("rebalanced", ())),
        "partitions": tuple(found.get("partitions", ())),
    }
    if "membership" in found:
        parts["membership"] = Membership(**found["membership"])
    return Operation(**{**found, **parts})

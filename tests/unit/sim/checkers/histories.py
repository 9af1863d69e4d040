"""Hand-made histories: short ways to say what somebody did, and what the checkers make of it."""

from collections.abc import Mapping
from dataclasses import replace

from everlog.sim.checkers import check
from everlog.sim.history import (
    PLAIN,
    Bounds,
    History,
    Kind,
    Membership,
    Operation,
    Outcome,
    Polled,
    Promises,
    Sent,
)

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


def broken(*operations: Operation, promises: Promises = PLAIN) -> set[str]:
    """The invariants that a history breaks."""
    return {violation.invariant for violation in check(History(operations, promises))}


def put(value: str, offset: int | None = None, partition: str = "t-0", key: str | None = None) -> Sent:
    """A record to send; with an empty value after a key's dot it is a deletion, such as `a.`."""
    return Sent(partition, value, offset, key, tombstone=value.endswith("."))


def got(value: str, offset: int, partition: str = "t-0", key: str | None = None) -> Polled:
    return Polled(partition, offset, value, key, tombstone=value.endswith("."))


def send(
    *sends: Sent, outcome: Outcome = OK, at: int = 0, end: int | None = None, process: str = "writer"
) -> Operation:
    ended = None if outcome is INFO else at + 1 if end is None else end
    return Operation(process, Kind.SEND, outcome, at, ended, sends)


def poll(*polls: Polled, at: int = 100, process: str = "reader", committed: bool = True) -> Operation:
    return Operation(process, Kind.POLL, OK, at, at + 1, polls=polls, read_committed=committed)


def final(*polls: Polled, partitions: tuple[str, ...] = ("t-0",), at: int = 900) -> Operation:
    """A read of everything by a fresh client."""
    return Operation("final", Kind.POLL, OK, at, at + 10, polls=polls, partitions=partitions, final=True)


def txn(
    *sends: Sent,
    reads: tuple[Polled, ...] = (),
    outcome: Outcome = OK,
    at: int = 0,
    end: int | None = None,
    process: str = "writer",
    offsets: Mapping[str, int] | None = None,
) -> Operation:
    return Operation(
        process,
        Kind.TXN,
        outcome,
        at,
        None if outcome is INFO else at + 5 if end is None else end,
        sends,
        reads,
        membership=Membership("g") if offsets else None,
        offsets=offsets or {},
    )


def commit(offset: int, at: int, *, generation: int = 1, reset: bool = False, member: str = "m") -> Operation:
    membership = Membership("g", member, generation)
    offsets = {"t-0": offset}
    return Operation(member, Kind.COMMIT, OK, at, at + 1, membership=membership, offsets=offsets, reset=reset)


def committed(offset: int, at: int, *, final: bool = False, partition: str = "t-0") -> Operation:
    membership = Membership("g")
    offsets = {partition: offset}
    kind = Kind.COMMITTED
    return Operation("asks", kind, OK, at, at + 1, membership=membership, offsets=offsets, final=final)


def join(generation: int, at: int, member: str = "m") -> Operation:
    return Operation(member, Kind.JOIN, OK, at, at + 1, membership=Membership("g", member, generation))


def gather(generation: int, at: int) -> Operation:
    return replace(join(generation, at), kind=Kind.GATHER)


def fault(at: int, end: int) -> Operation:
    return Operation("nemesis", Kind.FAULT, OK, at, end, note="killed")


def own(
    member: str, generation: int, at: int, end: int, outcome: Outcome = OK, protocol: str = "classic"
) -> Operation:
    membership = Membership("g", member, generation, protocol)
    return Operation(member, Kind.OWN, outcome, at, end, partitions=("t-0",), membership=membership)


def limits(high_watermark: int, last_stable_offset: int, leader_epoch: int = 0) -> Bounds:
    return Bounds("t-0", high_watermark, last_stable_offset, leader_epoch)

"""How a batch is committed: what to do next, given what was found; no I/O (docs/design/0009).

`commit_batch` and the others are generators: each yields what is to be done and is sent what
came of it. The order is what matters. Whoever decides has first shut out every other decider of the query,
and then reads what was decided. What a decision aborts was found before it was made and is a part of it: what
is found later may be of another driver's next batch.
"""

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from everlog.client.core.errors import TimedOut
from everlog.client.core.txn.prepared import PreparedTransaction
from everlog.spark.sink.errors import SinkFailed

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Decision:
    """That a batch of a query counts, which transactions it consists of, and which are of no use now."""

    batch: int
    transactions: tuple[PreparedTransaction, ...]
    held: bool = False
    """Whether no time-out ends them (KIP-939)."""
    leftovers: tuple[PreparedTransaction, ...] = ()
    """What was open of attempts that do not count: tasks that died, speculative ones, batches run again."""

    def to_bytes(self) -> bytes:
        """As it stands in the log."""
        found = {
            "format": _FORMAT,
            "batch": self.batch,
            "held": self.held,
            "transactions": [_entry(one) for one in self.transactions],
            "leftovers": [_entry(one) for one in self.leftovers],
        }
        return json.dumps(found, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Decision":
        """Read what `to_bytes` made; SinkFailed for anything else."""
        try:
            found = cast("dict[str, Any]", json.loads(content))
            if found["format"] != _FORMAT:
                raise SinkFailed(f"a decision has format {found['format']}: expected {_FORMAT}")
            made, left = (
                tuple(
                    PreparedTransaction(str(one), int(producer), int(epoch), int(version))
                    for one, producer, epoch, version in found[name]
                )
                for name in ("transactions", "leftovers")
            )
            return cls(int(found["batch"]), made, bool(found["held"]), left)
        except (ValueError, KeyError, TypeError) as error:
            raise SinkFailed(f"a decision cannot be read: {error!r} in {content[:200]!r}") from None


def _entry(one: PreparedTransaction) -> list[str | int]:
    return [one.transactional_id, one.producer_id, one.producer_epoch, one.version]


# What is to be done, each with what is sent back.


@dataclass(frozen=True, slots=True)
class ShutOutOthers:
    """Become the only one who can decide for the query. Sent back: its last decision, or None."""


@dataclass(frozen=True, slots=True)
class ReadDecision:
    """Sent back: the query's last decision, or None. Throws in `TimedOut` if one is being made for long."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Make sure that transactions are open and stay so. Sent back: `Held`; `Gone` is thrown in otherwise."""

    transactions: tuple[PreparedTransaction, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """Transactions that are open, as they are to be ended."""

    transactions: tuple[PreparedTransaction, ...]
    for_ever: bool
    """Whether the cluster keeps them open for as long as it takes."""


class Gone(SinkFailed):
    """A transaction of a task is open no more: it took too long, or somebody aborted it."""


@dataclass(frozen=True, slots=True)
class Announce:
    """Let tasks know that their write is being committed: what they open from now on they abort."""


@dataclass(frozen=True, slots=True)
class FindOpen:
    """Sent back: all transactions of tasks of the query that are open now, but for these."""

    beside: frozenset[str]
    """Transactional ids."""


@dataclass(frozen=True, slots=True)
class Decide:
    """Write a decision down, with the source's offsets. Throws in `Fenced` if another has shut us out."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit what was decided; again is harmless."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Abort:
    """Abort exactly these transactions; those that are over already stay as they are."""

    transactions: tuple[PreparedTransaction, ...]


Step = ShutOutOthers | ReadDecision | Hold | Announce | FindOpen | Decide | Commit | Abort
Steps = Generator[Step, Any, None]


def commit_batch(batch: int, written: Sequence[PreparedTransaction], skipped: int) -> Steps:
    """Make a batch count, once. `skipped` tasks wrote nothing, having seen that it counts already."""
    last: Decision | None = yield ShutOutOthers()
    if last is not None and last.batch >= batch:
        # Run again by Spark, which had no time to note that it was done. Every batch before the last decided
        # one is committed: it was found before that was decided.
        if last.batch == batch:
            yield Commit(last)
            yield Abort(last.leftovers)
        yield Abort(tuple(written))
        return
    if skipped:
        raise SinkFailed(
            f"batch {batch} was decided when {skipped} of its tasks asked, and is not now: the group of the "
            "query or the topic of decisions was deleted meanwhile"
        )
    try:
        held: Held = yield Hold(tuple(written))
    except Gone:
        yield Abort(tuple(written))
        raise
    decision = yield from _decision(batch, held, last)
    yield Decide(decision)
    yield Commit(decision)
    yield Abort(decision.leftovers)


def commit_at_once(written: Sequence[PreparedTransaction], skipped: int = 0) -> Steps:
    """Commit a batch write that nobody will run again under the same name: no decision would ever be read."""
    if skipped:
        # Only attempts that were overtaken see the announcement, and Spark has no use for what they tell.
        yield Abort(tuple(written))
        raise SinkFailed(
            f"{skipped} of the tasks of a write saw it committed before it was: expected one commit"
        )
    try:
        held: Held = yield Hold(tuple(written))
    except Gone:
        yield Abort(tuple(written))
        raise
    yield Announce()  # Before the look at what is open, or what is opened in between would be nobody's.
    decision = yield from _decision(0, held)
    yield Commit(decision)
    yield Abort(decision.leftovers)


def abort_batch(batch: int, written: Sequence[PreparedTransaction]) -> Steps:
    """Abort what tasks of a failed batch have finished, unless it was decided before it failed."""
    # Nobody is shut out: a driver that was replaced comes here as well, and its successor is at work.
    try:
        last: Decision | None = yield ReadDecision()
    except TimedOut:
        return  # A committer died over its decision. The next batch finds and aborts what is left.
    if last is None or last.batch < batch:
        yield Abort(tuple(written))


def _decision(batch: int, held: Held, last: Decision | None = None) -> Generator[Step, Any, Decision]:
    left: tuple[PreparedTransaction, ...] = yield FindOpen(
        frozenset(one.transactional_id for one in held.transactions)
    )
    if last is not None and any(_counts(one, last) for one in left):
        # Whoever decided on them died, and nobody has run that batch again: Spark does so, but not who
        # numbers writes. To sweep them would lose rows that count.
        yield Commit(last)
        left = tuple(one for one in left if not _counts(one, last))
    return Decision(batch, held.transactions, held.for_ever, left)


def _counts(found: PreparedTransaction, decision: Decision) -> bool:
    """Whether an open transaction is one that was decided on, and not a later one of the same producer.

    Whoever holds one ends it by a higher epoch than the cluster shows for it. A later one has a higher yet.
    """
    return any(
        (found.transactional_id, found.producer_id) == (one.transactional_id, one.producer_id)
        and found.producer_epoch <= one.producer_epoch
        for one in decision.transactions
    )

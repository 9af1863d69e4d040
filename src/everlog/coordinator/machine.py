"""Decide, log, apply, reply: how both coordinators change state that must outlive them.

A command looks at the state and returns records and a reply. The records go to the partition as one batch,
then `apply` takes them in, then the reply leaves once they are committed. After a restart, and on the broker
that leads the partition next, the same `apply` makes the same state from the same records.
"""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from everlog.coordinator.records import (
    CoordinatorRecord,
    Kinds,
    decode_record,
    encode_body,
    encode_key,
    last_wins,
)
from everlog.model.dataclass import dataclass
from everlog.model.errors import ErrorCode, Refused, StorageError
from everlog.model.ids import Offset, Timestamp

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Done = Callable[[R | Refused | StorageError], None]


class ProducerStamp(NamedTuple):
    """The producer in whose transaction records are written; they count once its marker says so."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Decision(Generic[R_co]):
    """Records that make it so, and what to reply once they are committed."""

    records: tuple[CoordinatorRecord, ...]
    reply: R_co
    producer: ProducerStamp | None = None


class Journal(Protocol):
    """The partition that the records are kept in, as its leader sees it."""

    def append(
        self, records: Sequence[tuple[bytes, bytes | None]], producer: ProducerStamp | None, wall: Timestamp
    ) -> Offset:
        """Write the records as one batch and return the offset behind it; Refused or StorageError."""
        ...

    def when_committed(self, end: Offset, done: Callable[[Refused | StorageError | None], None]) -> None:
        """Call `done` once all below `end` is committed, which may be now; or with why it may never be.

        Refused says that the partition leads here no more: the records may be in effect with the next
        leader, or not.
        """
        ...


class State(Protocol):
    """What the records of one partition make."""

    def apply(self, record: CoordinatorRecord, offset: Offset, producer: ProducerStamp | None) -> None:
        """Take in one record, live or in replay. It never fails: what was written was decided to be right."""
        ...

    def end_transaction(self, producer: ProducerStamp, commit: bool) -> None:
        """Take in a transaction's marker: what its producer wrote counts now, or never."""
        ...


class Phase(Enum):
    """Where a machine is in its life."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class Machine:
    """One partition of an internal topic, and the state that its records make."""

    def __init__(
        self, kinds: Kinds, state: State, journal: Journal, wall: Callable[[], Timestamp], epoch: int
    ) -> None:
        self._kinds = kinds
        self._state = state
        self._journal = journal
        self._wall = wall
        self.coordinator_epoch = epoch
        """The leader epoch of the partition, by which a coordinator is told from those before it."""
        self.last_wins = last_wins(kinds)
        """How keys begin of which whoever replays may leave out all values but the last."""
        self.phase = Phase.LOADING
        # Replies on their way, oldest first: one that rests on records not yet committed must not be heard
        # before them, even where it wrote none itself.
        self._pending: deque[_Pending] = deque()

    def replay(
        self, key: bytes | None, value: bytes | None, offset: Offset, producer: ProducerStamp | None
    ) -> None:
        """Take in one record of the log while loading; CorruptDataError if it cannot be read."""
        assert self.phase is Phase.LOADING, self.phase
        record = decode_record(self._kinds, key, value)
        if record is not None:
            self._state.apply(record, offset, producer)

    def loaded(self) -> None:
        """All that the log has was replayed: commands are served from now on."""
        assert self.phase is Phase.LOADING, self.phase
        self.phase = Phase.ACTIVE

    def check_active(self) -> None:
        """Refuse what this coordinator cannot decide now."""
        if self.phase is Phase.LOADING:
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator reads its log")
        if self.phase is Phase.CLOSED:
            raise Refused(ErrorCode.NOT_COORDINATOR, "another broker coordinates this")

    def run(self, decide: Callable[[], Decision[R]], done: Done[R]) -> None:
        """Decide against the state as it is now, log, apply; `done` gets the reply when that is committed.

        `decide` changes nothing. What it or the disk raises is the reply, and nothing has changed then.
        """
        try:
            self.check_active()
            decision = decide()
            end = self._write(decision.records, decision.producer) if decision.records else None
        except (Refused, StorageError) as refusal:
            self._reply(_Pending(None, refusal, done))
            return
        self._reply(_Pending(end, decision.reply, done))

    def replay_end(self, producer: ProducerStamp, commit: bool) -> None:
        """Take in a transaction's marker of the log while loading."""
        assert self.phase is Phase.LOADING, self.phase
        self._state.end_transaction(producer, commit)

    def end_transaction(self, producer: ProducerStamp, commit: bool) -> None:
        """Tell the state of a marker that is in the log now; one written while loading is read there."""
        if self.phase is Phase.ACTIVE:
            self._state.end_transaction(producer, commit)

    def close(self) -> None:
        """Coordinate no more: the partition leads from elsewhere, or is gone. Whoever waits is told so."""
        self.phase = Phase.CLOSED
        refusal = Refused(ErrorCode.NOT_COORDINATOR, "another broker coordinates this")
        pending, self._pending = self._pending, deque()
        for one in pending:
            one.done(refusal)

    def _write(self, records: tuple[CoordinatorRecord, ...], producer: ProducerStamp | None) -> Offset:
        kept = [(encode_key(record), encode_body(record)) for record in records]
        end = self._journal.append(kept, producer, self._wall())
        first = end - len(records)
        for at, record in enumerate(records):
            self._state.apply(record, Offset(first + at), producer)
        return end

    def _reply(self, pending: "_Pending") -> None:
        if pending.end is None and not self._pending:
            pending.done(pending.reply)
            return
        self._pending.append(pending)
        if pending.end is not None:
            self._journal.when_committed(pending.end, lambda error: self._committed(pending, error))

    def _committed(self, pending: "_Pending", error: Refused | StorageError | None) -> None:
        if isinstance(error, Refused):
            # What we hold may not be what the next coordinator finds: nothing that rests on it may be heard.
            self.close()
            return
        pending.settled = True
        if error is not None:
            self._fail_from(pending, error)
        while self._pending and (self._pending[0].settled or self._pending[0].end is None):
            first = self._pending.popleft()
            first.done(first.reply)

    def _fail_from(self, failed: "_Pending", error: StorageError) -> None:
        """Fail a reply and those behind it, which rest on what it wrote."""
        rests = False
        for one in self._pending:
            rests = rests or one is failed
            if rests:
                one.reply = error


class _Pending:
    """A reply on its way; without an end it wrote nothing and waits for those before it."""

    __slots__ = ("done", "end", "reply", "settled")

    def __init__(self, end: Offset | None, reply: object, done: Callable[[Any], None]) -> None:
        self.end = end
        self.reply = reply
        self.done = done
        self.settled = False

"""Sequence numbers per producer: what is in the log already, what may come next, what is undecided (P4).

Per producer and partition the last five batches are remembered. A batch that equals one of them is a
duplicate and gets its offset again. The rules are those of Kafka's idempotent producer (KIP-98, KIP-360).
"""

from collections.abc import Iterator
from typing import NamedTuple

from everlog.log.aborted_index import AbortedTxn
from everlog.log.lane import LaneBatch
from everlog.log.verification import Verification, not_verified
from everlog.model.errors import ErrorCode, Refused
from everlog.model.ids import Offset, ProducerId
from everlog.records.batch import MAX_SEQUENCE, BatchView

WINDOW = 5
"""Batches remembered per producer: as many as a client may have in flight."""
NO_SEQUENCE = -1
NO_COORDINATOR = -1
_TRANSACTIONAL = 0x10
_EPOCH_BUMP_VERSION = 2
_MAX_EPOCH = 32_767


class Sent(NamedTuple):
    """One batch that a producer has in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Marker(NamedTuple):
    """The end of a transaction, as its control batch says."""

    commit: bool
    coordinator_epoch: int


class ProducerState:
    """What one producer has in one partition."""

    __slots__ = ("coordinator_epoch", "epoch", "last_timestamp", "producer_id", "txn_first_offset", "window")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.window: list[Sent] = []
        """The last batches of this epoch, oldest first, at most five."""
        self.last_timestamp = -1
        """When the broker last heard of the producer, in milliseconds since 1970."""
        self.coordinator_epoch = NO_COORDINATOR
        self.txn_first_offset: Offset | None = None
        """Where the open transaction begins; None if none is open."""

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record of this epoch; -1 if there is none."""
        return self.window[-1].last_sequence if self.window else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The offset of the producer's last record; -1 if this epoch has none."""
        return self.window[-1].last_offset if self.window else -1


class Producers:
    """All producers of one partition.

    `check` decides on a batch before it is appended and changes nothing; `applied` takes in one that was,
    live and in replay alike.
    """

    __slots__ = ("_open", "_states", "_unreplicated", "_verifications", "first_unstable_offset")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self._open: dict[int, Offset] = {}
        # Ended transactions as (first offset, marker's offset), until the marker is below the high watermark.
        self._unreplicated: list[tuple[Offset, Offset]] = []
        self._verifications: dict[int, Verification] = {}
        self.first_unstable_offset: Offset | None = None
        """The first offset of the oldest transaction that is open, or whose marker is not replicated yet."""

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._states.values())

    def get(self, producer_id: int) -> ProducerState | None:
        """The state of one producer; None if nothing is known of it."""
        return self._states.get(producer_id)

    def put(self, state: ProducerState) -> None:
        """Set a producer's state as a snapshot has it."""
        self._states[state.producer_id] = state
        self._open.pop(state.producer_id, None)
        if state.txn_first_offset is not None:
            self._open[state.producer_id] = state.txn_first_offset
        self._find_first_unstable()

    def check(self, batch: BatchView) -> Sent | None:
        """Return the batch in the log that this client's batch repeats, or None if it may be appended.

        Refused: an epoch that is over (47), a sequence that does not follow (45), a batch outside the
        producer's open transaction (48).
        """
        state = self._states.get(batch.producer_id)
        if state is None:
            return None
        sequence = batch.base_sequence
        if batch.producer_epoch == state.epoch:
            window = state.window
            last = window[-1].last_sequence if window else NO_SEQUENCE
            if sequence != last + 1 and not (sequence == 0 and last == MAX_SEQUENCE):
                return _repeated(state, batch)
        elif batch.producer_epoch < state.epoch:
            raise Refused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {batch.producer_id} has epoch {state.epoch}, found {batch.producer_epoch}",
            )
        elif sequence != 0:
            raise Refused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} begins epoch {batch.producer_epoch} at {sequence}, expected 0",
            )
        if state.txn_first_offset is not None and not batch.attributes & _TRANSACTIONAL:
            raise Refused(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {batch.producer_id} has a transaction open since offset {state.txn_first_offset}, "
                f"found a batch outside of it",
            )
        return None

    def next_of(self, producer_id: int) -> tuple[int, int] | None:
        """The epoch and sequence number that a producer goes on with; None if new or in a transaction."""
        state = self._states.get(producer_id)
        if state is None or state.txn_first_offset is not None or not state.window:
            return None
        return state.epoch, (state.window[-1].last_sequence + 1) & MAX_SEQUENCE

    def applied_in_lane(self, batch: LaneBatch, heard_at: int) -> None:
        """Take in a batch that went on as `next_of` said, and that is in the log now."""
        _, _, first_offset, last_delta, timestamp, producer_id, _, sequence = batch
        state = self._states[producer_id]
        window = state.window
        last_sequence = (sequence + last_delta) & MAX_SEQUENCE
        window.append(Sent(sequence, last_sequence, first_offset, first_offset + last_delta, timestamp))
        if len(window) > WINDOW:
            del window[0]
        state.last_timestamp = heard_at

    def check_epoch(self, batch: BatchView, marker: Marker | None) -> None:
        """Refuse a coordinator's batch whose producer epoch or coordinator epoch is over (47, 52)."""
        state = self._states.get(batch.producer_id)
        if state is None:
            return
        if batch.producer_epoch < state.epoch:
            raise Refused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {batch.producer_id} has epoch {state.epoch}, found {batch.producer_epoch}",
            )
        if marker is not None and marker.coordinator_epoch < state.coordinator_epoch:
            raise Refused(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"producer {batch.producer_id} has a marker of coordinator epoch {state.coordinator_epoch}, "
                f"found {marker.coordinator_epoch}",
            )

    def check_marker_epoch(self, producer_id: int, epoch: int, transaction_version: int) -> None:
        """Refuse a marker that is not above the records it would end, if transactions have epochs (47).

        The same marker twice is fine: after a crash the coordinator cannot know which ones it has written.
        """
        state = self._states.get(producer_id)
        if state is None or transaction_version < _EPOCH_BUMP_VERSION or epoch > state.epoch:
            return
        if epoch == state.epoch and (state.txn_first_offset is None or epoch == _MAX_EPOCH):
            return
        raise Refused(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} has epoch {state.epoch}, found a marker of {epoch}, which must be above",
        )

    # Transactions that begin here

    def begin_verification(self, batch: BatchView, *, epoch_bump: bool, heard_at: int) -> Verification | None:
        """Return the question to ask the coordinator before a transactional batch may be appended.

        None if there is nothing to ask: the transaction is open here, or the batch is a repeated one, or one
        of an epoch that is over.
        """
        state = self._states.get(batch.producer_id)
        if state is not None and (
            self._is_open(state, batch) or batch.producer_epoch < state.epoch or _is_repeated(state, batch)
        ):
            return None
        asked = self._verifications.get(batch.producer_id)
        if asked is None:
            asked = self._verifications[batch.producer_id] = Verification(
                batch, epoch_bump=epoch_bump, heard_at=heard_at
            )
        else:
            asked.take_in(batch)
        return asked

    def check_verified(self, batch: BatchView) -> None:
        """Refuse a batch that begins a transaction which the coordinator does not know of (48)."""
        state = self._states.get(batch.producer_id)
        if state is not None and self._is_open(state, batch):
            return
        asked = self._verifications.get(batch.producer_id)
        if asked is None:
            raise not_verified(batch)
        asked.check(batch, is_known=state is not None)

    def _is_open(self, state: ProducerState, batch: BatchView) -> bool:
        return state.txn_first_offset is not None and state.epoch == batch.producer_epoch

    # What is in the log

    def applied(self, batch: BatchView, first_offset: int, last_offset: int, heard_at: int) -> None:
        """Take in a producer's data batch that is in the log now."""
        producer_id = batch.producer_id
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(producer_id, batch.producer_epoch)
        elif state.epoch != batch.producer_epoch:
            state.epoch = batch.producer_epoch
            state.window.clear()
        window = state.window
        window.append(
            Sent(batch.base_sequence, batch.last_sequence, first_offset, last_offset, batch.max_timestamp)
        )
        if len(window) > WINDOW:
            del window[0]
        state.last_timestamp = heard_at
        if batch.attributes & _TRANSACTIONAL and state.txn_first_offset is None:
            self._verifications.pop(producer_id, None)
            state.txn_first_offset = self._open[producer_id] = Offset(first_offset)
            self._find_first_unstable()

    def ended(self, batch: BatchView, marker: Marker, offset: Offset, heard_at: int) -> AbortedTxn | None:
        """Take in a marker that is in the log at `offset`; returns the transaction if it aborted one."""
        state = self._states.get(batch.producer_id)
        if state is None:
            state = self._states[batch.producer_id] = ProducerState(batch.producer_id, batch.producer_epoch)
        elif state.epoch != batch.producer_epoch:
            state.epoch = batch.producer_epoch
            state.window.clear()
        asked = self._verifications.get(batch.producer_id)
        # A question in the epoch that this marker begins is about the transaction after it.
        if asked is not None and not (asked.epoch_bump and asked.epoch == batch.producer_epoch):
            del self._verifications[batch.producer_id]
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = heard_at
        first = state.txn_first_offset
        if first is None:
            return None
        state.txn_first_offset = None
        del self._open[batch.producer_id]
        self._unreplicated.append((first, offset))
        self._find_first_unstable()
        if marker.commit:
            return None
        stable = min(self._open.values(), default=Offset(offset + 1))
        return AbortedTxn(ProducerId(batch.producer_id), first, offset, stable)

    def replicated(self, high_watermark: Offset) -> None:
        """Let go of the transactions whose markers lie below the high watermark."""
        if self._unreplicated and self._unreplicated[0][1] < high_watermark:
            self._unreplicated = [txn for txn in self._unreplicated if txn[1] >= high_watermark]
            self._find_first_unstable()

    def expire(self, wall: int, expiration_ms: int) -> None:
        """Forget the producers not heard of for so long, but for those with an open transaction."""
        gone = [
            state.producer_id
            for state in self._states.values()
            if state.txn_first_offset is None and wall - state.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self._states[producer_id]
        for producer_id, asked in list(self._verifications.items()):
            if wall - asked.heard_at >= expiration_ms:
                del self._verifications[producer_id]

    def _find_first_unstable(self) -> None:
        first = min(self._open.values(), default=None)
        for begun, _ in self._unreplicated:
            if first is None or begun < first:
                first = begun
        self.first_unstable_offset = first


def _is_repeated(state: ProducerState, batch: BatchView) -> bool:
    return state.epoch == batch.producer_epoch and _find_repeated(state, batch) is not None


def _find_repeated(state: ProducerState, batch: BatchView) -> Sent | None:
    last_sequence = batch.last_sequence
    for sent in state.window:
        if sent.first_sequence == batch.base_sequence and sent.last_sequence == last_sequence:
            return sent
    return None


def _repeated(state: ProducerState, batch: BatchView) -> Sent:
    sent = _find_repeated(state, batch)
    if sent is not None:
        return sent
    raise Refused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {batch.producer_id} epoch {batch.producer_epoch} has sequence {batch.base_sequence}, "
        f"expected one after {state.last_sequence}",
    )

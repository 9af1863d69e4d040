"""Transactions at a steady rate, each over several partitions, some of them aborted on purpose."""

import threading
import time
from collections.abc import Sequence

from everlog.chaos.load import impatient
from everlog.chaos.notes import Notes
from everlog.client.core.errors import TimedOut
from everlog.client.core.producer.delivery import Delivery
from everlog.client.sync.producer import Producer
from everlog.model.errors import EverlogError
from everlog.sim.history import Kind, Operation, Outcome, Sent

_PARTITIONS_EACH = 3
_ABORTED_EVERY = 5
_CALL_S = 10.0
_COMMIT_S = 60.0


class TransactionLoad:
    """A thread that writes transactions one after the other and notes of each what became of it.

    An abort is a `fail`: a commit was never asked for. A commit that was not confirmed is `info`, whatever
    the error says. A producer that cannot go on is replaced by one of the same transactional id, as a program
    is that starts again.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, rate: float, size_bytes: int, notes: Notes
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._interval_s = 1.0 / rate
        self._padding = b"." * size_bytes
        self._notes = notes
        self._begun = 0
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="transactions", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Begin no other transaction, and wait until the last has ended; raises what stopped it."""
        self._stopping.set()
        self._thread.join(timeout_s)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._live()
        except BaseException as error:  # noqa: BLE001  # told by stop
            self._error = error

    def _live(self) -> None:
        """One producer, for as long as it can go on."""
        with Producer(
            self._bootstrap,
            **impatient(
                transactional_id=f"{self._topic}-transactions", client_id="everlog-chaos-transactions"
            ),
        ) as producer:
            try:
                producer.init_transactions(_CALL_S)
            except TimedOut:
                return  # Nobody is there to ask; the next one asks again.
            while not self._stopping.is_set():
                if not self._transact(producer):
                    return
                self._stopping.wait(self._interval_s)

    def _transact(self, producer: Producer) -> bool:
        """One transaction; whether the producer can go on."""
        self._begun += 1
        number, start = self._begun, self._notes.clock.ticks()
        places = sorted({(number + each) % self._partitions for each in range(_PARTITIONS_EACH)})
        aborts = number % _ABORTED_EVERY == 0
        deliveries: list[Delivery] = []
        try:
            producer.begin_transaction(_CALL_S)
            for place in places:
                value = b"t%d-%d %s" % (number, place, self._padding)
                deliveries.append(producer.send(self._topic, value, partition=place))
            if not aborts:
                _commit(producer)
                self._note(Outcome.OK, number, places, start, [each.result(0).offset for each in deliveries])
                return True
        except EverlogError as error:
            words = f"{type(error).__name__}: {error}"[:120]
            self._note(Outcome.FAIL if aborts else Outcome.INFO, number, places, start, (), words)
        else:
            self._note(Outcome.FAIL, number, places, start, (), "aborted on purpose")
        try:
            producer.abort_transaction(_CALL_S)
        except EverlogError:
            return False
        return True

    def _note(
        self,
        outcome: Outcome,
        number: int,
        places: Sequence[int],
        start: int,
        offsets: Sequence[int],
        words: str = "",
    ) -> None:
        sends = tuple(
            Sent(f"{self._topic}-{place}", f"t{number}-{place}", offsets[index] if offsets else None)
            for index, place in enumerate(places)
        )
        end = None if outcome is Outcome.INFO else self._notes.clock.ticks()
        self._notes.recorder.add(
            Operation("transactions", Kind.TXN, outcome, start, end, sends=sends, note=words)
        )


def _commit(producer: Producer) -> None:
    """Commit; where no answer came in time, nothing but asking again tells what was decided."""
    deadline = time.monotonic() + _COMMIT_S
    while True:
        try:
            producer.commit_transaction(_CALL_S)
        except TimedOut:
            if time.monotonic() >= deadline:
                raise
        else:
            return

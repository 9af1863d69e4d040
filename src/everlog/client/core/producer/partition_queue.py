"""The line of one partition's batches: those that wait, those under way, and the order they keep (P4).

With idempotence each batch carries a sequence number and a broker takes them in a row, so a batch that has to
be sent again holds up those behind it. Four rules keep the row whole:

- The first batch goes alone. A broker that knows nothing of a producer takes any number from it, so a second
  one could be written although the first was refused.
- While a batch waits to be sent again, nothing younger leaves; batches that had left come back first.
- A batch that is refused as out of order, behind an older one that is not delivered yet, just joins the line.
- One that is refused so with nothing older before it shows a hole: something before it was given up, or the
  broker has lost it. It was not written, and neither was anything behind it. So all of them may be numbered
  anew from 0 under the next epoch (KIP-360), without a chance of a duplicate.

Worked example: A has numbers 0-9 and is given up after its time, nobody knows whether the broker has it.
B is sent with 10-19. If the broker has A, it takes B. If not, it refuses B, which becomes 0-9 of the next
epoch; a copy of A that still lies in some socket is of an older epoch then and is refused.
"""

from collections import deque

from everlog.client.core.producer.identity import ProducerIdentity
from everlog.client.core.producer.pending_batch import NO_SEQUENCE, NOBODY, PendingBatch
from everlog.model.errors import EverlogError, Refused
from everlog.model.topics import TopicPartition
from everlog.records.batch import MAX_SEQUENCE
from everlog.records.short_way import Inlet

MAX_EPOCH = 32767

FORGOTTEN_AFTER_S = 600.0
"""A broker may have forgotten a producer that was silent for so long; by default it does after a day."""


class PartitionQueue:
    """All batches of one partition that are not done, oldest first. Not safe to use from two threads."""

    __slots__ = (
        "given",
        "identity",
        "in_flight",
        "inlet",
        "is_known",
        "known_at",
        "needs_identity",
        "next_order",
        "next_sequence",
        "node_id",
        "place",
        "renumbers",
        "retry_at",
        "short_bytes",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        self.waiting: deque[PendingBatch] = deque()
        """In order; the last may still be growing."""
        self.waiting_bytes = 0
        self.inlet: Inlet | None = None
        """Where its records go the short way; None if there is no such way."""
        self.short_bytes = 0
        """What went the short way since a partition was last chosen for a record without a key."""
        self.in_flight: list[PendingBatch] = []
        """In order; those whose request is not answered."""
        self.node_id = -1
        """The broker that has those in flight."""
        self.next_order = 0
        self.given = NOBODY
        """The identity that the producer had when this partition last took it over."""
        self.identity = NOBODY
        """As whom its batches are sent: `given`, or that with a later epoch after holes."""
        self.next_sequence = 0
        self.is_known = False
        """Whether the broker has taken a batch under this identity, not long ago."""
        self.known_at = 0.0
        self.retry_at = 0.0
        """Before this moment nothing is sent: a try has just failed."""
        self.renumbers = False
        """Whether there is a hole, so that all that wait must be numbered anew."""
        self.needs_identity = False
        """Whether its epochs are used up, so that it needs another producer id."""

    def may_send(self, node_id: int) -> bool:
        """Whether the order allows to send the oldest that waits to a broker now."""
        if not self.in_flight:
            return True
        if self.renumbers or node_id != self.node_id or not (self.is_known or self.identity == NOBODY):
            return False
        return self.waiting[0].attempts == 0 and self.in_flight[-1].attempts == 1

    def adopt(self, identity: ProducerIdentity) -> None:
        """Be sent under the producer's identity, with numbers from 0, as soon as that can do no harm.

        A batch that was sent and may have been written keeps its number until that is known: under another
        one it would be written twice.
        """
        if identity == self.given or self.in_flight:
            return
        if not self.renumbers and any(batch.base_sequence != NO_SEQUENCE for batch in self.waiting):
            return
        self.given = self.identity = identity
        self.needs_identity = False
        self._start_over()

    def number(self, batch: PendingBatch) -> None:
        """Give a batch that is about to be sent its sequence number, if it has none."""
        if self.renumbers:
            self._bump()
            _forget_number(batch)
        if self.identity == NOBODY or batch.base_sequence != NO_SEQUENCE:
            return
        batch.identity = self.identity
        batch.base_sequence = self.next_sequence
        self.next_sequence = (self.next_sequence + batch.count) & MAX_SEQUENCE

    def sent(self, batch: PendingBatch, node_id: int, now: float) -> None:
        """Note that it is under way."""
        if now - self.known_at > FORGOTTEN_AFTER_S:
            self.is_known = False
        self.node_id = node_id
        batch.attempts += 1
        batch.sent_at = now
        self.in_flight.append(batch)

    def answered(self, batch: PendingBatch) -> None:
        """Note that it is under way no more, whatever the answer is."""
        self.in_flight.remove(batch)

    def delivered(self, now: float) -> None:
        """Note that the broker has taken a batch: now it knows where the numbers go on."""
        self.is_known = True
        self.known_at = now

    def again(self, batch: PendingBatch, error: EverlogError, retry_at: float) -> None:
        """Put a batch that was not delivered back where it stood."""
        batch.last_error = error
        batch.was_lost = batch.was_lost or not isinstance(error, Refused)
        self.retry_at = max(self.retry_at, retry_at)
        self._put_back(batch)

    def out_of_order(self, batch: PendingBatch, error: EverlogError) -> bool:
        """Put a batch back that came out of order; return whether that shows a hole."""
        batch.last_error = error
        first = min((other.order for other in self._sent()), default=batch.order)
        self._put_back(batch)
        if batch.order > first or self.renumbers:
            return False
        self.renumbers = True
        self.needs_identity = self.identity.producer_epoch >= MAX_EPOCH
        return True

    def divided(self, batch: PendingBatch) -> None:
        """Put the halves of a batch that is too large where it stood."""
        for part in batch.divide():
            self._put_back(part)

    def _sent(self) -> list[PendingBatch]:
        return [*self.in_flight, *(batch for batch in self.waiting if batch.base_sequence != NO_SEQUENCE)]

    def _put_back(self, batch: PendingBatch) -> None:
        at = 0
        while at < len(self.waiting) and self.waiting[at].order < batch.order:
            at += 1
        self.waiting.insert(at, batch)
        self.waiting_bytes += batch.charged_bytes

    def _bump(self) -> None:
        assert not self.in_flight, self.place
        self.identity = ProducerIdentity(self.identity.producer_id, self.identity.producer_epoch + 1)
        self._start_over()

    def _start_over(self) -> None:
        self.renumbers = False
        self.is_known = False
        self.next_sequence = 0
        for batch in self.waiting:
            _forget_number(batch)


def _forget_number(batch: PendingBatch) -> None:
    batch.base_sequence = NO_SEQUENCE
    batch.encoded = None

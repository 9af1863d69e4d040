"""Whether a producer's transaction may begin in a partition: asked of its coordinator before the first batch.

Without it a batch that comes late, after its transaction was ended, would begin one that nobody ends, and
readers of committed records would stand still for ever (KIP-890). None of this outlives the process.
"""

from everlog.model.errors import ErrorCode, Refused
from everlog.records.batch import BatchView


class Verification:
    """One producer's question to its coordinator, about one partition.

    It is good for one transaction. That is why it is an object of its own: an answer that comes after the
    transaction was ended goes to one that nobody looks at any more.
    """

    __slots__ = ("admitted", "epoch", "epoch_bump", "heard_at", "lowest_sequence", "refusal")

    def __init__(self, batch: BatchView, *, epoch_bump: bool, heard_at: int) -> None:
        self.epoch = batch.producer_epoch
        self.lowest_sequence = batch.base_sequence
        """The first of all batches that wait: one behind it must not be written before it."""
        self.epoch_bump = epoch_bump
        """Whether each transaction of the producer has an epoch of its own."""
        self.heard_at = heard_at
        self.admitted = False
        self.refusal: Refused | None = None
        """Why the coordinator said no, if it did."""

    def take_in(self, batch: BatchView) -> None:
        """Let another batch wait for the same answer."""
        if batch.producer_epoch > self.epoch:
            self.epoch = batch.producer_epoch
            self.lowest_sequence = batch.base_sequence
        elif batch.producer_epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, batch.base_sequence)

    def answered(self, refusal: Refused | None) -> None:
        """Take in what the coordinator says; None is yes."""
        self.admitted = refusal is None
        self.refusal = refusal

    def check(self, batch: BatchView, *, is_known: bool) -> None:
        """Refuse a batch that was not admitted; `is_known` is whether we know its producer."""
        if not self.admitted:
            raise self.refusal or not_verified(batch)
        sequence = batch.base_sequence
        if self.epoch_bump and sequence != 0 and not is_known:
            # Nothing of such a producer is ever forgotten inside of an epoch, so something must be missing.
            raise Refused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} is new here and begins at {sequence}, expected 0",
            )
        if sequence > self.lowest_sequence:
            raise Refused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} sent {self.lowest_sequence} first, found {sequence}",
            )


def not_verified(batch: BatchView) -> Refused:
    """The refusal of a batch whose transaction nobody vouches for."""
    return Refused(
        ErrorCode.INVALID_TXN_STATE,
        f"producer {batch.producer_id} in epoch {batch.producer_epoch} has no transaction in this partition",
    )

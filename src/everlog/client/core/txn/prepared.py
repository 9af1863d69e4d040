"""A transaction that is written and not ended: its producer has left the end to somebody else (KIP-939)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """What it takes to end a transaction without its producer; it may be stored, and used after a restart."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    version: int = 2
    """The protocol that its producer speaks: 2 where the end raises the epoch (KIP-890), else 1."""

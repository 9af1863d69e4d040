"""How fast replicas may catch up: a rate for what leaders send and one for what followers take (KIP-73).

Only replicas that are named as throttled, and are not in sync, are held back: writes wait for those in sync.
"""

from typing import Final

from everlog.broker.replicas import Replica
from everlog.model.ids import Instant
from everlog.model.settings.kinds import LONG_MAX

ALL: Final = "*"
_BURST_MS: Final = 1000
"""What was not used for so long may be used at once."""


class ReplicationQuota:
    """A rate in bytes a second, and what was used of it."""

    def __init__(self) -> None:
        self.bytes_per_second: int | None = None
        """None is no limit."""
        self._left = 0.0
        """Bytes that may go now; below zero where the last batch was larger than what was left."""
        self._counted_at = Instant(0)

    def set_rate(self, bytes_per_second: int | None) -> None:
        """Allow so much from now on."""
        if bytes_per_second == LONG_MAX:
            bytes_per_second = None
        if bytes_per_second != self.bytes_per_second:
            self.bytes_per_second = bytes_per_second
            self._left = 0.0

    def used(self, count: int) -> None:
        """Note that so many bytes went."""
        if self.bytes_per_second is not None:
            self._left -= count

    def is_exceeded(self, now: Instant) -> bool:
        """Whether nothing more may go for now."""
        rate = self.bytes_per_second
        if rate is None:
            return False
        self._left = min(self._left + rate * (now - self._counted_at) / 1000, rate * _BURST_MS / 1000)
        self._counted_at = now
        return self._left < 0

    def wait_ms(self) -> int:
        """How long until something may go again, as far as it is known."""
        rate = self.bytes_per_second
        return 1 if not rate or self._left >= 0 else max(1, int(-self._left * 1000 / rate) + 1)


def is_throttled(named: tuple[str, ...], replica: Replica, broker: int) -> bool:
    """Whether a setting like `leader.replication.throttled.replicas` names a broker's replica."""
    return ALL in named or f"{replica.name.partition}:{broker}" in named

"""The real clocks."""

import time

from everlog.model.ids import Instant, Timestamp


class SystemClock:
    """The machine's monotonic and wall clocks."""

    def now(self) -> Instant:
        """Milliseconds that never go back, from an arbitrary start."""
        return Instant(time.monotonic_ns() // 1_000_000)

    def wall(self) -> Timestamp:
        """Milliseconds since 1970 UTC; follows the machine's clock wherever it is set."""
        return Timestamp(time.time_ns() // 1_000_000)

"""Time and chance as clients take them: the system's, unless a simulation puts its own in their place.

Ask with the module's name, `surroundings.monotonic()`: whoever imports a name keeps the system's.
"""

import random
import time
from collections.abc import Callable

monotonic: Callable[[], float] = time.monotonic
"""Seconds that never go back; the clock of the event loop."""

time_ns: Callable[[], int] = time.time_ns
"""Nanoseconds since 1970 UTC, which records bear in milliseconds."""

chance: random.Random = random.SystemRandom()
"""Where waits, partitions of records without a key and names of members come from.

The system's, not a generator with a seed of its own: processes that fork would go on with the same numbers.
"""

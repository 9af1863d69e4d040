"""Staying awake for a moment after a round of requests, where the next has been coming that soon.

To wake a core takes tens of microseconds, on a virtual machine more, and a client that sends one request
after the other waits for it each time: that was half of its latency. So the loop looks for more a little
longer before it sleeps. It does so only while nearly every look has paid, and stops at once where somebody
else wants the core.
"""

import asyncio
import os
import time
from collections.abc import Callable

LOOK_NS = 200_000
"""For how long to look for the next request."""

CROWDED_NS = 20_000
"""A core that we offer to others and get back later than this has others to serve."""

SURE = 8
"""How often in a row the next request must have come soon; each that did not costs half of that."""

FEW = 4
"""Where more connections than these have requests at once, the time to wake gathers more of them, which makes
each cheaper."""

LARGE_BYTES = 128 * 1024
"""Requests of more bytes than these take a client longer to make than us to wake."""

_MOST = 2 * SURE


def may_stay_awake() -> bool:
    """Whether somebody else can run while we look."""
    return len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else False


class Wakeful:
    """Keeps an event loop from sleeping between rounds that follow each other closely."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        now_ns: Callable[[], int] = time.monotonic_ns,
        offer_core: Callable[[], None] = os.sched_yield,
    ) -> None:
        self._loop = loop
        self._now_ns = now_ns
        self._offer_core = offer_core
        self._ended_at = 0
        self._soon = 0
        """How often the next request came soon, as far as it counts."""
        self._looking = False
        self._looked_since = 0
        """The end of the round that the last look came after."""

    def round_begins(self) -> None:
        """Requests have come: note whether they came soon."""
        if self._now_ns() - self._ended_at < LOOK_NS:
            self._soon = min(self._soon + 1, _MOST)
        else:
            self._soon = max(self._soon - SURE // 2, 0)

    def round_ends(self, connections: int, size: int) -> None:
        """So many bytes of so many connections have been answered: look for the next, if that has paid."""
        self._ended_at = self._now_ns()
        if connections > FEW or size > LARGE_BYTES:
            self._soon = 0
        if self._soon >= SURE and not self._looking:
            self._looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        if self._soon < SURE:
            self._looking = False
            return
        if self._looked_since != self._ended_at:
            # There was something to do since: the loop is busy, and may be so again at once.
            self._looked_since = self._ended_at
            self._loop.call_soon(self._look)
            return
        began_at = self._now_ns()
        if began_at - self._ended_at < LOOK_NS:
            self._offer_core()
            if self._now_ns() - began_at < CROWDED_NS:
                # As long as something is to be called, the loop asks for events without waiting for them.
                self._loop.call_soon(self._look)
                return
            self._soon = 0
        self._looking = False

"""A progress bar on stderr, drawn only where somebody watches."""

import sys
import time
from types import TracebackType
from typing import Self

from everlog.cli.shapes import size_text

REDRAW_SECONDS = 0.1
_WIDTH = 28


class Progress:
    """Shows how far a job is, how fast, and how long it will take; silent where stderr is no terminal.

    `total` counts what `step` counts; 0 is not known, and shows the rate alone.
    """

    def __init__(self, label: str, total: int, unit: str, *, shown: bool | None = None) -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._done = 0
        self._bytes = 0
        self._began = time.monotonic()
        self._drawn_at = 0.0

    def step(self, count: int, size_bytes: int = 0) -> None:
        """Count what was done; draws at most ten times a second."""
        self._done += count
        self._bytes += size_bytes
        if self._shown and (now := time.monotonic()) - self._drawn_at >= REDRAW_SECONDS:
            self._draw(now)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it is in the end, and the cursor below it."""
        if self._shown:
            self._draw(time.monotonic())
            sys.stderr.write("\n")
            sys.stderr.flush()

    def line(self, now: float) -> str:
        """The bar as text."""
        seconds = max(now - self._began, 1e-6)
        rate = self._done / seconds
        if self._unit == "B":
            facts = [size_text(self._done), f"{size_text(rate)}/s"]
        else:
            facts = [f"{self._done:,} {self._unit}", f"{rate:,.0f}/s"]
            if self._bytes:
                facts.append(f"{self._bytes / seconds / 1e6:,.1f} MB/s")
        if not self._total:
            return f"{self._label}  {'  '.join(facts)}"
        share = min(1.0, self._done / self._total)
        filled = int(share * _WIDTH)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        if 0 < share < 1 and rate > 0:
            facts.append(f"{(self._total - self._done) / rate:.0f} s left")
        return f"{self._label}  {bar} {share:4.0%}  {'  '.join(facts)}"

    def _draw(self, now: float) -> None:
        self._drawn_at = now
        sys.stderr.write(f"\r\x1b[2K{self.line(now)}")
        sys.stderr.flush()

"""What a person sees of a table that is fed: one line on the terminal, drawn anew with each commit."""

import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True)
class Tally:
    """What a run has done."""

    batches: int
    rows: int
    bad: int | None
    """Dead letters; None if the engine does not tell."""
    seconds: float

    @property
    def rows_per_second(self) -> float:
        """Over all of the run."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0


class Watch:
    """Counts batches, and shows them on stderr where that is a terminal."""

    def __init__(self, name: str, *, shown: bool | None = None) -> None:
        self._name = name
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._began = self._last = time.monotonic()
        self._batches = self._rows = self._bad = 0

    def __enter__(self) -> Self:
        self.say("waiting for records")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the cursor below the line."""
        if self._shown:
            sys.stderr.write("\n")
            sys.stderr.flush()

    def batch(self, rows: int, bad: int, lag: int | None) -> None:
        """A batch was committed."""
        now = time.monotonic()
        self._batches += 1
        self._rows += rows
        self._bad += bad
        self.say(self.line(rows / max(now - self._last, 1e-6), lag))
        self._last = now

    def line(self, rate: float, lag: int | None) -> str:
        """The counts as text, with the rate of the last batch."""
        facts = [f"{self._rows:,} rows", f"{rate:,.0f}/s", f"commit {self._batches}"]
        if lag is not None:
            facts.append(f"{lag:,} behind")
        if self._bad:
            facts.append(f"{self._bad:,} dead letters")
        return "  ".join(facts)

    def say(self, text: str) -> None:
        """Show a text in place of the line."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[2K{self._name}  {text}")
            sys.stderr.flush()

    def tally(self) -> Tally:
        """What was counted so far."""
        return Tally(self._batches, self._rows, self._bad, time.monotonic() - self._began)

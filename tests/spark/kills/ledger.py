"""What came of each kill: a line of JSON, written as soon as it is known, and the tables made of them."""

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.spark.kills.plan import Kill


@dataclass(frozen=True, slots=True)
class Count:
    """Rows that went in, rows that are there, and those that are there too often or not at all."""

    rows_in: int
    rows_out: int
    duplicates: int
    losses: int

    @property
    def right(self) -> bool:
        """Whether each input is there once."""
        return not self.duplicates and not self.losses


@dataclass(frozen=True, slots=True)
class Entry:
    """One kill and what was found when its round was over."""

    number: int
    """Its place in the plan."""
    life: str
    """Its surroundings, and the number of the first kill there."""
    sink: str
    kind: str
    step: str
    seed: int
    commit: str
    """Of the code that was killed."""
    round: int
    """Kills of one round come one after the other, without waiting; they share the verdict."""
    seconds: float
    """What the round took, for each of its kills."""
    rows_in: int
    rows_out: int
    duplicates: int
    losses: int
    low_latency: bool | None = None
    """Whether topics were read with lowLatency=true; None: it was not noted yet."""
    problem: str = ""
    """What else was wrong: a round that came to no end, a transaction left open."""

    @property
    def right(self) -> bool:
        """Whether each input was there once, and nothing else was wrong."""
        return not self.duplicates and not self.losses and not self.problem


class Ledger:
    """The entries of a file, of one seed or of all; what is there already was done by an earlier run."""

    def __init__(self, path: Path, seed: int | None) -> None:
        self._path = path
        self.entries: list[Entry] = []
        self.of_other_seeds = 0
        """Entries that are there and not here."""
        if path.exists():
            text = path.read_text()
            # A line that was cut off by the end of a run is no entry, and ends before the next one begins.
            if text and not text.endswith("\n"):
                path.write_text(text + "\n")
            for line in text.splitlines():
                try:
                    entry = Entry(**json.loads(line))
                except (ValueError, TypeError):
                    continue
                if seed in (None, entry.seed):
                    self.entries.append(entry)
                else:
                    self.of_other_seeds += 1
        path.parent.mkdir(parents=True, exist_ok=True)

    def left_of(self, kills: Sequence[Kill], *, low_latency: bool = False) -> list[tuple[int, Kill]]:
        """The kills that are not here as often as they are wanted, each with its place."""
        done = Counter(
            (entry.life.rpartition(" ")[0], entry.sink, entry.kind, entry.step)
            for entry in self.entries
            if bool(entry.low_latency) == low_latency
        )
        left: list[tuple[int, Kill]] = []
        for number, kill in enumerate(kills):
            which = (kill.life.name, kill.sink, kill.kind, kill.step)
            if done[which]:
                done[which] -= 1
            else:
                left.append((number, kill))
        return left

    def write(self, entries: Iterable[Entry]) -> None:
        """Add what came of a round."""
        with self._path.open("a") as file:
            for entry in entries:
                self.entries.append(entry)
                file.write(json.dumps(asdict(entry)) + "\n")


class Progress:
    """A bar with the kills so far and the time that the others will take, as far as those tell."""

    def __init__(self, ledger: Ledger, wanted: int, now: Callable[[], float] = time.monotonic) -> None:
        self._ledger = ledger
        self._wanted = wanted
        self._now = now
        self._began = now()
        self._before = len(ledger.entries)

    def line(self) -> str:
        """How far it is, in one line."""
        done = len(self._ledger.entries)
        wrong = sum(not entry.right for entry in self._ledger.entries)
        filled = 24 * done // max(self._wanted, 1)
        text = f"[{'#' * filled}{'.' * (24 - filled)}] {done}/{self._wanted} kills, {wrong} wrong"
        here = done - self._before
        if here:
            each = (self._now() - self._began) / here
            text += f", {each:.1f} s each, {each * (self._wanted - done) / 60:.0f} min left"
        return text

    def show(self) -> None:
        """Say how far it is: over and over on one line of a terminal, else a line each time."""
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{self.line()[:width]:{width}}", end="", flush=True)
        else:
            last = self._ledger.entries[-1] if self._ledger.entries else None
            told = f"; {last.sink}: {last.kind} {last.step}, {last.seconds:.1f} s" if last else ""
            print(self.line() + told, flush=True)


def summary(entries: Iterable[Entry]) -> str:
    """All kills by victim and sink, and what was wrong after them."""
    found = list(entries)
    sinks = sorted({entry.sink for entry in found}, key=lambda name: (name != "topic", name))
    kinds = sorted({entry.kind for entry in found})
    width = max([len(name) for name in sinks] + [4])
    cells = Counter((entry.sink, entry.kind) for entry in found)
    lines = ["".join([f"{'sink':{width}}", *(f"{kind:>11}" for kind in kinds), f"{'all':>7}{'wrong':>7}"])]
    for sink in [*sinks, "all"]:
        of_sink = [entry for entry in found if sink in (entry.sink, "all")]
        numbers = [sum(cells[name, kind] for name in (sinks if sink == "all" else [sink])) for kind in kinds]
        bad = sum(not entry.right for entry in of_sink)
        row = [f"{sink:{width}}", *(f"{number:11}" for number in numbers), f"{len(of_sink):7}{bad:7}"]
        lines.append("".join(row))
    steps = Counter(f"{entry.kind} {entry.step}" for entry in found)
    lines += ["", *(f"{count:5} {name}" for name, count in sorted(steps.items()))]
    commits = Counter(entry.commit for entry in found)
    lines += ["", "of the code: " + ", ".join(f"{count} of {name}" for name, count in commits.items())]
    if quick := sum(bool(entry.low_latency) for entry in found):
        lines.append(f"{quick} with lowLatency=true")
    lines += [f"WRONG {problem}" for problem in sorted({entry.problem for entry in found if entry.problem})]
    # Each entry counts all of its life and sink so far; the last one says it.
    lives = {(entry.life, entry.sink): entry for entry in found}
    rows = sum(entry.rows_in for entry in lives.values())
    duplicates = sum(entry.duplicates for entry in lives.values())
    losses = sum(entry.losses for entry in lives.values())
    wrong = sum(not entry.right for entry in found)
    lines.append(
        f"{len(found)} kills, {rows} rows in, {duplicates} duplicates, {losses} losses, {wrong} kills wrong"
    )
    return "\n".join(lines)

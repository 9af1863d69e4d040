"""Carries out a plan: life by life, round by round, with a line of the ledger whatever comes of a kill."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from tests.spark.kills.campaign import Campaign
from tests.spark.kills.ledger import Count, Entry, Ledger, Progress
from tests.spark.kills.plan import Kill, Life, cheap_first, rounds
from tests.spark.kills.victims import ROOT
from tests.spark.standalone import NoRoom

Numbered = tuple[int, Kill]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a plan."""

    ledger: Ledger
    seed: int
    deadline: float
    """Of time.monotonic(); no round begins later."""
    low_latency: bool = False
    java: Callable[[], str] = str
    """The options of each JVM; asked for when one is needed, as it may take a minute to make them."""
    lose_row: int | None = None
    """What a query in small drops on purpose."""

    def carry_out(self, kills: Sequence[Kill]) -> str:
        """Kill whoever of these is not in the ledger yet; what is wrong, or "". Stops at the first wrong."""
        left = cheap_first(self.ledger.left_of(kills, low_latency=self.low_latency))
        progress = Progress(self.ledger, len(kills))
        for life, block in groupby(left, key=lambda one: one[1].life):
            progress.show()
            if time.monotonic() > self.deadline:
                break
            if wrong := self._live(life, list(block), progress):
                return wrong
        return ""

    def _live(self, life: Life, kills: list[Numbered], progress: Progress) -> str:
        """Kill in one life; what is wrong, and where its files are kept then."""
        folder = Path(tempfile.mkdtemp(prefix="everlog-kills-"))
        # Chance goes on from what is done: a run that is begun again does not repeat the same moments.
        chance = self.seed * 1_000_003 + kills[0][0]
        wrong = ""
        # The verdict of a round waits for the next one's beginning: the last has to bear what the end brings.
        pending: list[Entry] = []
        try:
            with ExitStack() as stack:
                campaign = self._campaign(life, folder, chance)
                stack.callback(campaign.close)
                for number, one in enumerate(rounds(kills, chance)):
                    if time.monotonic() > self.deadline or wrong:
                        break
                    self.ledger.write(pending)
                    pending = self._round(campaign, f"{life.name} {kills[0][0]}", one, number)
                    progress.show()
                    wrong = "" if all(entry.right for entry in pending) else str(pending[-1])
                if not wrong and (wrong := _end(campaign)):
                    pending = [replace(entry, problem=wrong) for entry in pending]
        except NoRoom as error:
            print(f"\nno executors are killed: {error}")
        except Exception as error:  # noqa: BLE001  # whatever it is, its files are kept and it is told
            wrong = wrong or _one_line(error)
        finally:
            self.ledger.write(pending)
            # Also when it is asked to end; what is wrong can be looked at.
            if not wrong:
                shutil.rmtree(folder, ignore_errors=True)
        return wrong and f"{life.name}: {wrong}; all files are kept in {folder}"

    def _campaign(self, life: Life, folder: Path, chance: int) -> Campaign:
        return Campaign(
            folder,
            seed=chance,
            two_phase=life.two_phase,
            spark=life.spark,
            executors=life.executors,
            java=self.java(),
            low_latency=self.low_latency,
            lose_row=self.lose_row,
        )

    def _round(self, campaign: Campaign, life: str, kills: Sequence[Numbered], number: int) -> list[Entry]:
        """Kill one after the other and count; a round that comes to no end is wrong, with what is there."""
        began = time.monotonic()
        problem = ""
        try:
            campaign.use(kills[0][1].sink)
            count = campaign.round([(kill.kind, kill.step) for _, kill in kills])
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this round's verdict
            problem = _one_line(error)
            count = _count_so_far(campaign)
        seconds = round((time.monotonic() - began) / len(kills), 1)
        commit = _commit()
        return [
            Entry(
                n, life, kill.sink, kill.kind, kill.step, self.seed, commit, number, seconds,
                count.rows_in, count.rows_out, count.duplicates, count.losses, self.low_latency, problem,
            )
            for n, kill in kills
        ]  # fmt: skip


def _end(campaign: Campaign) -> str:
    """What is wrong when all is over: rows, transactions that were left open, a group that is behind."""
    report = campaign.finish()
    return "" if report.right and not report.lag else str(report)


def _count_so_far(campaign: Campaign) -> Count:
    try:
        return campaign.count_so_far()
    except Exception:  # noqa: BLE001  # the round has failed, and says of what
        return Count(campaign.fed, 0, 0, campaign.fed)


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"


def _commit() -> str:
    """Of the code that is killed; `+` if it was changed since."""
    git = ["git", "-C", str(ROOT)]
    named = subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src"], check=False)
    return named.stdout.strip() + ("+" if changed.returncode == 1 else "")
